//! The state that a fleet's tasks share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use redis::{Cmd, Value};
use tokio::sync::{Notify, watch};

use crate::board::Board;
use crate::breaker::{Breaker, Phase};
use crate::clock;
use crate::config::FleetConfig;
use crate::fault::{Fault, FaultKind, server_error};
use crate::link::Link;
use crate::member::{self, Member};
use crate::status::{Counters, Status, add};
use crate::writer::Change;

/// Failures in a row after which the store is left alone.
const FAILURES: u32 = 3;

/// The edge, as a fleet uses it.
pub trait Host: Send + Sync + 'static {
    /// Changes that were not given before, `max` at most.
    fn changes(&self, max: usize) -> Vec<Change>;
    /// Gives everything anew by [`changes`](Self::changes): the store has nothing of it.
    fn mark_all(&self);
    /// Applies a purge of another edge. `None`: purges were missed, so everything is to be purged.
    fn purge(&self, order: Option<&[u8]>);
}

/// State that the driver writes and all read.
pub(crate) struct Shared {
    pub(crate) config: FleetConfig,
    /// Name of this edge.
    pub(crate) name: String,
    /// Digest of the whole configuration.
    pub(crate) config_digest: Mutex<String>,
    /// The store, for messages.
    pub(crate) place: String,
    pub(crate) counters: Counters,
    pub(crate) board: Arc<Board>,
    /// Differs from that of all other processes that lease something.
    pub(crate) token: String,
    /// Turns that have begun.
    pub(crate) begun: AtomicU64,
    /// The last turn that succeeded.
    pub(crate) done: watch::Sender<u64>,
    /// Notified when the link is of no more use.
    pub(crate) broken: Notify,
    /// The connection, while the store can be used.
    link: RwLock<Option<Link>>,
    /// The number of the last connection.
    generation: AtomicU64,
    breaker: Mutex<Breaker>,
    health: Mutex<Health>,
    seen: Mutex<Seen>,
    /// The store's clock less this host's, in milliseconds.
    offset_ms: AtomicI64,
    duplicate: AtomicBool,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name, self.place)
    }
}

/// The faults, and since when they last.
#[derive(Default)]
struct Health {
    down: Option<(Fault, Instant)>,
    unwritten: Option<(Fault, Instant)>,
}

/// The outcome of the last look at the store.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    /// The members, and when they were read.
    pub(crate) members: Option<(Vec<Member>, Instant)>,
    pub(crate) keys: Option<u64>,
    pub(crate) key_bytes: Option<u64>,
    pub(crate) answer: Duration,
    /// Since when something has waited to be written.
    pub(crate) waiting: Option<Instant>,
    /// The answers to authorities that other members have, of each member that is heard of.
    pub(crate) acknowledged: Vec<Vec<String>>,
}

impl Shared {
    pub(crate) fn new(
        config: FleetConfig,
        name: String,
        config_digest: String,
        board: Arc<Board>,
    ) -> Self {
        Self {
            token: format!("{name} {:016x}", clock::random()),
            begun: AtomicU64::new(0),
            done: watch::channel(0).0,
            board,
            place: config.place(),
            config,
            name,
            config_digest: Mutex::new(config_digest),
            counters: Counters::default(),
            broken: Notify::new(),
            link: RwLock::new(None),
            generation: AtomicU64::new(0),
            breaker: Mutex::new(Breaker::new(FAILURES, clock::random())),
            health: Mutex::default(),
            seen: Mutex::default(),
            offset_ms: AtomicI64::new(0),
            duplicate: AtomicBool::new(false),
        }
    }

    /// The connection, if the store can be used.
    pub(crate) fn link(&self) -> Option<Link> {
        self.link.read().clone()
    }

