//! The link itself.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use hikyaku_core::units::Timestamp;
use rand_chacha::ChaCha8Rng;

use crate::config::{LinkConfig, QueueLimit};
use crate::loss::LossProcess;
use crate::rng::{Purpose, below, stream};
use crate::transmitter::Transmitter;

/// One direction of a path, carrying packets whose contents are a `P`.
///
/// Everything happens at virtual times: a packet's last bit leaves when the rate
/// says so, however late the caller looks. So lateness never adds up, and the
/// result does not depend on how often the link is polled. Time never goes
/// back: a `now` before the latest one seen counts as that one.
///
/// A super-packet of generic segmentation offload is several packets here: the
/// caller enqueues its segments one by one, and queue, rate and loss act on each.
#[derive(Debug)]
pub struct Link<P> {
    queue: QueueLimit,
    overhead: u32,
    one_way_delay_ns: u64,
    jitter_ns: u64,
    transmitter: Transmitter,
    loss: LossProcess,
    jitter: ChaCha8Rng,
    now_ns: u64,
    waiting: VecDeque<Packet<P>>,
    waiting_bytes: u64,
    sending: Option<Sending<P>>,
    delay_line: VecDeque<InFlight<P>>,
    last_due_ns: u64,
    counters: Counters,
}

/// What became of a packet on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It is in the link: it will be delivered, unless the wire loses it.
    Queued,
    /// The queue had no room.
    Dropped,
}

/// A packet at the far end.
#[derive(Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// When it is due, rounded up to a microsecond; at most the time of the poll.
    pub due: Timestamp,
    /// What was enqueued.
    pub payload: P,
}

/// Packets and their bytes, without the wire's overhead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes as given to [`Link::enqueue`].
    pub bytes: u64,
}

/// What became of all packets so far. Every enqueued packet is in exactly one of
/// `delivered`, `lost`, `dropped` and [`Link::in_link`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Handed out by [`Link::poll`].
    pub delivered: Tally,
    /// Lost on the wire.
    pub lost: Tally,
    /// Dropped on arrival, because the queue was full.
    pub dropped: Tally,
}

#[derive(Debug)]
struct Packet<P> {
    len: u32,
    payload: P,
}

#[derive(Debug)]
struct Sending<P> {
    finish_ns: u64,
    packet: Packet<P>,
}

#[derive(Debug)]
struct InFlight<P> {
    due_ns: u64,
    packet: Packet<P>,
}

impl<P> Link<P> {
    /// An empty link. Links of the same configuration and seed treat the same
    /// packets in the same way; give the two directions of a path different
    /// seeds ([`derive_seed`](crate::derive_seed)).
    pub fn new(config: &LinkConfig, seed: u64) -> Self {
        Self {
            queue: config.queue,
            overhead: config.overhead,
            one_way_delay_ns: nanos(config.one_way_delay),
            jitter_ns: nanos(config.jitter),
            transmitter: Transmitter::new(config.rate),
            loss: LossProcess::new(config.loss, seed),
            jitter: stream(seed, Purpose::Jitter),
            now_ns: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            sending: None,
            delay_line: VecDeque::new(),
            last_due_ns: 0,
            counters: Counters::default(),
        }
    }

    /// A packet of `len` bytes arrives at `now`.
    pub fn enqueue(&mut self, now: Timestamp, len: u32, payload: P) -> Verdict {
        self.advance(now);
        let packet = Packet { len, payload };
        if self.sending.is_none() {
            self.send(self.now_ns, packet);
        } else if self.has_room(self.wire_bytes(len)) {
            self.waiting_bytes += self.wire_bytes(len);
            self.waiting.push_back(packet);
        } else {
            self.counters.dropped.count(len);
            return Verdict::Dropped;
        }
        Verdict::Queued
    }

    /// The next packet due at or before `now`, in the order of arrival.
    pub fn poll(&mut self, now: Timestamp) -> Option<Delivery<P>> {
        self.advance(now);
        let InFlight { due_ns, packet } = self
            .delay_line
            .pop_front_if(|first| first.due_ns <= self.now_ns)?;
        self.counters.delivered.count(packet.len);
        Some(Delivery {
            due: timestamp(due_ns),
            payload: packet.payload,
        })
    }

    /// When to poll next; `None` while the link is empty. A poll then may still
    /// find nothing, if the wire loses the packet.
    pub fn next_due(&self) -> Option<Timestamp> {
        let earliest_ns = match (self.delay_line.front(), &self.sending) {
            (Some(first), _) => first.due_ns,
            (None, Some(sending)) => {
                let arrival = sending.finish_ns.saturating_add(self.one_way_delay_ns);
                arrival.max(self.last_due_ns)
            }
            (None, None) => return None,
        };
        Some(timestamp(earliest_ns))
    }

    /// What became of the packets so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Packets that are in the link: waiting, being sent, or on the wire.
    pub fn in_link(&self) -> usize {
        self.waiting.len() + usize::from(self.sending.is_some()) + self.delay_line.len()
    }

    /// Moves everything to where it is at `now`.
    fn advance(&mut self, now: Timestamp) {
        self.now_ns = self.now_ns.max(now.as_micros().saturating_mul(1_000));
        while let Some(Sending { finish_ns, packet }) = self
            .sending
            .take_if(|sending| sending.finish_ns <= self.now_ns)
        {
            self.put_on_wire(finish_ns, packet);
            if let Some(next) = self.waiting.pop_front() {
                self.waiting_bytes -= self.wire_bytes(next.len);
                self.send(finish_ns, next);
            }
        }
    }

    fn send(&mut self, start_ns: u64, packet: Packet<P>) {
        let wire_bytes = self.wire_bytes(packet.len);
        let finish_ns = self.transmitter.send(start_ns, wire_bytes);
        self.sending = Some(Sending { finish_ns, packet });
    }

    fn put_on_wire(&mut self, finish_ns: u64, packet: Packet<P>) {
        if self.loss.loses_next() {
            self.counters.lost.count(packet.len);
            return;
        }
        let jitter_ns = match self.jitter_ns {
            0 => 0,
            jitter_ns => below(&mut self.jitter, jitter_ns.saturating_add(1)),
        };
        let arrival_ns = finish_ns
            .saturating_add(self.one_way_delay_ns)
            .saturating_add(jitter_ns);
        self.last_due_ns = arrival_ns.max(self.last_due_ns);
        self.delay_line.push_back(InFlight {
            due_ns: self.last_due_ns,
            packet,
        });
    }

    fn has_room(&self, wire_bytes: u64) -> bool {
        match self.queue {
            QueueLimit::Bytes(limit) => self.waiting_bytes + wire_bytes <= limit,
            QueueLimit::Packets(limit) => self.waiting.len() < limit as usize,
            QueueLimit::Time(limit) => self.wait_ns() <= nanos(limit),
        }
    }

    /// How long a packet that arrives now would wait for its first bit to leave.
    fn wait_ns(&self) -> u64 {
        let residual_ns = self
            .sending
            .as_ref()
            .map_or(0, |sending| sending.finish_ns - self.now_ns);
        residual_ns.saturating_add(self.transmitter.duration_ns(self.waiting_bytes))
    }

    fn wire_bytes(&self, len: u32) -> u64 {
        u64::from(len) + u64::from(self.overhead)
    }
}

impl Tally {
    fn count(&mut self, len: u32) {
        self.packets += 1;
        self.bytes += u64::from(len);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Rounds up, so that what is due then is due at the timestamp, too.
fn timestamp(ns: u64) -> Timestamp {
    Timestamp::from_micros(ns.div_ceil(1_000))
}
