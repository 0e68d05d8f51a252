//! Serialisation: the times at which the last bit of each packet leaves.

#[cfg(test)]
mod tests;

use crate::config::Capacity;
use crate::packet::Tally;
use crate::trace::Trace;

/// Sends one packet after another.
///
/// Times are whole nanoseconds. The remainder of a division is carried to the
/// next packet, so a busy period of any length takes exactly `bits / rate`.
#[derive(Debug)]
pub(crate) struct Transmitter {
    pace: Pace,
    overhead: u64,
    finish_ns: u64,
    /// Bytes of the present packet, counted from the last change of capacity.
    loaded: u64,
}

#[derive(Debug)]
enum Pace {
    Unlimited,
    Rate {
        bits_per_sec: u64,
        /// Bits times nanoseconds per second not yet accounted for; below the
        /// rate.
        carry: u64,
    },
    Trace(Cursor),
}

/// Position in a trace.
#[derive(Clone, Debug)]
struct Cursor {
    trace: Trace,
    /// Time at which the trace began.
    origin_ns: u64,
    /// The next unused opportunity.
    next: u64,
    /// Unused bytes of the opportunity before `next`.
    left: u64,
}

impl Transmitter {
    /// An idle transmitter. A trace begins at `now_ns`.
    pub(crate) fn new(capacity: &Capacity, overhead: u32, now_ns: u64) -> Self {
        Self {
            pace: Pace::new(capacity, now_ns),
            overhead: overhead.into(),
            finish_ns: now_ns,
            loaded: 0,
        }
    }

    /// Starts to send a packet of `len` bytes on an idle transmitter. Returns the
    /// time at which its last bit leaves.
    pub(crate) fn start(&mut self, now_ns: u64, len: u32) -> u64 {
        self.begin_busy_period(now_ns);
        self.follow(len)
    }

    /// Sends a packet that waited for the one before it. Returns the time at
    /// which its last bit leaves.
    pub(crate) fn follow(&mut self, len: u32) -> u64 {
        let bytes = self.wire_bytes(Tally {
            packets: 1,
            bytes: len.into(),
        });
        self.load(bytes)
    }

    /// Changes the capacity from `now_ns` on, also for the rest of the packet
    /// being sent, rounded up to a byte. Returns the time at which the packet's
    /// last bit leaves, or `now_ns` if the transmitter is idle.
    pub(crate) fn change(&mut self, capacity: &Capacity, now_ns: u64) -> u64 {
        let remaining = self.remaining_bytes(now_ns);
        self.pace = Pace::new(capacity, now_ns);
        self.begin_busy_period(now_ns);
        if remaining == 0 {
            return now_ns;
        }
        self.load(remaining)
    }

    /// Sets the bytes that the wire adds to each packet, from the next one on.
    pub(crate) fn set_overhead(&mut self, overhead: u32) {
        self.overhead = overhead.into();
    }

    /// Bytes that packets take on the wire.
    pub(crate) fn wire_bytes(&self, packets: Tally) -> u64 {
        match self.pace {
            Pace::Trace(_) => packets.bytes,
            Pace::Unlimited | Pace::Rate { .. } => packets.bytes + packets.packets * self.overhead,
        }
    }

    /// The time at which `wire_bytes` that follow the present packet would have
    /// left.
    pub(crate) fn finish_of(&self, wire_bytes: u64) -> u64 {
        match &self.pace {
            Pace::Unlimited => self.finish_ns,
            Pace::Rate { bits_per_sec, .. } => {
                let (duration_ns, _) = duration(*bits_per_sec, wire_bytes, 0);
                self.finish_ns.saturating_add(duration_ns)
            }
            Pace::Trace(cursor) => cursor.clone().take(wire_bytes).unwrap_or(self.finish_ns),
        }
    }

    fn begin_busy_period(&mut self, now_ns: u64) {
        self.finish_ns = now_ns;
        match &mut self.pace {
            Pace::Unlimited => {}
            Pace::Rate { carry, .. } => *carry = 0,
            Pace::Trace(cursor) => cursor.skip_to(now_ns),
        }
    }

