//! Sets of slots.

use super::slab::Slot;

/// A set of slots as one bit each, from which they are taken in turn.
#[derive(Debug)]
pub(crate) struct SlotSet {
    words: Vec<u64>,
    /// Word to look at next, so that no slot waits for ever.
    cursor: usize,
}

impl SlotSet {
    pub(crate) const fn new() -> Self {
        Self {
            words: Vec::new(),
            cursor: 0,
        }
    }

    pub(crate) fn insert(&mut self, slot: Slot) {
        let (word, bit) = slot.bit();
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        let (word, bit) = slot.bit();
        if let Some(word) = self.words.get_mut(word) {
            *word &= !bit;
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        let ones = self.words.iter().map(|word| word.count_ones() as usize);
        ones.sum()
    }

    /// Takes one out.
    pub(crate) fn pop(&mut self) -> Option<Slot> {
        let words = self.words.len();
        for _ in 0..words {
            let word = self.words.get_mut(self.cursor)?;
            if *word != 0 {
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                return Some(Slot(self.cursor as u32 * 64 + bit));
            }
            self.cursor = (self.cursor + 1) % words;
        }
        None
    }
}
