//! What the agent is told of MPTCP connections: it cannot see what they carry, nor what was chosen for
//! them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hikyaku_core::path::{Mode, PathSet, Route};
use http::{Method, StatusCode};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::agent::{AgentError, Requests};
use super::{ClassId, Egress};

/// Words that may wait for the agent. Beyond, connections keep what they have.
const QUEUE: usize = 4096;
/// Tries while the agent has no room for words of connections that the kernel has not told it of yet,
/// and the time between them.
const TRIES: u32 = 4;
const AGAIN: Duration = Duration::from_millis(50);

/// Tells the agent which class and mode connections have.
#[derive(Debug)]
pub(super) struct Hints {
    queue: mpsc::Sender<Hint>,
    /// Moves on with the agent, which forgets what it was told when it restarts.
    epoch: AtomicU64,
    /// The agent can do what it is told.
    obeyed: AtomicBool,
}

/// What the agent shall know of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hint {
    pub(super) token: u32,
    pub(super) class: ClassId,
    pub(super) mode: Mode,
    /// Paths on which its data are lost.
    pub(super) avoid: PathSet,
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

    /// What there is to tell of a connection now.
    pub(super) fn of(&self, token: u32, class: ClassId, route: Route, avoid: PathSet) -> Hint {
        Hint {
            token,
            class,
            mode: match route {
                Route::Plain => Mode::Plain,
                Route::Steered(_) => Mode::Steered,
                Route::Aggregated => Mode::Aggregated,
            },
            avoid,
            epoch: self.epoch.load(Ordering::Relaxed),
        }
    }

    /// Tells it, soon. Returns whether it will be.
    pub(super) fn tell(&self, hint: Hint) -> bool {
        self.queue.try_send(hint).is_ok()
    }

    /// Whether the agent does what it is told, so that several paths may be chosen for a connection.
    pub(super) fn are_obeyed(&self) -> bool {
        self.obeyed.load(Ordering::Relaxed)
    }

    /// The agent may be another one, or have another configuration.
    pub(super) fn renew(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
        self.obeyed.store(true, Ordering::Relaxed);
    }
}

/// What came of telling the agent of a connection.
#[derive(Debug)]
enum Told {
    Yes,
    /// It does not know the connection, and has no room to remember what it was told.
    NotYet,
}

/// What is told again.
#[derive(Debug)]
struct Later {
    due: Instant,
    hint: Hint,
    tries: u32,
}

/// What is to be told now, and how often at most.
async fn next(
    waiting: &mut mpsc::Receiver<Hint>,
    later: &mut VecDeque<Later>,
) -> Option<(Hint, u32)> {
    let arrived = match later.front() {
        Some(first) if first.due <= Instant::now() => None,
        Some(first) => timeout_at(first.due, waiting.recv()).await.ok(),
        None => Some(waiting.recv().await),
    };
    let Some(hint) = arrived else {
        return later.pop_front().map(|first| (first.hint, first.tries));
    };
    let hint = hint?;
    // It says what is so now.
    later.retain(|older| older.hint.token != hint.token);
    Some((hint, TRIES))
}

/// The body of `PUT /v1/connections`.
#[derive(Debug, Serialize)]
struct Body<'a> {
    token: u32,
    class: &'a str,
    mode: Mode,
    avoid: Vec<&'a str>,
}

impl Egress {
    /// Tells what comes from the queue, at once; what the agent can't take yet, a little later.
    pub(super) async fn tell(self: Arc<Self>, mut waiting: mpsc::Receiver<Hint>) {
        let mut requests = Requests::new(self.socket.clone());
        let mut later = VecDeque::new();
        while let Some((hint, tries)) = next(&mut waiting, &mut later).await {
            if !self.hints.are_obeyed() {
                continue;
            }
            match self.tell_one(&mut requests, hint).await {
                Ok(Told::NotYet) if tries > 1 => later.push_back(Later {
                    due: Instant::now() + AGAIN,
                    hint,
                    tries: tries - 1,
                }),
                // Told, or the connection has ended.
                Ok(Told::Yes | Told::NotYet) => {}
                Err(error) => {
                    self.trouble.tell(&self.socket, &error.to_string());
                    // Decisions to come tell it anew.
                    self.hints.epoch.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    async fn tell_one(&self, requests: &mut Requests, hint: Hint) -> Result<Told, AgentError> {
        let (rules, state) = (self.rules.load_full(), self.state.load_full());
        let names = hint.avoid.iter();
        let names = names.filter_map(|path| state.names().name(path));
        let body = Body {
            token: hint.token,
            class: rules.classes.name(hint.class),
            mode: hint.mode,
            avoid: names.collect(),
        };
        let answer = requests.ask(&Method::PUT, "/v1/connections", &body).await;
        match answer {
            Ok(_) => Ok(Told::Yes),
            Err(AgentError::Refused { status, .. }) if status == StatusCode::NOT_FOUND => {
                Ok(Told::NotYet)
            }
            Err(AgentError::Refused { status, .. }) if status == StatusCode::NOT_IMPLEMENTED => {
                self.is_not_obeyed();
                Ok(Told::Yes)
            }
            Err(error) => Err(error),
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
