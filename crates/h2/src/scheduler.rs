//! The order of content, by the priorities of responses (RFC 9218 §10).

use std::collections::VecDeque;

use hikyaku_http_common::priority::Priority;

/// The streams with content that can be sent.
///
/// Those of the smallest urgency are served first. Among them, streams that are not incremental come
/// one after the other, in the order of their identifiers. Incremental ones come in turns, a frame
/// each. Where an urgency has both kinds, these take turns as well.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    levels: [Level; 8],
    /// A bit for each urgency that has streams.
    occupied: u8,
}

/// The streams of one urgency.
#[derive(Debug, Default)]
struct Level {
    /// Streams that are not incremental, by their identifiers.
    sequential: VecDeque<Entry>,
    /// Incremental streams, by their turns.
    rotating: VecDeque<Entry>,
    /// Whether the turn is the incremental streams'.
    is_rotating: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    id: u32,
    slot: usize,
}

impl Level {
    fn queue(&mut self, incremental: bool) -> &mut VecDeque<Entry> {
        if incremental {
            &mut self.rotating
        } else {
            &mut self.sequential
        }
    }

    fn is_empty(&self) -> bool {
        self.sequential.is_empty() && self.rotating.is_empty()
    }

    fn takes_rotating(&self) -> bool {
        self.sequential.is_empty() || self.is_rotating && !self.rotating.is_empty()
    }
}

impl Scheduler {
    /// Adds a stream, which is not there yet.
    pub(crate) fn insert(&mut self, id: u32, slot: usize, priority: Priority) {
        let urgency = usize::from(priority.urgency.min(7));
        self.occupied |= 1 << urgency;
        let level = &mut self.levels[urgency];
        let entry = Entry { id, slot };
        if priority.incremental {
            level.rotating.push_back(entry);
        } else {
            // Mostly the last one.
            let later = level.sequential.iter().rev().take_while(|it| it.id > id);
            let at = level.sequential.len() - later.count();
            level.sequential.insert(at, entry);
        }
    }

    /// Removes a stream that was added with this priority.
    pub(crate) fn remove(&mut self, id: u32, priority: Priority) {
        let urgency = usize::from(priority.urgency.min(7));
        let level = &mut self.levels[urgency];
        let queue = level.queue(priority.incremental);
        if let Some(at) = queue.iter().position(|entry| entry.id == id) {
            queue.remove(at);
        }
        if level.is_empty() {
            self.occupied &= !(1 << urgency);
        }
    }

    /// The slot of the stream whose turn it is.
    pub(crate) fn first(&self) -> Option<usize> {
        let level = self.levels.get(self.occupied.trailing_zeros() as usize)?;
        let queue = if level.takes_rotating() {
            &level.rotating
        } else {
            &level.sequential
        };
        queue.front().map(|entry| entry.slot)
    }

    /// Ends the turn of the first stream. It comes again if it `is_ready` still.
    pub(crate) fn next(&mut self, is_ready: bool) {
        let urgency = self.occupied.trailing_zeros();
        let Some(level) = self.levels.get_mut(urgency as usize) else {
            return;
        };
        if level.takes_rotating() {
            if let Some(entry) = level.rotating.pop_front()
                && is_ready
            {
                level.rotating.push_back(entry);
            }
            level.is_rotating = false;
        } else {
            if !is_ready {
                level.sequential.pop_front();
            }
            level.is_rotating = true;
        }
        if level.is_empty() {
            self.occupied &= !(1 << urgency);
        }
    }

    /// Removes all streams, and gives their memory back.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_served_as_the_rfc_says() {
        // Each stream: identifier, urgency, incremental, frames.
        type Case = (
            &'static str,
            &'static [(u32, u8, bool, u32)],
            &'static [u32],
        );
        let cases: &[Case] = &[
            ("nothing", &[], &[]),
            (
                "RFC 9218 §10: in ascending order of urgency",
                &[(1, 3, false, 2), (3, 0, false, 1), (5, 7, false, 1)],
                &[3, 1, 1, 5],
            ),
            (
                "RFC 9218 §10: non-incremental ones by stream ID",
                &[(5, 3, false, 2), (1, 3, false, 2), (3, 3, false, 1)],
                &[1, 1, 3, 5, 5],
            ),
            (
                "RFC 9218 §10: incremental ones share bandwidth",
                &[(1, 3, true, 3), (3, 3, true, 1), (5, 3, true, 2)],
                &[1, 3, 5, 1, 5, 1],
            ),
            (
                "both kinds share bandwidth",
                &[(1, 3, true, 2), (3, 3, false, 2), (5, 3, true, 1)],
                &[3, 1, 3, 5, 1],
            ),
        ];
        for (name, streams, want) in cases {
            let mut scheduler = Scheduler::default();
            let mut left: Vec<u32> = streams.iter().map(|stream| stream.3).collect();
            for (slot, &(id, urgency, incremental, _)) in streams.iter().enumerate() {
                let priority = Priority {
                    urgency,
                    incremental,
                };
                scheduler.insert(id, slot, priority);
            }
            let mut got = Vec::new();
            while let Some(slot) = scheduler.first() {
                got.push(streams[slot].0);
                left[slot] -= 1;
                scheduler.next(left[slot] > 0);
            }
            assert_eq!(got, *want, "{name}");
        }
    }

    #[test]
    fn streams_that_were_removed_are_not_served() {
        let of = |urgency, incremental| Priority {
            urgency,
            incremental,
        };
        let mut scheduler = Scheduler::default();
        let streams = [(1, of(0, false)), (3, of(0, true)), (5, of(7, false))];
        for (slot, (id, priority)) in streams.into_iter().enumerate() {
            scheduler.insert(id, slot, priority);
        }
        scheduler.remove(1, of(0, false));
        assert_eq!(scheduler.first(), Some(1));
        scheduler.remove(3, of(0, true));
        assert_eq!(scheduler.first(), Some(2));
        scheduler.remove(5, of(7, false));
        assert_eq!(scheduler.first(), None);
    }
}
