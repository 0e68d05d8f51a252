//! Hints on MPTCP connections for the agent: it sees neither their content nor the choices made for
//! them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hikyaku_core::egress::{EgressSet, Mode, Route};
use http::{Method, StatusCode};
use serde::Serialize;
use tokio::sync::mpsc;

use super::agent::{AgentError, Requests};
use super::{ClassId, Egress};

/// Words that may wait for the agent. Beyond, connections keep what they have.
const QUEUE: usize = 4096;

/// Notifies the agent of the class and mode of connections.
#[derive(Debug)]
pub(super) struct Hints {
    queue: mpsc::Sender<Hint>,
    /// Moves on with the agent, which forgets all hints when it restarts.
    epoch: AtomicU64,
    /// The agent can follow hints.
    obeyed: AtomicBool,
}

/// The ends of a subflow of MPTCP, which name it within its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct SubflowEnds {
    /// The server's.
    pub(crate) local: SocketAddr,
    /// The client's.
    pub(crate) remote: SocketAddr,
}

/// Hint for the agent about a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hint {
    pub(super) token: u32,
    pub(super) class: ClassId,
    pub(super) mode: Mode,
    /// Paths on which its data are lost.
    pub(super) avoid: EgressSet,
    /// Paths whose port has no room for its content.
    pub(super) full: EgressSet,
    /// Its subflows, the one to use first; empty where all are to be used.
    pub(super) order: Arc<[SubflowEnds]>,
    epoch: u64,
}

impl Hints {
    pub(super) fn new() -> (Self, mpsc::Receiver<Hint>) {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let hints = Self {
            queue,
            epoch: AtomicU64::new(0),
            obeyed: AtomicBool::new(true),
        };
        (hints, waiting)
    }

    /// The hint for a connection now.
    pub(super) fn of(
        &self,
        token: u32,
        class: ClassId,
        route: Route,
        [avoid, full]: [EgressSet; 2],
        order: Arc<[SubflowEnds]>,
    ) -> Hint {
        Hint {
            token,
            class,
            mode: match route {
                Route::Plain => Mode::Plain,
                Route::Steered(_) => Mode::Steered,
                Route::Aggregated => Mode::Aggregated,
            },
            avoid,
            full,
            order,
            epoch: self.epoch.load(Ordering::Relaxed),
        }
    }

    /// Queues a hint for the agent. Returns whether the queue had room.
    pub(super) fn send(&self, hint: Hint) -> bool {
        self.queue.try_send(hint).is_ok()
    }

    /// Whether the agent follows hints, so that several egress routes may be chosen for a connection.
    pub(super) fn are_obeyed(&self) -> bool {
        self.obeyed.load(Ordering::Relaxed)
    }

    /// The agent may be another one, or have another configuration.
    pub(super) fn renew(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
        self.obeyed.store(true, Ordering::Relaxed);
    }
}

/// The body of `PUT /v1/connections`.
#[derive(Debug, Serialize)]
struct Body<'a> {
    token: u32,
    class: &'a str,
    mode: Mode,
    avoid: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    full: Vec<&'a str>,
    order: &'a [SubflowEnds],
}

impl Egress {
    /// Sends the agent the hints of the queue.
    pub(super) async fn send_hints(self: Arc<Self>, mut waiting: mpsc::Receiver<Hint>) {
        let mut requests = Requests::new(self.socket.clone());
        while let Some(hint) = waiting.recv().await {
            if !self.hints.are_obeyed() {
                continue;
            }
            if let Err(error) = self.send_one(&mut requests, hint).await {
                self.trouble.report(&self.socket, &error.to_string());
                // Later decisions send it anew.
                self.hints.epoch.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    async fn send_one(&self, requests: &mut Requests, hint: Hint) -> Result<(), AgentError> {
        let (rules, state) = (self.rules.load_full(), self.state.load_full());
        let names = |paths: EgressSet| {
            let names = paths.iter().filter_map(|path| state.names().name(path));
            names.collect()
        };
        let body = Body {
            token: hint.token,
            class: rules.classes.name(hint.class),
            mode: hint.mode,
            avoid: names(hint.avoid),
            full: names(hint.full),
            order: &hint.order,
        };
        let answer = requests.ask(&Method::PUT, "/v1/connections", &body).await;
        match answer {
            Err(AgentError::Refused { status, .. }) if status == StatusCode::NOT_IMPLEMENTED => {
                self.is_not_obeyed();
                Ok(())
            }
            answer => answer.map(drop),
        }
    }

    fn is_not_obeyed(&self) {
        self.hints.obeyed.store(false, Ordering::Relaxed);
        self.set_gate();
        tracing::info!(
            "the egress agent lets the kernel decide about MPTCP: aggregation is not chosen by \
             connection (its `mptcp.mode` is not \"userspace\")"
        );
        self.reroute_all();
    }
}
