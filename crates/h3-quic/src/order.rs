//! The order of responses on a connection, by their priorities (RFC 9218 §10).
//!
//! QUIC has a queue of the streams with bytes to send, by a number for each stream: its **level**. The largest
//! level sends first, and streams of one level take turns, a packet each. Responses get their levels from
//! their priorities:
//!
//! - a smaller urgency has larger levels;
//! - responses that are not incremental have a level each, in the order of their streams;
//! - incremental ones share the level of the first that is not.
//!
//! A stream that waits in QUIC's queue leaves it by its former level. So a level that shall rise never would
//! count while others have bytes. All other levels fall instead: [`Order::renumber`] gives new ones to all,
//! below any that were given before. Each stream then sends one packet by its former level at most.

use hikyaku_h3::priority::{Parameters, Priority};

/// The open responses of a connection.
#[derive(Debug)]
pub(crate) struct Order {
    /// By their streams, the first one first.
    open: Vec<Response>,
    /// Open responses by urgency: all, and the incremental ones. Most requests then look at no other response.
    counts: [Count; 8],
    /// The largest level of those given since the last renumbering.
    top: i32,
    /// By urgency: levels given since then.
    given: [i32; 8],
    /// Priorities have changed, and levels have not yet.
    is_stale: bool,
    /// Levels that QUIC has not got yet.
    changed: Vec<Level>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: usize,
    incremental: usize,
}

#[derive(Clone, Copy, Debug)]
struct Response {
    stream: u64,
    /// As the client asks.
    client: Priority,
    /// As the response itself says.
    by_server: Parameters,
    level: i32,
}

/// A stream with its new level.
pub(crate) type Level = (u64, i32);

/// Room for a response, in the bytes that QUIC holds of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headroom {
    /// Of the response.
    pub(crate) own: u64,
    /// The largest one of all open responses.
    pub(crate) most: u64,
}

impl Response {
    fn priority(&self) -> Priority {
        self.by_server.or(self.client)
    }

    fn urgency(&self) -> usize {
        usize::from(self.priority().urgency.min(7))
    }

    fn is_incremental(&self) -> bool {
        self.priority().incremental
    }
}

impl Order {
    pub(crate) fn new() -> Self {
        Self {
            open: Vec::new(),
            counts: Default::default(),
            top: TOP,
            given: [0; 8],
            is_stale: false,
            changed: Vec::new(),
        }
    }

    /// Levels that have changed since the last call.
    pub(crate) fn changes(&mut self) -> impl Iterator<Item = Level> {
        self.changed.drain(..)
    }

    /// Adds a response, which is not there yet.
    pub(crate) fn insert(&mut self, stream: u64, client: Priority) {
        let later = self.open.iter().rev().take_while(|it| it.stream > stream);
        let at = self.open.len() - later.count();
        let is_last = at == self.open.len();
        let response = Response {
            stream,
            client,
            by_server: Parameters::default(),
            level: self.top,
        };
        self.open.insert(at, response);
        self.count(response, 1);
        let urgency = response.urgency();
        if self.is_stale || !is_last || self.given[urgency] == LEVELS {
            return self.renumber();
        }
        let shared = response
            .is_incremental()
            .then(|| self.front_of_others(at, urgency))
            .flatten();
        let level = shared.unwrap_or_else(|| {
            self.given[urgency] += 1;
            self.top - offset(urgency) - (self.given[urgency] - 1)
        });
        self.open[at].level = level;
        self.changed.push((stream, level));
        self.share(urgency);
    }

    /// The level of the incremental responses of an urgency, or of the first other one; `at` is left out.
    fn front_of_others(&self, at: usize, urgency: usize) -> Option<i32> {
        let others = self.open.iter().enumerate();
        let mut others = others.filter(|(index, it)| *index != at && it.urgency() == urgency);
        let (_, first) = others.next()?;
        // Those that are incremental have the level of the first that is not, where there is one.
        let mut all = std::iter::once(first).chain(others.map(|(_, it)| it));
        let found = all.find(|it| it.is_incremental());
        Some(found.map_or(first.level, |it| it.level))
    }

    /// Has the incremental responses of an urgency share the level of the first other one. Their levels only fall.
    fn share(&mut self, urgency: usize) {
        if self.counts[urgency].incremental == 0 {
            return;
        }
        let mut of = self.open.iter().filter(|it| it.urgency() == urgency);
        let Some(front) = of.find(|it| !it.is_incremental()) else {
            return;
        };
        let level = front.level;
        let rotating = self.open.iter_mut();
        let rotating = rotating.filter(|it| it.urgency() == urgency && it.is_incremental());
        for response in rotating.filter(|it| it.level != level) {
            response.level = level;
            self.changed.push((response.stream, level));
        }
    }

