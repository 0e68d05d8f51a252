//! One direction of a network path under virtual time.

#[cfg(test)]
pub(crate) mod tests;

use std::collections::VecDeque;

use hikyaku_units::Timestamp;

use crate::bottleneck::Bottleneck;
use crate::config::{LinkConfig, UdpPolicy};
use crate::packet::{Counters, Delivery, Discard, Discarded, Packet, PacketInfo, Tally, Verdict};
use crate::patch::{Change, LinkPatch};
use crate::wire::Wire;

/// One direction of a network path, carrying packets whose contents are a `P`.
///
/// Everything happens at virtual times. A packet's last bit leaves at the time
/// that the rate gives, and a change acts at its own time, however late the
/// caller polls. So lateness never adds up, and the result does not depend on how
/// often the link is polled. Time never goes back: a `now` before the latest time
/// seen counts as that time.
///
/// A super-packet of generic segmentation offload is several packets here. The
/// caller enqueues its segments one by one, and queue, rate and loss act on each.
#[derive(Debug)]
pub struct Link<P> {
    config: LinkConfig,
    now_ns: u64,
    /// Shaper of UDP; present once a policy has asked for it.
    udp_shaper: Option<Bottleneck<P>>,
    bottleneck: Bottleneck<P>,
    wire: Wire<P>,
    /// Future patches with their times in ns, by time.
    pending: VecDeque<(u64, LinkPatch)>,
    counters: Counters,
    discarded: Option<VecDeque<Discarded<P>>>,
}

impl<P> Link<P> {
    /// An empty link. Links of the same configuration and seed treat the same
    /// packets in the same way. Give the two directions of a network path
    /// different seeds ([`derive_seed`](crate::derive_seed)).
    pub fn new(config: &LinkConfig, seed: u64) -> Self {
        Self::starting_at(Timestamp::default(), config, seed)
    }

    /// An empty link that starts at `now`, where its trace begins. Otherwise it
    /// equals [`Self::new`], which starts at zero.
    pub fn starting_at(now: Timestamp, config: &LinkConfig, seed: u64) -> Self {
        let now_ns = time_ns(now);
        let mut bottleneck = Bottleneck::new(&config.rate, config.queue, config.overhead, now_ns);
        bottleneck.set_ecn(config.ecn);
        let mut link = Self {
            config: config.clone(),
            now_ns,
            udp_shaper: None,
            bottleneck,
            wire: Wire::new(config, seed),
            pending: VecDeque::new(),
            counters: Counters::default(),
            discarded: None,
        };
        link.set_udp(config.udp);
        link
    }

    /// Takes a packet that arrives at `now`. A bare length in bytes is a packet
    /// that is neither UDP nor ECN-capable.
    pub fn enqueue(&mut self, now: Timestamp, info: impl Into<PacketInfo>, payload: P) -> Verdict {
        self.advance(now);
        let packet = Packet {
            info: info.into(),
            payload,
            marked: false,
        };
        match (self.config.udp, &mut self.udp_shaper) {
            (UdpPolicy::Drop, _) if packet.info.udp => {
                self.discard(self.now_ns, packet, Discard::Policed)
            }
            (UdpPolicy::Limit { .. }, Some(shaper)) if packet.info.udp => {
                match shaper.offer(self.now_ns, packet) {
                    Ok(()) => Verdict::Queued,
                    Err(packet) => self.discard(self.now_ns, packet, Discard::Policed),
                }
            }
            _ => self.queue(self.now_ns, packet),
        }
    }

    /// Returns the next packet due at or before `now`, in the order of arrival.
    pub fn poll(&mut self, now: Timestamp) -> Option<Delivery<P>> {
        self.advance(now);
        let (due_ns, packet) = self.wire.take_due(self.now_ns)?;
        self.counters.delivered.count(packet.info.len);
        Some(Delivery {
            due: timestamp(due_ns),
            payload: packet.payload,
            mark_ce: packet.marked,
        })
    }

    /// The time of the next poll; `None` while the link is empty. That poll may
    /// find nothing, if the wire loses the packet or a change comes first.
    pub fn next_due(&self) -> Option<Timestamp> {
        let shaper = self.udp_shaper.as_ref();
        let sending = [
            shaper.and_then(Bottleneck::next_finish),
            self.bottleneck.next_finish(),
        ];
        let arrivals = sending.into_iter().flatten();
        let earliest_ns = arrivals
            .map(|finish_ns| self.wire.earliest(finish_ns))
            .chain(self.wire.next_due())
            .min()?;
        // A change may make the link faster.
        let change_ns = self.pending.front().map_or(u64::MAX, |(at_ns, _)| *at_ns);
        Some(timestamp(earliest_ns.min(change_ns)))
    }

    /// Changes the link at `at`, or now if that is past. Packets on the wire keep
    /// their arrival times. The rest of the packet being sent leaves at the new
    /// rate. Packets that wait keep their places even if the queue shrinks. A
    /// shorter delay does not put packets out of order.
    pub fn patch(&mut self, at: Timestamp, patch: LinkPatch) {
        let at_ns = time_ns(at);
        let place = self
            .pending
            .partition_point(|(other_ns, _)| *other_ns <= at_ns);
        self.pending.insert(place, (at_ns, patch));
    }

