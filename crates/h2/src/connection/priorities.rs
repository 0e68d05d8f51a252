//! Priorities of requests that have not arrived, by PRIORITY_UPDATE (RFC 9218 §7.1).

use hikyaku_http_common::priority::Priority;

/// The last update of each stream that the client may still open.
#[derive(Debug)]
pub(super) struct IdlePriorities {
    updates: Vec<(u32, Priority)>,
    max: usize,
}

impl IdlePriorities {
    /// Keeps the priorities of `max` streams at most.
    pub(super) fn new(max: u32) -> Self {
        Self {
            updates: Vec::new(),
            max: max as usize,
        }
    }

    /// Keeps the priority of a stream. Returns whether there was room.
    pub(super) fn update(&mut self, stream: u32, priority: Priority) -> bool {
        if let Some((_, kept)) = self.updates.iter_mut().find(|(id, _)| *id == stream) {
            *kept = priority;
            return true;
        }
        let has_room = self.updates.len() < self.max;
        if has_room {
            self.updates.push((stream, priority));
        }
        has_room
    }

    /// Takes the priority of a stream that the client opens. Those of smaller identifiers, which can
    /// never be opened (RFC 9113 §5.1.1), are forgotten.
    pub(super) fn take(&mut self, stream: u32) -> Option<Priority> {
        if self.updates.is_empty() {
            return None;
        }
        let found = self.updates.iter().find(|(id, _)| *id == stream);
        let priority = found.map(|(_, priority)| *priority);
        self.updates.retain(|(id, _)| *id > stream);
        priority
    }
}