    /// Removes a response.
    pub(crate) fn remove(&mut self, stream: u64) {
        let Some(at) = self.position(stream) else {
            return;
        };
        let removed = self.open.remove(at);
        self.count(removed, -1);
        if !removed.is_incremental() {
            self.share(removed.urgency());
        }
    }

    /// Takes note of a client's new priority, which counts from the next [`Order::refresh`] on. Does nothing
    /// for a response that is not there.
    pub(crate) fn by_client(&mut self, stream: u64, client: Priority) {
        self.change(stream, |response| response.client = client);
    }

    /// Takes note of the parameters that a response itself has, as [`Order::by_client`].
    pub(crate) fn by_server(&mut self, stream: u64, parameters: Parameters) {
        self.change(stream, |response| response.by_server = parameters);
    }

    fn change(&mut self, stream: u64, change: impl FnOnce(&mut Response)) {
        let Some(at) = self.position(stream) else {
            return;
        };
        let before = self.open[at];
        change(&mut self.open[at]);
        let after = self.open[at];
        self.count(before, -1);
        self.count(after, 1);
        self.is_stale |= after.priority() != before.priority();
    }

    /// Counts a response that comes, or goes.
    fn count(&mut self, response: Response, change: isize) {
        let count = &mut self.counts[response.urgency()];
        count.all = count.all.saturating_add_signed(change);
        if response.is_incremental() {
            count.incremental = count.incremental.saturating_add_signed(change);
        }
    }

    /// Gives new levels where priorities have changed. Many changes cost as much as one.
    pub(crate) fn refresh(&mut self) {
        if self.is_stale {
            self.renumber();
        }
    }

    /// Gives new levels to all responses, below those that were given before. Once there are no lower ones, after
    /// some sixty thousand times, all keep theirs.
    fn renumber(&mut self) {
        self.is_stale = false;
        let top = self.top.checked_sub(BAND);
        let Some(top) = top.filter(|top| *top > i32::MIN + BAND) else {
            return;
        };
        self.top = top;
        for urgency in 0..8 {
            let mut given = 0;
            let of = self.open.iter_mut();
            for response in of.filter(|it| it.urgency() == urgency) {
                let level = top - offset(urgency);
                response.level = match response.is_incremental() {
                    // The level of the first other one.
                    true => level,
                    false => level - given.min(LEVELS - 1),
                };
                given += i32::from(!response.is_incremental());
            }
            let has_any = self.counts[urgency].all > 0;
            self.given[urgency] = given.max(i32::from(has_any)).min(LEVELS);
        }
        let levels = self.open.iter().map(|it| (it.stream, it.level));
        self.changed.extend(levels);
    }

    /// The room for a response in the bytes that QUIC holds. The more urgent response always finds some, however
    /// much the others have written, and so does the first of its urgency.
    pub(crate) fn headroom(&self, stream: u64) -> Headroom {
        let most_urgent = self.counts.iter().position(|count| count.all > 0);
        let most = most_urgent.map_or(0, |urgency| room(urgency, true));
        let Some(at) = self.position(stream) else {
            return Headroom { own: most, most };
        };
        let response = &self.open[at];
        let urgency = response.urgency();
        let is_front = response.is_incremental()
            || !self.open[..at]
                .iter()
                .any(|it| it.urgency() == urgency && !it.is_incremental());
        Headroom {
            own: room(urgency, is_front),
            most,
        }
    }

    fn position(&self, stream: u64) -> Option<usize> {
        // Mostly one of the last.
        self.open.iter().rposition(|it| it.stream == stream)
    }
}

/// The distance of an urgency's largest level from the top.
fn offset(urgency: usize) -> i32 {
    // There are eight urgencies.
    i32::try_from(urgency).unwrap_or(7) * LEVELS
}

const fn room(urgency: usize, is_front: bool) -> u64 {
    let steps = 2 * (7 - urgency) + is_front as usize;
    steps as u64 * ROOM
}

/// Levels of an urgency between renumberings.
const LEVELS: i32 = 4096;
/// Levels of all urgencies.
const BAND: i32 = 8 * LEVELS;
/// The first level, below those of control streams. Streams without a level, such as those of requests that are
/// refused, go before all others.
const TOP: i32 = 0;
/// Bytes that a response may have QUIC hold beyond those of a less urgent one, or of a later one.
const ROOM: u64 = 16 * 1024;

#[cfg(test)]
mod tests;
