//! Records in numbered slots.

use crate::estimate::Estimate;
use crate::key::Key;

/// What is kept for an address or a prefix.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) key: Key,
    pub(super) estimate: Estimate,
    /// Used since the clock's hand last passed.
    referenced: bool,
}

impl Record {
    /// A new record has to be used again to outlive those that were: a flood of new clients evicts
    /// itself first.
    pub(super) const fn new(key: Key, estimate: Estimate) -> Self {
        Self {
            key,
            estimate,
            referenced: false,
        }
    }

    pub(super) const fn touch(&mut self) {
        self.referenced = true;
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
        // The first round may only clear marks; the second finds an unmarked record.
        for _ in 0..2 * self.slots() as usize + 1 {
            let slot = self.hand;
            self.hand = if slot + 1 < self.slots() { slot + 1 } else { 0 };
            if pinned == Some(slot) {
                continue;
            }
            let Some(record) = self.get_mut(slot) else {
                continue;
            };
            if !std::mem::take(&mut record.referenced) {
                return Some(slot);
            }
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

/// Slots in a chunk: about 160 KiB.
const CHUNK: usize = 1024;
