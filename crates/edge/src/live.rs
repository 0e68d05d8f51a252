//! What connections that are open do now, for those who ask.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hikyaku_congestion::{Algorithm, Handle};
use hikyaku_core::explain::{FloorState, OpenConnection, SubflowState};
use hikyaku_units::ByteSize;

use crate::conn::Conn;
use crate::measure::{Socket, Window};

/// A connection that is served, and the transport that can be asked about it. Asking costs what
/// it costs; not being asked costs nothing.
#[derive(Debug)]
pub(crate) struct LiveConnection {
    conn: Weak<Conn>,
    transport: Transport,
}

#[derive(Debug)]
enum Transport {
    /// Not kept open by this.
    Tcp(Weak<Socket>),
    Quic(quinn::Connection),
}

impl LiveConnection {
    /// Over a TCP or MPTCP socket.
    pub(crate) fn tcp(conn: &Arc<Conn>, socket: &Arc<Socket>) -> Self {
        Self {
            conn: Arc::downgrade(conn),
            transport: Transport::Tcp(Arc::downgrade(socket)),
        }
    }

    /// Over QUIC.
    pub(crate) fn quic(conn: &Arc<Conn>, quic: quinn::Connection) -> Self {
        Self {
            conn: Arc::downgrade(conn),
            transport: Transport::Quic(quic),
        }
    }

    /// What it does now; `None` if it has just ended.
    pub(crate) fn look(&self) -> Option<OpenConnection> {
        let conn = self.conn.upgrade()?;
        let (window, floor, subflows) = match &self.transport {
            Transport::Tcp(socket) => {
                let socket = socket.upgrade()?;
                (socket.window().ok()?, None, socket.subflow_states())
            }
            Transport::Quic(quic) => {
                let (window, floor) = of_quic(quic)?;
                (window, floor, Vec::new())
            }
        };
        let egress = conn.shared.egress.as_deref();
        let with_path = |subflow: SubflowState| SubflowState {
            path: egress.and_then(|egress| egress.name_of_address(subflow.local.ip())),
            ..subflow
        };
        Some(OpenConnection {
            version: conn.peer.version,
            port: conn.peer.remote.port(),
            age: Duration::from_millis(conn.age().as_millis() as u64),
            algorithm: window.algorithm,
            cwnd: ByteSize::from_bytes(window.bytes),
            slow_start: window.slow_start,
            floor,
            route: conn.route_name(),
            subflows: subflows.into_iter().map(with_path).collect(),
        })
    }
}

fn of_quic(quic: &quinn::Connection) -> Option<(Window, Option<FloorState>)> {
    // A client that moves to another path gets another controller.
    let state = Handle::of(quic.congestion_state())?.state();
    let floor = FloorState {
        bytes: state.floor.map(ByteSize::from_bytes),
        doubt_rounds: state.doubt_rounds,
    };
    let held = state.algorithm == Algorithm::Floor || state.floor.is_some();
    let window = Window {
        algorithm: state.algorithm.name().to_owned(),
        bytes: quic.stats().path.cwnd,
        slow_start: state.slow_start,
    };
    Some((window, held.then_some(floor)))
}
