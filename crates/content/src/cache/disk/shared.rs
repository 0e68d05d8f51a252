//! The directory and the index, as all users of a store share them.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

use parking_lot::Mutex;

use super::Counts;
use super::files::{directory, free, prepare, put_in_place};
use super::index::{End, Index, Record};
use super::purge::Purge;

/// Responses that are being written have at most this part of the limit.
const WRITING: u64 = 2;
/// Positions that a purge looks at while it holds the lock.
const PURGED_AT_ONCE: usize = 4096;

#[derive(Debug)]
pub(super) struct Shared {
    dir: PathBuf,
    limit: u64,
    pub(super) state: Mutex<State>,
    /// Held to replace a head, so that one slot is always whole.
    pub(super) heads: Mutex<()>,
    /// Numbers that no other file of the directory has had.
    next: AtomicU64,
    stops_loading: AtomicBool,
    evicted: AtomicU64,
    pub(super) damaged: AtomicU64,
    failures: AtomicU64,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) index: Index,
    /// Bytes of files that are being written.
    reserved: u64,
    writing: Vec<Arc<Writing>>,
    /// While the index is filled: the purges of that time.
    pub(super) loading: Option<Vec<Purge>>,
    /// Locked; `None` once the directory was given away.
    pub(super) lock: Option<File>,
}

/// A response that is being written.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) key: [u8; 32],
    pub(super) url: Box<str>,
    pub(super) tags: Box<[Box<str>]>,
    /// Whether it was purged or removed meanwhile.
    is_doomed: AtomicBool,
}

impl Writing {
    pub(super) fn new(key: [u8; 32], url: &str, tags: &[&str]) -> Self {
        Self {
            key,
            url: url.into(),
            tags: tags.iter().map(|&tag| tag.into()).collect(),
            is_doomed: AtomicBool::new(false),
        }
    }
}

