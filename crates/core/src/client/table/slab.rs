//! Records in numbered slots.

use std::time::Duration;

use crate::client::estimate::{Estimate, Packed};
use crate::client::key::Key;
use hikyaku_units::Secs;

/// What is kept for an address or a prefix.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) key: Key,
    packed: Packed,
    /// How many passes of the clock's hand it outlives.
    uses: u8,
}

impl Record {
    /// A new record is not used yet: a flood of clients that come once evicts itself first.
    pub(super) fn new(key: Key, estimate: &Estimate) -> Self {
        Self {
            key,
            packed: Packed::new(estimate),
            uses: 0,
        }
    }

    pub(super) fn estimate(&self) -> Estimate {
        self.packed.estimate()
    }

    pub(super) fn set_estimate(&mut self, estimate: &Estimate) {
        self.packed = Packed::new(estimate);
    }

    /// Changes the estimate, which is a use unless it is the first, and more of one after a pause: a
    /// client that returns is worth more than one that loads a long page.
    pub(super) fn update<T>(&mut self, change: impl FnOnce(&mut Estimate) -> T) -> T {
        let mut estimate = self.estimate();
        let before = estimate.at;
        let changed = change(&mut estimate);
        if before != Secs::default() {
            let returned = estimate.at.since(before) >= PAUSE;
            self.uses = (self.uses + u8::from(returned)).clamp(1, MAX_USES);
        }
        self.set_estimate(&estimate);
        changed
    }
}

/// Records in chunks of equal size, so that growth copies nothing and never doubles the memory.
#[derive(Debug, Default)]
pub(super) struct Slab {
    chunks: Vec<Vec<Option<Record>>>,
    free: Vec<u32>,
    len: usize,
    /// Next slot that the clock looks at.
    hand: u32,
}

impl Slab {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Record> {
        let (chunk, at) = split(slot);
        self.chunks.get(chunk)?.get(at)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Record> {
        let (chunk, at) = split(slot);
        self.chunks.get_mut(chunk)?.get_mut(at)?.as_mut()
    }

    pub(super) fn insert(&mut self, record: Record) -> u32 {
        self.len += 1;
        if let Some(slot) = self.free.pop() {
            let (chunk, at) = split(slot);
            self.chunks[chunk][at] = Some(record);
            return slot;
        }
        let last = self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK);
        let chunk = match last {
            Some(chunk) => chunk,
            None => self.chunks.push_mut(Vec::with_capacity(CHUNK)),
        };
        chunk.push(Some(record));
        self.slots() - 1
    }

    pub(super) fn remove(&mut self, slot: u32) {
        let (chunk, at) = split(slot);
        let place = self
            .chunks
            .get_mut(chunk)
            .and_then(|chunk| chunk.get_mut(at));
        if place.is_some_and(|place| place.take().is_some()) {
            self.len -= 1;
            self.free.push(slot);
        }
    }

    /// The record to evict, never `pinned`; `None` when there is no other.
    pub(super) fn victim(&mut self, pinned: Option<u32>) -> Option<u32> {
        // Rounds that only take uses away, and one more that finds a record without any.
        let rounds = usize::from(MAX_USES) + 1;
        for _ in 0..rounds * self.slots() as usize + 1 {
            let slot = self.hand;
            self.hand = if slot + 1 < self.slots() { slot + 1 } else { 0 };
            if pinned == Some(slot) {
                continue;
            }
            let Some(record) = self.get_mut(slot) else {
                continue;
            };
            let Some(uses) = record.uses.checked_sub(1) else {
                return Some(slot);
            };
            record.uses = uses;
        }
        None
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Record)> {
        let places = self.chunks.iter().flatten();
        (0..)
            .zip(places)
            .filter_map(|(slot, place)| Some((slot, place.as_ref()?)))
    }

    /// Number of slots, taken or free. The table keeps it below 2^30.
    fn slots(&self) -> u32 {
        let last = self.chunks.last().map_or(0, Vec::len);
        (self.chunks.len().saturating_sub(1) * CHUNK + last) as u32
    }
}

const fn split(slot: u32) -> (usize, usize) {
    (slot as usize / CHUNK, slot as usize % CHUNK)
}

/// A record used again after this long belongs to a client that returned.
const PAUSE: Duration = Duration::from_secs(60);
const MAX_USES: u8 = 3;
/// Slots in a chunk: about 160 KiB.
const CHUNK: usize = 1024;

#[cfg(test)]
mod tests {
    use super::Record;

    /// Two clients of a prefix have three records, and all that is kept of a client shall fit into 256
    /// bytes, the index included.
    #[test]
    fn a_record_is_small() {
        let size = size_of::<Option<Record>>();
        assert!(size <= 157, "{size} bytes");
    }
}
