//! The deadlines of all connections of a worker, in one timing wheel.
//!
//! Varghese and Lauck, *Hashed and Hierarchical Timing Wheels*, SOSP 1987, scheme 7. Setting and
//! cancelling a deadline cost the same with ten timers and with a million.

use std::time::{Duration, Instant};

/// Length of a tick. Sleeps of a runtime end to the millisecond, so that finer ones gain nothing.
const TICK: Duration = Duration::from_micros(125);
/// Bits of a tick's number that each level of the wheel looks at.
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
/// The last level covers about 99 days. Later deadlines are looked at again by then.
const LEVELS: usize = 6;
const LAST_TICK: u64 = (1 << (BITS * LEVELS as u32)) - 1;
/// No entry.
const NONE: u32 = u32::MAX;

/// Deadlines by small keys, such as the places of connections in a slab.
///
/// A key has one deadline at most. None is reported before its time, and each at most a tick (125 µs) late.
#[derive(Debug)]
pub struct Wheel {
    start: Instant,
    /// Ticks that are over: everything up to this one has been reported.
    now: u64,
    levels: [Level; LEVELS],
    entries: Vec<Entry>,
    /// Entries that have a deadline.
    count: usize,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    /// Bit `n` is set if slot `n` has entries.
    occupied: u64,
    /// First entry of each slot.
    slots: [u32; SLOTS],
}

/// The deadline of a key: a member of the list of its slot.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// `None` without a deadline.
    at: Option<Instant>,
    tick: u64,
    level: u8,
    slot: u8,
    next: u32,
    previous: u32,
}

const EMPTY: Entry = Entry {
    at: None,
    tick: 0,
    level: 0,
    slot: 0,
    next: NONE,
    previous: NONE,
};

impl Wheel {
    /// A wheel without deadlines. Those before `start` count as due at `start`.
    pub fn new(start: Instant) -> Self {
        let level = Level {
            occupied: 0,
            slots: [NONE; SLOTS],
        };
        Self {
            start,
            now: 0,
            levels: [level; LEVELS],
            entries: Vec::new(),
            count: 0,
        }
    }

    /// Number of deadlines.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no deadline.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The deadline of `key`.
    pub fn get(&self, key: usize) -> Option<Instant> {
        self.entries.get(key)?.at
    }

    /// Gives `key` the deadline `at`, in place of the one it has. Keys are at most `u32::MAX - 1`; a
    /// larger one has no deadline.
    pub fn set(&mut self, key: usize, at: Instant) {
        let Ok(index) = u32::try_from(key) else {
            return;
        };
        if index == NONE {
            return;
        }
        self.cancel(key);
        if key >= self.entries.len() {
            self.entries.resize(key + 1, EMPTY);
        }
        let tick = self.tick_of(at).max(self.now + 1);
        self.entries[key] = Entry {
            at: Some(at),
            tick,
            ..EMPTY
        };
        self.count += 1;
        self.link(index);
    }

    /// Takes the deadline of `key` back.
    pub fn cancel(&mut self, key: usize) {
        if self.get(key).is_some() {
            self.unlink(key as u32);
            self.entries[key].at = None;
            self.count -= 1;
        }
    }

    /// When to call [`Wheel::expire`] next: never after the earliest deadline's tick, and before it where
    /// a deadline is far away.
    pub fn next(&self) -> Option<Instant> {
        let levels = self.levels.iter().enumerate();
        let soonest = levels.filter_map(|(level, slots)| self.next_tick(level, slots));
        soonest.min().map(|tick| self.time_of(tick))
    }

    /// Reports the keys whose deadlines are over at `now`, and takes these back.
    pub fn expire(&mut self, now: Instant, mut due: impl FnMut(usize)) {
        let now = self.ticks_over(now);
        while self.now < now {
            let soonest =
                (0..LEVELS).filter_map(|level| self.next_tick(level, &self.levels[level]));
            let Some(tick) = soonest.min().filter(|&tick| tick <= now) else {
                self.now = now;
                return;
            };
            self.now = tick;
            // From above, so that entries that come down are looked at below.
            for level in (0..LEVELS).rev() {
                self.turn(level, tick, &mut due);
            }
        }
    }

    /// The first tick at which a slot of `level` has to be looked at.
    fn next_tick(&self, level: usize, slots: &Level) -> Option<u64> {
        if slots.occupied == 0 {
            return None;
        }
        let shift = BITS * level as u32;
        let turn = self.now >> shift;
        // Slots after the present one come first, and that itself last.
        let first = (turn as u32 + 1) % SLOTS as u32;
        let distance = slots.occupied.rotate_right(first).trailing_zeros();
        Some((turn + 1 + u64::from(distance)) << shift)
    }

    /// Empties the slot of `level` that begins with `tick`: its entries are due, or go down a level.
    fn turn(&mut self, level: usize, tick: u64, due: &mut impl FnMut(usize)) {
        let shift = BITS * level as u32;
        if tick & ((1 << shift) - 1) != 0 {
            return;
        }
        let slot = (tick >> shift) as usize % SLOTS;
        let slots = &mut self.levels[level];
        let mut index = std::mem::replace(&mut slots.slots[slot], NONE);
        slots.occupied &= !(1 << slot);
        while index != NONE {
            let entry = &mut self.entries[index as usize];
            let next = entry.next;
            if entry.tick <= tick {
                entry.at = None;
                self.count -= 1;
                due(index as usize);
            } else {
                self.link(index);
            }
            index = next;
        }
    }

    /// Puts an entry in front of the list of its slot. Its tick is after `now`.
    fn link(&mut self, index: u32) {
        let tick = self.entries[index as usize].tick.min(self.now + LAST_TICK);
        let distance = tick ^ self.now;
        let level = ((distance.ilog2() / BITS) as usize).min(LEVELS - 1);
        let slot = (tick >> (BITS * level as u32)) as usize % SLOTS;
        let slots = &mut self.levels[level];
        let next = std::mem::replace(&mut slots.slots[slot], index);
        slots.occupied |= 1 << slot;
        if next != NONE {
            self.entries[next as usize].previous = index;
        }
        let entry = &mut self.entries[index as usize];
        (entry.level, entry.slot) = (level as u8, slot as u8);
        (entry.next, entry.previous) = (next, NONE);
    }

    fn unlink(&mut self, index: u32) {
        let Entry {
            level,
            slot,
            next,
            previous,
            ..
        } = self.entries[index as usize];
        if next != NONE {
            self.entries[next as usize].previous = previous;
        }
        if previous != NONE {
            self.entries[previous as usize].next = next;
            return;
        }
        let slots = &mut self.levels[usize::from(level)];
        slots.slots[usize::from(slot)] = next;
        if next == NONE {
            slots.occupied &= !(1 << slot);
        }
    }

    /// The first tick whose time is not before `at`.
    fn tick_of(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.start);
        let ticks = since.as_nanos().div_ceil(TICK.as_nanos());
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// The last tick whose time is not after `now`.
    fn ticks_over(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.start);
        u64::try_from(since.as_nanos() / TICK.as_nanos()).unwrap_or(u64::MAX)
    }

    fn time_of(&self, tick: u64) -> Instant {
        let nanos = u128::from(tick) * TICK.as_nanos();
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        self.start + Duration::from_nanos(nanos)
    }
}

#[cfg(test)]
mod tests;