    /// Runs groups of commands over a link, as [`Link::run`] does. The first error of a command fails it all.
    /// A key of another type is no such error: it is somebody's nonsense, and the others need not wait.
    pub(crate) async fn ask(
        &self,
        link: &Link,
        groups: Vec<Vec<Cmd>>,
    ) -> Result<Vec<Vec<Value>>, Fault> {
        let answers = link.run(groups).await;
        let answers =
            answers.map_err(|error| Fault::of(&error, &self.place, self.config.timeout))?;
        let counts =
            |value: &&Value| server_error(value).is_none_or(|error| error.code() != "WRONGTYPE");
        match Fault::among(answers.iter().flatten().filter(counts), &self.place) {
            Some(fault) => Err(fault),
            None => Ok(answers),
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.link.read().is_some()
    }

    /// How long the store is left alone.
    pub(crate) fn wait(&self) -> Duration {
        self.breaker.lock().wait(Instant::now())
    }

    /// Whether the store may be tried.
    pub(crate) fn allows(&self) -> bool {
        self.breaker.lock().allows(Instant::now())
    }

    /// The store can be used by `link`.
    pub(crate) fn came_up(&self, link: Link) {
        self.breaker.lock().succeeded();
        *self.link.write() = Some(link);
        self.generation.fetch_add(1, Ordering::Relaxed);
        add(&self.counters.connections, 1);
        if self.health.lock().down.take().is_some() {
            tracing::info!("the fleet's store, {}, is used again", self.place);
        }
    }

    /// This edge has left the fleet.
    pub(crate) fn left(&self) {
        *self.link.write() = None;
    }

    /// The store answered over the link.
    pub(crate) fn answered(&self) {
        let mut breaker = self.breaker.lock();
        // An answer that comes while it is open says nothing of the next one.
        if matches!(breaker.phase(), Phase::Closed(failures) if failures > 0) {
            breaker.succeeded();
        }
    }

    /// The number of the connection, for [`failed_at`](Self::failed_at).
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// A read failed that began at a connection. Those of a former one say nothing of the present one.
    pub(crate) fn failed_at(&self, generation: u64, fault: Fault) {
        if self.is_up() && generation == self.generation() {
            self.failed(fault);
        }
    }

    /// The store failed over the link. Once too often, or for good, and it is left alone for a while.
    pub(crate) fn failed(&self, fault: Fault) {
        match fault.kind().ends_connection() {
            true => self.gave_up(fault),
            false => {
                let opened = self.breaker.lock().failed(Instant::now());
                self.ended(fault, opened);
            }
        }
    }

    /// The store can't be used: it is left alone for a while.
    pub(crate) fn gave_up(&self, fault: Fault) {
        let opened = self.breaker.lock().trip(Instant::now());
        self.ended(fault, opened);
    }

    fn ended(&self, fault: Fault, opened: bool) {
        add(&self.counters.failures, 1);
        if !opened {
            return;
        }
        let now = Instant::now();
        *self.link.write() = None;
        self.broken.notify_one();
        let mut health = self.health.lock();
        let before = health.down.take();
        if before
            .as_ref()
            .is_none_or(|(former, _)| former.kind() != fault.kind())
        {
            tracing::warn!("the fleet's store can't be used: {fault}; this edge goes on by itself");
        }
        let since = before.map_or(now, |(_, since)| since);
        health.down = Some((fault, since));
    }

    /// The store could be written, or not.
    pub(crate) fn wrote(&self, outcome: Result<(), Fault>) {
        let mut health = self.health.lock();
        match (outcome, health.unwritten.take()) {
            (Ok(()), None) => {}
            (Ok(()), Some(_)) => {
                tracing::info!("the fleet's store, {}, is written again", self.place);
            }
            (Err(fault), before) => {
                add(&self.counters.failures, 1);
                if before.is_none() {
                    tracing::warn!(
                        "the fleet's store can't be written: {fault}; what is learnt is kept, and written \
                         once it can be"
                    );
                }
                let since = before.map_or_else(Instant::now, |(_, since)| since);
                health.unwritten = Some((fault, since));
            }
        }
    }

    /// Why the store can't be used.
    pub(crate) fn last_fault(&self) -> Fault {
        let down = self
            .health
            .lock()
            .down
            .as_ref()
            .map(|(fault, _)| fault.clone());
        down.unwrap_or_else(|| {
            let text = format!(
                "the fleet's store, {}, has not been reached yet",
                self.place
            );
            Fault::new(FaultKind::Unreachable, text)
        })
    }

    /// Another process does, or does not, write under this edge's name.
    pub(crate) fn is_duplicate(&self, is: bool) {
        if self.duplicate.swap(is, Ordering::Relaxed) || !is {
            return;
        }
        tracing::warn!(
            "another process of the fleet is named `{}`, too, and they overwrite what each other shares: set \
             another `fleet.name` in one of them",
            self.name
        );
    }

    /// Changes the outcome of the last look.
    pub(crate) fn saw<T>(&self, change: impl FnOnce(&mut Seen) -> T) -> T {
        change(&mut self.seen.lock())
    }

    pub(crate) fn set_offset_ms(&self, offset: i64) {
        self.offset_ms.store(offset, Ordering::Relaxed);
    }

    /// This host's clock less the store's, in milliseconds.
    pub(crate) fn skew_ms(&self) -> i64 {
        self.offset_ms.load(Ordering::Relaxed).saturating_neg()
    }

    /// The store's clock, in milliseconds since 1970.
    pub(crate) fn store_ms(&self) -> u64 {
        clock::now_ms().saturating_add_signed(self.offset_ms.load(Ordering::Relaxed))
    }

    /// How long something has waited to be written.
    pub(crate) fn lag_ms(&self) -> u64 {
        let waiting = self.seen.lock().waiting;
        waiting.map_or(0, |since| millis(since.elapsed()))
    }

    pub(crate) fn status(&self) -> Status {
        let seen = self.seen.lock().clone();
        let health = self.health.lock();
        let text =
            |fault: &Option<(Fault, Instant)>| fault.as_ref().map(|(fault, _)| fault.to_string());
        let faults = [&health.down, &health.unwritten];
        let since = faults.into_iter().flatten().map(|(_, since)| *since).min();
        Status {
            store: self.place.clone(),
            up: self.is_up(),
            fault: text(&health.down),
            write_fault: text(&health.unwritten),
            faulty_ms: since.map(|since| millis(since.elapsed())),
            name: self.name.clone(),
            duplicate: self.duplicate.load(Ordering::Relaxed),
            keys: seen.keys,
            key_bytes: seen.key_bytes,
            lag_ms: seen.waiting.map_or(0, |since| millis(since.elapsed())),
            skew_ms: self.skew_ms(),
            answer_us: u64::try_from(seen.answer.as_micros()).unwrap_or(u64::MAX),
            counts: self.counters.now(),
            contents: self.board.entries(),
            members: match seen.members {
                Some((members, read)) => member::aged(members, read.elapsed()),
                None => Vec::new(),
            },
        }
    }
}

/// Milliseconds of a time.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
