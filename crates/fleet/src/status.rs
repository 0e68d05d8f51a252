//! The state of a fleet, for people and metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::board::Entry;
use crate::member::Member;

/// The state of this edge's part in a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The store, without user and password.
    pub store: String,
    /// Whether it answers.
    pub up: bool,
    /// Why it does not, and what to do.
    pub fault: Option<String>,
    /// Why nothing can be written although it answers, and what to do.
    pub write_fault: Option<String>,
    /// Since when either is so, in milliseconds. `None` where all is well.
    pub faulty_ms: Option<u64>,
    /// Name of this edge.
    pub name: String,
    /// Whether another process writes under this name.
    pub duplicate: bool,
    /// Keys of the store's database.
    pub keys: Option<u64>,
    /// Bytes that the store takes for one key of those that are written, as measured last.
    pub key_bytes: Option<u64>,
    /// How long what this edge learns has waited to be written, in milliseconds.
    pub lag_ms: u64,
    /// This host's clock less the store's, in milliseconds.
    pub skew_ms: i64,
    /// How long the store took to answer last, in microseconds.
    pub answer_us: u64,
    /// Numbers since the start.
    pub counts: Counts,
    /// The contents that the whole fleet has in common and that this edge holds. None of them shows a secret.
    #[serde(default)]
    pub contents: Vec<Entry>,
    /// The fleet's members, by name.
    pub members: Vec<Member>,
}

/// Numbers since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Reads that were answered in time.
    pub reads: u64,
    /// Reads whose deadline passed.
    pub late: u64,
    /// Reads that the full queue dropped.
    pub dropped: u64,
    /// Reads while the store was down.
    pub unavailable: u64,
    /// Fields that were ignored: of another version, too large, too many, or nonsense.
    pub ignored: u64,
    /// Keys that were written.
    pub written: u64,
    /// Keys that were not added, since the store has `max_keys`.
    pub refused: u64,
    /// Tries to reach the store, or to write to it, that failed.
    pub failures: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Times that the store came back with other contents.
    pub emptied: u64,
    /// Purges of other edges that were applied.
    pub purges: u64,
    /// Contents that were written.
    #[serde(default)]
    pub contents_written: u64,
    /// Contents in the store that no secret of the key file opened.
    #[serde(default)]
    pub unsealed: u64,
    /// Contents in the store that were older than the content that this edge holds, or void.
    #[serde(default)]
    pub older: u64,
}

/// [`Counts`] that many add to.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) reads: AtomicU64,
    pub(crate) late: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) unavailable: AtomicU64,
    pub(crate) ignored: AtomicU64,
    pub(crate) written: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) emptied: AtomicU64,
    pub(crate) purges: AtomicU64,
    pub(crate) contents_written: AtomicU64,
    pub(crate) unsealed: AtomicU64,
    pub(crate) older: AtomicU64,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn now(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            reads: of(&self.reads),
            late: of(&self.late),
            dropped: of(&self.dropped),
            unavailable: of(&self.unavailable),
            ignored: of(&self.ignored),
            written: of(&self.written),
            refused: of(&self.refused),
            failures: of(&self.failures),
            connections: of(&self.connections),
            emptied: of(&self.emptied),
            purges: of(&self.purges),
            contents_written: of(&self.contents_written),
            unsealed: of(&self.unsealed),
            older: of(&self.older),
        }
    }
}