impl Shared {
    pub(super) fn open(dir: &Path, limit: u64) -> io::Result<Self> {
        let lock = prepare(dir)?;
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(0));
        Ok(Self {
            dir: dir.to_owned(),
            limit,
            state: Mutex::new(State {
                index: Index::default(),
                reserved: 0,
                writing: Vec::new(),
                loading: Some(Vec::new()),
                lock: Some(lock),
            }),
            heads: Mutex::new(()),
            next: AtomicU64::new(now),
            stops_loading: AtomicBool::new(false),
            evicted: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        })
    }

    pub(super) fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    /// The directory of the files whose keys begin with a byte.
    pub(super) fn directory(&self, byte: u8) -> PathBuf {
        directory(&self.dir, byte)
    }

    pub(super) fn path(&self, key: &[u8; 32]) -> PathBuf {
        let name: String = key[1..].iter().map(|byte| format!("{byte:02x}")).collect();
        self.directory(key[0]).join(name)
    }

    /// A name for a file that is not stored yet, or not any more.
    pub(super) fn temporary(&self) -> PathBuf {
        self.dir.join("tmp").join(self.next_id().to_string())
    }

    pub(super) fn may_hold(&self, key: &[u8; 32]) -> bool {
        let state = self.state.lock();
        state.lock.is_some() && (state.loading.is_some() || state.index.get(key).is_some())
    }

    /// Whether the index has a response of this key.
    pub(super) fn knows(&self, key: &[u8; 32]) -> bool {
        self.state.lock().index.get(key).is_some()
    }

    pub(super) fn remove(&self, key: &[u8; 32]) {
        let mut state = self.state.lock();
        if state.lock.is_none() {
            return;
        }
        for writing in state.writing.iter().filter(|writing| writing.key == *key) {
            writing.is_doomed.store(true, Relaxed);
        }
        let is_known = state.index.remove(key).is_some();
        let is_there = is_known || state.loading.is_some();
        let gone = is_there.then(|| self.set_aside(key)).flatten();
        drop(state);
        free(gone);
    }

    pub(super) fn purge(&self, what: &Purge) -> usize {
        {
            let mut state = self.state.lock();
            for writing in &state.writing {
                if what.hits(&writing.url, &writing.tags) {
                    writing.is_doomed.store(true, Relaxed);
                }
            }
            if let Some(purges) = &mut state.loading {
                purges.push(what.clone());
            }
        }
        let mut purged = 0;
        for from in (0..).step_by(PURGED_AT_ONCE) {
            // Released between the parts, so that requests do not wait for a whole purge.
            let mut state = self.state.lock();
            if state.lock.is_none() {
                break;
            }
            let Some(records) = state.index.purge(what, from, PURGED_AT_ONCE) else {
                break;
            };
            purged += records.len();
            let gone: Vec<PathBuf> = records
                .iter()
                .filter_map(|record| self.set_aside(&record.key))
                .collect();
            drop(state);
            free(gone);
        }
        purged
    }

    /// Takes room for a file that is being written.
    pub(super) fn reserve(&self, writing: &Arc<Writing>, more: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.lock.is_none() {
            return Err(given_away());
        }
        if state.reserved.saturating_add(more) > self.limit / WRITING {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "responses that are being written would take more than half of the cache",
            ));
        }
        if !state
            .writing
            .iter()
            .any(|other| Arc::ptr_eq(other, writing))
        {
            state.writing.push(Arc::clone(writing));
        }
        let gone = self.make_room(&mut state, more);
        state.reserved += more;
        drop(state);
        free(gone);
        Ok(())
    }

    /// Gives back the room of a file that was not committed.
    pub(super) fn give_back(&self, writing: &Arc<Writing>, reserved: u64) {
        let mut state = self.state.lock();
        state.reserved -= reserved;
        state.writing.retain(|other| !Arc::ptr_eq(other, writing));
    }

    /// Renames a complete file to its place, and takes it into the index. `over` is the id of the response that
    /// it may replace; `None` stands for any and none. Returns whether it is stored: it was neither
    /// purged nor removed meanwhile.
    pub(super) fn commit(
        &self,
        writing: &Writing,
        id: u64,
        size: u64,
        from: &Path,
        over: Option<u64>,
    ) -> io::Result<bool> {
        let mut state = self.state.lock();
        if state.lock.is_none() {
            return Err(given_away());
        }
        let stored = state.index.get(&writing.key).map(|record| record.id);
        if writing.is_doomed.load(Relaxed) || over.is_some() && over != stored {
            return Ok(false);
        }
        let to = self.path(&writing.key);
        // Kept open beyond the lock, so that the blocks of a replaced file are freed after it.
        let replaced = stored.and_then(|_| File::open(&to).ok());
        put_in_place(from, &to)?;
        let record = Record {
            key: writing.key,
            id,
            size,
            url: writing.url.clone(),
            tags: writing.tags.clone(),
            is_checked: true,
        };
        state.index.insert(record, End::Newest);
        drop(state);
        drop(replaced);
        Ok(true)
    }

    /// Evicts until there is room for more bytes. Returns the files to free.
    pub(super) fn make_room(&self, state: &mut State, more: u64) -> Vec<PathBuf> {
        let mut gone = Vec::new();
        while state.index.bytes() + state.reserved + more > self.limit {
            let Some(record) = state.index.evict() else {
                break;
            };
            self.evicted.fetch_add(1, Relaxed);
            gone.extend(self.set_aside(&record.key));
        }
        gone
    }

    /// Takes a stored file out of its place; called with the lock. A rename is faster than freeing its blocks.
    pub(super) fn set_aside(&self, key: &[u8; 32]) -> Option<PathBuf> {
        let to = self.temporary();
        match fs::rename(self.path(key), &to) {
            Ok(()) => Some(to),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    self.count_failure();
                }
                None
            }
        }
    }

    pub(super) fn count_failure(&self) {
        self.failures.fetch_add(1, Relaxed);
    }

    pub(super) fn counts(&self) -> Counts {
        let state = self.state.lock();
        Counts {
            entries: state.index.len() as u64,
            bytes: state.index.bytes() + state.reserved,
            evicted: self.evicted.load(Relaxed),
            damaged: self.damaged.load(Relaxed),
            failures: self.failures.load(Relaxed),
        }
    }

    pub(super) fn stop_loading(&self) {
        self.stops_loading.store(true, Relaxed);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stops_loading.load(Relaxed)
    }

    /// Notes that the index is complete.
    pub(super) fn loaded(&self) {
        self.state.lock().loading = None;
    }

    pub(super) fn release(&self) {
        let mut state = self.state.lock();
        state.lock = None;
        state.index = Index::default();
    }
}

fn given_away() -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        "the cache's directory was given to another process",
    )
}