    fn load(&mut self, bytes: u64) -> u64 {
        self.loaded = bytes;
        match &mut self.pace {
            Pace::Unlimited => {}
            Pace::Rate {
                bits_per_sec,
                carry,
            } => {
                let (duration_ns, rest) = duration(*bits_per_sec, bytes, *carry);
                self.finish_ns = self.finish_ns.saturating_add(duration_ns);
                *carry = rest;
            }
            Pace::Trace(cursor) => {
                self.finish_ns = cursor.take(bytes).unwrap_or(self.finish_ns);
            }
        }
        self.finish_ns
    }

    fn remaining_bytes(&self, now_ns: u64) -> u64 {
        let left_ns = self.finish_ns.saturating_sub(now_ns);
        let remaining = match &self.pace {
            _ if left_ns == 0 => 0,
            Pace::Unlimited => 0,
            Pace::Rate {
                bits_per_sec: 0, ..
            } => self.loaded,
            Pace::Rate { bits_per_sec, .. } => {
                let bits = u128::from(left_ns) * u128::from(*bits_per_sec);
                u64::try_from(bits.div_ceil(8 * NANOS_PER_SEC)).unwrap_or(u64::MAX)
            }
            Pace::Trace(cursor) => cursor.used_after(now_ns),
        };
        remaining.min(self.loaded)
    }
}

impl Pace {
    fn new(capacity: &Capacity, now_ns: u64) -> Self {
        match capacity {
            Capacity::Unlimited => Self::Unlimited,
            Capacity::Rate(rate) => Self::Rate {
                bits_per_sec: rate.bits_per_sec(),
                carry: 0,
            },
            Capacity::Trace(trace) => Self::Trace(Cursor {
                trace: trace.clone(),
                origin_ns: now_ns,
                next: 0,
                left: 0,
            }),
        }
    }
}

impl Cursor {
    /// Wastes the opportunities that were not used until `now_ns`.
    fn skip_to(&mut self, now_ns: u64) {
        self.left = 0;
        let first = self
            .trace
            .first_after(now_ns.saturating_sub(self.origin_ns));
        self.next = self.next.max(first);
    }

    /// Uses `bytes`. Returns the time of the last opportunity that this takes, or
    /// `None` if the rest of the opportunity before suffices.
    fn take(&mut self, bytes: u64) -> Option<u64> {
        let Some(more) = bytes.checked_sub(self.left).filter(|&more| more > 0) else {
            self.left -= bytes;
            return None;
        };
        let opportunities = more.div_ceil(Trace::OPPORTUNITY_BYTES);
        self.next += opportunities;
        self.left = opportunities * Trace::OPPORTUNITY_BYTES - more;
        Some(self.time_ns(self.next - 1))
    }

    /// Bytes used of opportunities after `now_ns`.
    fn used_after(&self, now_ns: u64) -> u64 {
        let first = self
            .trace
            .first_after(now_ns.saturating_sub(self.origin_ns));
        let opportunities = self.next.saturating_sub(first);
        (opportunities * Trace::OPPORTUNITY_BYTES).saturating_sub(self.left)
    }

    fn time_ns(&self, opportunity: u64) -> u64 {
        self.origin_ns
            .saturating_add(self.trace.time_ns(opportunity))
    }
}

/// Nanoseconds that `bytes` take after a `carry`, and the new carry.
fn duration(bits_per_sec: u64, bytes: u64, carry: u64) -> (u64, u64) {
    let rate = u128::from(bits_per_sec);
    let work = u128::from(bytes) * 8 * NANOS_PER_SEC + u128::from(carry);
    match work.checked_div(rate) {
        // A remainder is below its divisor, which came from a `u64`.
        Some(ns) => (u64::try_from(ns).unwrap_or(u64::MAX), (work % rate) as u64),
        None => (u64::MAX, 0),
    }
}

const NANOS_PER_SEC: u128 = 1_000_000_000;
