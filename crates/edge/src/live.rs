//! State of open connections, for those who ask.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hikyaku_congestion::{Algorithm, Handle};
use hikyaku_core::explain::{FloorState, OpenConnection, SubflowState};
use hikyaku_quic::Connection;
use hikyaku_units::ByteSize;
use parking_lot::Mutex;

use crate::conn::Conn;
use crate::limits::Admission;
use crate::measure::Socket;
use crate::transport::Window;

/// Connections are listed in this many tables, so that few of them meet in one.
const STRIPES: usize = 64;

/// Those of each address, the oldest first.
type Stripe = Mutex<HashMap<IpAddr, Vec<Arc<LiveConnection>>>>;

/// The connections that are served.
#[derive(Debug)]
pub(crate) struct LiveConnections {
    hasher: RandomState,
    stripes: [Stripe; STRIPES],
}

impl Default for LiveConnections {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            stripes: std::array::from_fn(|_| Stripe::default()),
        }
    }
}

impl LiveConnections {
    /// Lists the connection of an admission, until the returned place is dropped.
    pub(crate) fn list(
        self: &Arc<Self>,
        mut admission: Admission,
        connection: LiveConnection,
    ) -> Place {
        admission.serve();
        let connection = Arc::new(connection);
        let address = admission.address();
        let mut stripe = self.stripe(address).lock();
        let listed = stripe.entry(address).or_default();
        listed.push(Arc::clone(&connection));
        drop(stripe);
        Place {
            list: Arc::clone(self),
            connection,
            admission,
        }
    }

    /// The connections of `address` that are served now, the oldest first.
    pub(crate) fn of(&self, address: IpAddr) -> Vec<Arc<LiveConnection>> {
        let address = address.to_canonical();
        let stripe = self.stripe(address).lock();
        stripe.get(&address).cloned().unwrap_or_default()
    }

    fn stripe(&self, address: IpAddr) -> &Stripe {
        let hash = self.hasher.hash_one(address);
        &self.stripes[hash as usize % STRIPES]
    }
}

/// The place of a connection that is served.
#[derive(Debug)]
pub(crate) struct Place {
    list: Arc<LiveConnections>,
    connection: Arc<LiveConnection>,
    admission: Admission,
}

impl Drop for Place {
    fn drop(&mut self) {
        let address = self.admission.address();
        let mut stripe = self.list.stripe(address).lock();
        if let Some(listed) = stripe.get_mut(&address) {
            listed.retain(|one| !Arc::ptr_eq(one, &self.connection));
            if listed.is_empty() {
                stripe.remove(&address);
            }
        }
    }
}

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
    Quic(Connection),
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
    pub(crate) fn quic(conn: &Arc<Conn>, quic: Connection) -> Self {
        Self {
            conn: Arc::downgrade(conn),
            transport: Transport::Quic(quic),
        }
    }

    /// State of the connection now; `None` if it has just ended.
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
            via: conn.via(),
            age: Duration::from_millis(conn.age().as_millis() as u64),
            algorithm: window.algorithm,
            cwnd: ByteSize::from_bytes(window.bytes),
            rtt: window.rtt,
            slow_start: window.slow_start,
            floor,
            route: conn.route_name(),
            scheduling: conn.route().and_then(|route| route.scheduling_state()),
            subflows: subflows.into_iter().map(with_path).collect(),
        })
    }
}

fn of_quic(quic: &Connection) -> Option<(Window, Option<FloorState>)> {
    // A client that moves to another path gets another controller.
    let state = Handle::of(quic.congestion_state())?.state();
    let floor = FloorState {
        bytes: state.floor.map(ByteSize::from_bytes),
        doubt_rounds: state.doubt_rounds,
    };
    let held = state.algorithm == Algorithm::Floor || state.floor.is_some();
    let path = quic.stats().path;
    let window = Window {
        algorithm: state.algorithm.name().to_owned(),
        bytes: path.cwnd,
        rtt: Some(path.rtt).filter(|rtt| !rtt.is_zero()),
        slow_start: state.slow_start,
    };
    Some((window, held.then_some(floor)))
}
