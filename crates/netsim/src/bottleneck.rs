//! A drop-tail queue in front of a transmitter.

use std::collections::VecDeque;
use std::time::Duration;

use crate::config::{Capacity, Ecn, QueueLimit};
use crate::nanos;
use crate::packet::{Packet, Tally};
use crate::transmitter::Transmitter;

/// A queue and its transmitter. It acts at the times that the caller passes,
/// which must not go back.
#[derive(Debug)]
pub(crate) struct Bottleneck<P> {
    transmitter: Transmitter,
    limit: QueueLimit,
    mark_after_ns: Option<u64>,
    sending: Option<Sending<P>>,
    waiting: VecDeque<Waiting<P>>,
    waiting_tally: Tally,
}

#[derive(Debug)]
struct Sending<P> {
    finish_ns: u64,
    packet: Packet<P>,
}

#[derive(Debug)]
struct Waiting<P> {
    since_ns: u64,
    packet: Packet<P>,
}

impl<P> Bottleneck<P> {
    pub(crate) fn new(capacity: &Capacity, limit: QueueLimit, overhead: u32, now_ns: u64) -> Self {
        Self {
            transmitter: Transmitter::new(capacity, overhead, now_ns),
            limit,
            mark_after_ns: None,
            sending: None,
            waiting: VecDeque::new(),
            waiting_tally: Tally::default(),
        }
    }

    /// Takes a packet that arrives at `now_ns`, or returns it if the queue has no
    /// room. The caller must have taken out all packets that were finished by
    /// then.
    pub(crate) fn offer(&mut self, now_ns: u64, packet: Packet<P>) -> Result<(), Packet<P>> {
        let len = packet.info.len;
        if self.sending.is_none() {
            let finish_ns = self.transmitter.start(now_ns, len);
            self.sending = Some(Sending { finish_ns, packet });
        } else if self.has_room(now_ns, len) {
            self.waiting_tally.count(len);
            self.waiting.push_back(Waiting {
                since_ns: now_ns,
                packet,
            });
        } else {
            return Err(packet);
        }
        Ok(())
    }

    /// The time at which the last bit of the packet being sent leaves.
    pub(crate) fn next_finish(&self) -> Option<u64> {
        self.sending.as_ref().map(|sending| sending.finish_ns)
    }

    /// Takes out the packet that has left by `now_ns`, with the time at which it
    /// left. The transmitter then starts on the next packet.
    pub(crate) fn take_finished(&mut self, now_ns: u64) -> Option<(u64, Packet<P>)> {
        let Sending { finish_ns, packet } = self
            .sending
            .take_if(|sending| sending.finish_ns <= now_ns)?;
        if let Some(next) = self.waiting.pop_front() {
            self.send_waiting(finish_ns, next);
        }
        Some((finish_ns, packet))
    }

    /// Packets that wait for the transmitter, without the one being sent.
    pub(crate) fn waiting(&self) -> Tally {
        self.waiting_tally
    }

    /// Packets in the queue and the transmitter.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + usize::from(self.sending.is_some())
    }

    pub(crate) fn set_capacity(&mut self, capacity: &Capacity, now_ns: u64) {
        let finish_ns = self.transmitter.change(capacity, now_ns);
        if let Some(sending) = &mut self.sending {
            sending.finish_ns = finish_ns;
        }
    }

    /// Changes the queue's limit. Packets that already wait keep their places.
    pub(crate) fn set_limit(&mut self, limit: QueueLimit) {
        self.limit = limit;
    }

    pub(crate) fn set_overhead(&mut self, overhead: u32) {
        self.transmitter.set_overhead(overhead);
    }

    pub(crate) fn set_ecn(&mut self, ecn: Ecn) {
        self.mark_after_ns = match ecn {
            Ecn::Off => None,
            Ecn::Step(threshold) => Some(nanos(threshold)),
        };
    }

    fn send_waiting(&mut self, start_ns: u64, waiting: Waiting<P>) {
        let Waiting {
            since_ns,
            mut packet,
        } = waiting;
        let len = packet.info.len;
        self.waiting_tally.uncount(len);
        let waited_ns = start_ns.saturating_sub(since_ns);
        packet.marked =
            packet.info.ect && self.mark_after_ns.is_some_and(|after| waited_ns > after);
        let finish_ns = self.transmitter.follow(len);
        self.sending = Some(Sending { finish_ns, packet });
    }

    fn has_room(&self, now_ns: u64, len: u32) -> bool {
        match self.limit {
            QueueLimit::Packets(limit) => self.waiting.len() < limit as usize,
            QueueLimit::Bytes(limit) => {
                let mut with_it = self.waiting_tally;
                with_it.count(len);
                self.transmitter.wire_bytes(with_it) <= limit
            }
            QueueLimit::Time(limit) => self.wait(now_ns) <= limit,
        }
    }

    /// The time that a packet arriving now would wait until its first bit is
    /// sent.
    fn wait(&self, now_ns: u64) -> Duration {
        let before = self.transmitter.wire_bytes(self.waiting_tally);
        Duration::from_nanos(self.transmitter.finish_of(before).saturating_sub(now_ns))
    }
}