    /// Schedules changes whose times count from `start`.
    pub fn schedule(&mut self, start: Timestamp, changes: &[Change]) {
        for change in changes {
            self.patch(start.saturating_add(change.at), change.patch.clone());
        }
    }

    /// The present configuration: the original one with all changes up to the
    /// latest time seen.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Counts of all packets so far, by fate.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Packets that wait in the queue, at the latest time seen. The packet being
    /// sent and those in a shaper of UDP do not count.
    pub fn queued(&self) -> Tally {
        self.bottleneck.waiting()
    }

    /// Packets that are in the link: waiting, being sent, or on the wire.
    pub fn in_link(&self) -> usize {
        let shaper = self.udp_shaper.as_ref().map_or(0, Bottleneck::len);
        shaper + self.bottleneck.len() + self.wire.len()
    }

    /// Keeps the packets that are discarded from now on, until
    /// [`Self::next_discarded`] returns them. Without this call they are dropped.
    pub fn keep_discarded(&mut self) {
        self.discarded.get_or_insert_default();
    }

    /// Returns the next discarded packet, after [`Self::keep_discarded`].
    pub fn next_discarded(&mut self) -> Option<Discarded<P>> {
        self.discarded.as_mut()?.pop_front()
    }

    /// Advances everything to `now`.
    fn advance(&mut self, now: Timestamp) {
        let now_ns = self.now_ns.max(time_ns(now));
        while let Some((at_ns, patch)) = self.pending.pop_front_if(|(at_ns, _)| *at_ns <= now_ns) {
            self.run_until(at_ns);
            self.change(&patch);
        }
        self.run_until(now_ns);
    }

    /// Moves packets from shaper to queue to wire, in the order of time.
    fn run_until(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        while let Some((finish_ns, packet)) = self
            .udp_shaper
            .as_mut()
            .and_then(|shaper| shaper.take_finished(self.now_ns))
        {
            self.transmit_until(finish_ns);
            let _ = self.queue(finish_ns, packet);
        }
        self.transmit_until(self.now_ns);
    }

    fn transmit_until(&mut self, now_ns: u64) {
        while let Some((finish_ns, packet)) = self.bottleneck.take_finished(now_ns) {
            if packet.marked {
                self.counters.marked.count(packet.info.len);
            }
            if let Err(packet) = self.wire.send(finish_ns, packet) {
                let _ = self.discard(finish_ns, packet, Discard::Lost);
            }
        }
    }

    fn queue(&mut self, at_ns: u64, packet: Packet<P>) -> Verdict {
        match self.bottleneck.offer(at_ns, packet) {
            Ok(()) => Verdict::Queued,
            Err(packet) => self.discard(at_ns, packet, Discard::Dropped),
        }
    }

    fn discard(&mut self, at_ns: u64, packet: Packet<P>, cause: Discard) -> Verdict {
        let (tally, verdict) = match cause {
            Discard::Lost => (&mut self.counters.lost, Verdict::Queued),
            Discard::Dropped => (&mut self.counters.dropped, Verdict::Dropped),
            Discard::Policed => (&mut self.counters.policed, Verdict::Policed),
        };
        tally.count(packet.info.len);
        if let Some(discarded) = &mut self.discarded {
            discarded.push_back(Discarded {
                at: timestamp(at_ns),
                payload: packet.payload,
                cause,
            });
        }
        verdict
    }

    /// Changes the link at the present time.
    fn change(&mut self, patch: &LinkPatch) {
        self.config.apply(patch);
        self.wire.set(&self.config);
        self.bottleneck.set_limit(self.config.queue);
        self.bottleneck.set_ecn(self.config.ecn);
        self.bottleneck.set_overhead(self.config.overhead);
        if let Some(shaper) = &mut self.udp_shaper {
            shaper.set_overhead(self.config.overhead);
        }
        if let Some(capacity) = &patch.rate {
            self.bottleneck.set_capacity(capacity, self.now_ns);
        }
        if let Some(policy) = patch.udp {
            self.set_udp(policy);
        }
    }

    fn set_udp(&mut self, policy: UdpPolicy) {
        // After the limit, packets in the shaper still leave through it.
        let UdpPolicy::Limit { rate, queue } = policy else {
            return;
        };
        if let Some(shaper) = &mut self.udp_shaper {
            shaper.set_capacity(&rate.into(), self.now_ns);
            shaper.set_limit(queue);
        } else {
            let overhead = self.config.overhead;
            let shaper = Bottleneck::new(&rate.into(), queue, overhead, self.now_ns);
            self.udp_shaper = Some(shaper);
        }
    }
}

fn time_ns(time: Timestamp) -> u64 {
    time.as_micros().saturating_mul(1_000)
}

/// Rounds up, so that a packet due at `ns` is due at the timestamp, too.
fn timestamp(ns: u64) -> Timestamp {
    Timestamp::from_micros(ns.div_ceil(1_000))
}
