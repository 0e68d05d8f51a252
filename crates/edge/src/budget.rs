//! Memory for responses between their source and the network, and the back-pressure that bounds it.
//!
//! Content counts from when it was read until the connection has written and dropped it; on QUIC, until
//! it is acknowledged. A connection whose share is used up, or whose socket takes no more, reads nothing
//! until the client takes something. Each connection may always hold [`RESERVE`] bytes, so that no client
//! waits for another.

mod body;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hikyaku_h2::priority::Priority;
use parking_lot::Mutex;

use crate::sections::Limits;
pub(crate) use body::bounded;

/// Bytes that a connection may hold whatever others do: one chunk of a file.
pub(crate) const RESERVE: u64 = 64 * 1024;

/// Content of one address, or of all, that is in memory. Counted in bytes.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    held: AtomicU64,
    max: AtomicU64,
}

impl Pool {
    pub(crate) fn new(max: u64) -> Self {
        Self {
            held: AtomicU64::new(0),
            max: AtomicU64::new(max),
        }
    }

    /// Replaces the bound; bytes that are held already stay.
    pub(crate) fn set_max(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Bytes in memory.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    fn has_room(&self) -> bool {
        self.held() < self.max.load(Ordering::Relaxed)
    }
}

/// Memory pools that the connections of an address share.
#[derive(Clone, Debug)]
pub(crate) struct Pools {
    pub(crate) address: Arc<Pool>,
    pub(crate) total: Arc<Pool>,
}

/// The share of one connection.
#[derive(Debug)]
pub(crate) struct Account {
    state: Mutex<State>,
    max: u64,
    pools: Pools,
}

#[derive(Debug, Default)]
struct State {
    held: u64,
    /// Encrypted bytes wait for the client.
    blocked: bool,
    /// Bodies that wait for room, the most urgent first, and of one urgency those that came first.
    waiting: VecDeque<Waiting>,
    /// Numbers given out to waiting bodies.
    numbers: u64,
}

/// A body that waits, or has been called and has not come yet.
#[derive(Debug)]
struct Waiting {
    urgency: u8,
    number: u64,
    /// `None` once it has been called.
    waker: Option<Waker>,
}

/// A body's place among those that wait.
#[derive(Debug, Default)]
struct Place {
    priority: Priority,
    /// While it waits.
    number: Option<u64>,
}

impl Account {
    /// A share of at most `max` bytes, and of `limits` at most.
    pub(crate) fn new(max: u64, limits: &Limits, pools: Pools) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            max: max.min(limits.memory_per_connection.bytes()).max(RESERVE),
            pools,
        })
    }

    /// Whether content waits for the client to take some first.
    pub(crate) fn is_full(&self) -> bool {
        !self.state.lock().waiting.is_empty()
    }

    /// Waits until more content may be read.
    fn poll_room(&self, place: &mut Place, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        let has_room = self.has_room(&state);
        if has_room && !state.has_ahead(place) {
            state.leave(place);
            return Poll::Ready(());
        }
        state.wait(place, cx.waker());
        let ahead = match has_room {
            true => state.call_ahead(place),
            false => None,
        };
        drop(state);
        ahead.into_iter().for_each(Waker::wake);
        Poll::Pending
    }

    /// Notes whether encrypted content waits for the client. While it does, no more is read: a client
    /// that takes nothing would have it twice in memory, as content and encrypted.
    pub(crate) fn set_blocked(&self, blocked: bool) {
        let next = {
            let mut state = self.state.lock();
            state.blocked = blocked;
            self.next(&mut state)
        };
        next.into_iter().for_each(Waker::wake);
    }

    /// Whoever finds none waits for content of its own connection, of which there is some then.
    fn has_room(&self, state: &State) -> bool {
        let shared = || self.pools.address.has_room() && self.pools.total.has_room();
        !state.blocked && (state.held < RESERVE || (state.held < self.max && shared()))
    }

    /// Counts `bytes` until they are dropped.
    fn hold(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        let length = bytes.len() as u64;
        self.state.lock().held += length;
        for pool in [&self.pools.address, &self.pools.total] {
            pool.held.fetch_add(length, Ordering::Relaxed);
        }
        let account = Arc::clone(self);
        Bytes::from_owner(Held { bytes, account })
    }

    fn release(&self, length: u64) {
        for pool in [&self.pools.address, &self.pools.total] {
            pool.held.fetch_sub(length, Ordering::Relaxed);
        }
        let next = {
            let mut state = self.state.lock();
            state.held -= length;
            self.next(&mut state)
        };
        next.into_iter().for_each(Waker::wake);
    }

    /// The body that may go on; it calls the one after it.
    fn next(&self, state: &mut State) -> Option<Waker> {
        let room = self.has_room(state);
        let mut waiting = state.waiting.iter_mut();
        room.then(|| waiting.find_map(|it| it.waker.take()))
            .flatten()
    }

    /// Wakes the next body, if there is room for it, too.
    fn pass_on(&self) {
        let next = {
            let mut state = self.state.lock();
            self.next(&mut state)
        };
        next.into_iter().for_each(Waker::wake);
    }

    /// Gives a place up; a call that it may have had goes to the next.
    fn abandon(&self, place: &mut Place) {
        if place.number.is_some() {
            self.state.lock().leave(place);
            self.pass_on();
        }
    }
}

impl State {
    fn wait(&mut self, place: &mut Place, waker: &Waker) {
        let waker = Some(waker.clone());
        let mut waiting = self.waiting.iter_mut();
        let mine = waiting.find(|it| place.number == Some(it.number));
        if let Some(mine) = mine {
            mine.waker = waker;
            return;
        }
        self.numbers += 1;
        place.number = Some(self.numbers);
        let urgency = place.priority.urgency;
        let at = self.waiting.partition_point(|it| it.urgency <= urgency);
        let waiting = Waiting {
            urgency,
            number: self.numbers,
            waker,
        };
        self.waiting.insert(at, waiting);
    }

    fn leave(&mut self, place: &mut Place) {
        if let Some(number) = place.number.take() {
            self.waiting.retain(|it| it.number != number);
        }
    }

    /// Whether a body goes before that of `place`: a more urgent one, and of those with the same urgency one that
    /// came before where they take turns.
    fn has_ahead(&self, place: &Place) -> bool {
        let Priority {
            urgency,
            incremental,
        } = place.priority;
        let Some(first) = self.waiting.front() else {
            return false;
        };
        let is_other = place.number != Some(first.number);
        is_other && (first.urgency < urgency || first.urgency == urgency && incremental)
    }

    /// The body that goes before that of `place`, unless it has been called.
    fn call_ahead(&mut self, place: &Place) -> Option<Waker> {
        let first = self.waiting.front_mut()?;
        match place.number == Some(first.number) {
            true => None,
            false => first.waker.take(),
        }
    }
}

/// Content that counts.
struct Held {
    bytes: Bytes,
    account: Arc<Account>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The memory goes first.
        let length = std::mem::take(&mut self.bytes).len() as u64;
        self.account.release(length);
    }
}

#[cfg(test)]
mod tests;
