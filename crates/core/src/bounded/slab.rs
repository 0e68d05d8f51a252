//! Entries in numbered slots, and the hand that chooses which one to evict.

/// The number of an entry's place. It is valid until the entry is removed or evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub(super) u32);

impl Slot {
    const fn split(self) -> (usize, usize) {
        (self.0 as usize / CHUNK, self.0 as usize % CHUNK)
    }

    /// Its bit in a set of slots: the word and the mask.
    pub(super) const fn bit(self) -> (usize, u64) {
        (self.0 as usize / 64, 1 << (self.0 % 64))
    }
}

/// A key and its value.
#[derive(Debug)]
pub(super) struct Entry<K, V> {
    pub(super) key: K,
    pub(super) value: V,
    /// How many passes of the hand it outlives.
    uses: u8,
}

impl<K, V> Entry<K, V> {
    pub(super) fn used(&mut self, returned: bool) {
        self.uses = (self.uses + u8::from(returned)).clamp(1, MAX_USES);
    }
}

/// Entries in chunks of equal size, so that growth copies nothing and never doubles the memory.
#[derive(Debug)]
pub(super) struct Slab<K, V> {
    chunks: Vec<Vec<Option<Entry<K, V>>>>,
    free: Vec<Slot>,
    len: usize,
    /// Next slot that the hand looks at.
    hand: u32,
}

impl<K, V> Default for Slab<K, V> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            free: Vec::new(),
            len: 0,
            hand: 0,
        }
    }
}

impl<K, V> Slab<K, V> {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&Entry<K, V>> {
        let (chunk, at) = slot.split();
        self.chunks.get(chunk)?.get(at)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut Entry<K, V>> {
        let (chunk, at) = slot.split();
        self.chunks.get_mut(chunk)?.get_mut(at)?.as_mut()
    }

    /// Puts an entry into a free slot. It is not used yet: a flood of keys that come once evicts itself
    /// first.
    pub(super) fn insert(&mut self, key: K, value: V) -> Slot {
        let uses = 0;
        let entry = Some(Entry { key, value, uses });
        self.len += 1;
        if let Some(slot) = self.free.pop() {
            let (chunk, at) = slot.split();
            self.chunks[chunk][at] = entry;
            return slot;
        }
        let last = self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK);
        let chunk = match last {
            Some(chunk) => chunk,
            None => self.chunks.push_mut(Vec::with_capacity(CHUNK)),
        };
        chunk.push(entry);
        Slot(self.slots() - 1)
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        let (chunk, at) = slot.split();
        let place = self
            .chunks
            .get_mut(chunk)
            .and_then(|chunk| chunk.get_mut(at));
        if place.is_some_and(|place| place.take().is_some()) {
            self.len -= 1;
            self.free.push(slot);
        }
    }

    /// The entry to evict, never `pinned`; `None` when there is no other.
    pub(super) fn victim(&mut self, pinned: Option<Slot>) -> Option<Slot> {
        // Rounds that only take uses away, and one more that finds an entry without any.
        let rounds = usize::from(MAX_USES) + 1;
        for _ in 0..rounds * self.slots() as usize + 1 {
            let slot = Slot(self.hand);
            let next = self.hand + 1;
            self.hand = if next < self.slots() { next } else { 0 };
            if pinned == Some(slot) {
                continue;
            }
            let Some(entry) = self.get_mut(slot) else {
                continue;
            };
            let Some(uses) = entry.uses.checked_sub(1) else {
                return Some(slot);
            };
            entry.uses = uses;
        }
        None
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &Entry<K, V>)> {
        let places = (0..).map(Slot).zip(self.chunks.iter().flatten());
        places.filter_map(|(slot, place)| Some((slot, place.as_ref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Slot, &mut Entry<K, V>)> {
        let places = (0..).map(Slot).zip(self.chunks.iter_mut().flatten());
        places.filter_map(|(slot, place)| Some((slot, place.as_mut()?)))
    }

    /// Number of slots, taken or free. The map keeps it at 2^30 at most.
    fn slots(&self) -> u32 {
        let last = self.chunks.last().map_or(0, Vec::len);
        (self.chunks.len().saturating_sub(1) * CHUNK + last) as u32
    }
}

const MAX_USES: u8 = 3;
/// Slots in a chunk: about 160 KiB of clients.
const CHUNK: usize = 1024;
