//! A simulated path for tests of controllers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use quinn_proto::congestion::Controller;

use crate::{Adaptive, Settings};

/// A connection that always has more to send, over a path with a queue.
///
/// The path carries `rate` packets a round trip, queues up to `queue` packets, and loses every
/// `loss`th packet besides.
pub(crate) struct Link {
    pub(crate) controller: Adaptive,
    pub(crate) now: Instant,
    rtt: Duration,
    rate: f64,
    queue: f64,
    loss: u64,
    sent: u64,
    in_flight: u64,
    delivered: u64,
    lost: u64,
    /// The time of the next packet, paced as by quinn with 1.25 windows a round trip.
    paced: Instant,
    /// The time from which the transmitter is free.
    free: Instant,
    /// The fates of the packets in flight, in the order in which the sender learns them.
    fates: VecDeque<Fate>,
}

struct Fate {
    at: Instant,
    sent: Instant,
    number: u64,
    lost: bool,
}

impl Link {
    pub(crate) const MTU: u16 = 1_200;
    const BYTES: u64 = Self::MTU as u64;

    pub(crate) fn new(settings: Settings, rtt: Duration, rate: f64, queue: f64, loss: u64) -> Self {
        let now = Instant::now();
        let controller = Adaptive::new(now, Self::MTU, settings);
        Self {
            controller,
            now,
            rtt,
            rate,
            queue,
            loss,
            sent: 0,
            in_flight: 0,
            delivered: 0,
            lost: 0,
            paced: now,
            free: now,
            fates: VecDeque::new(),
        }
    }

    /// The window in packets.
    pub(crate) fn window(&self) -> f64 {
        self.controller.current() as f64 / f64::from(Self::MTU)
    }

    fn send(&mut self) {
        self.now = self.now.max(self.paced);
        self.paced = self.now + self.rtt.div_f64(self.window() * 1.25);
        self.sent += 1;
        self.in_flight += Self::BYTES;
        self.controller.on_sent(self.now, Self::BYTES, self.sent);
        let one = self.rtt.div_f64(self.rate);
        let waits = self.free.saturating_duration_since(self.now);
        let random = self.loss > 0 && self.sent.is_multiple_of(self.loss);
        let lost = random || waits > one.mul_f64(self.queue);
        if !lost {
            self.free = self.free.max(self.now) + one;
        }
        self.fates.push_back(Fate {
            at: self.free.max(self.now) + self.rtt,
            sent: self.now,
            number: self.sent,
            lost,
        });
    }

    fn learn(&mut self, fate: &Fate) {
        self.now = self.now.max(fate.at);
        self.in_flight -= Self::BYTES;
        if fate.lost {
            self.lost += 1;
            self.controller
                .lost(self.now, fate.sent, false, Self::BYTES);
            return;
        }
        self.delivered += 1;
        let rtt = self.now - fate.sent;
        self.controller
            .acked(self.now, fate.sent, Self::BYTES, false, rtt);
        self.controller
            .acks_ended(self.now, self.in_flight, false, Some(fate.number));
    }

    /// Sends one packet, and delivers its acknowledgement.
    pub(crate) fn handshake(&mut self) {
        self.send();
        if let Some(fate) = self.fates.pop_front() {
            self.learn(&fate);
        }
    }

    /// Sends a packet, or delivers the fate of one to the controller.
    pub(crate) fn step(&mut self) {
        let room = self.in_flight + Self::BYTES <= self.controller.current();
        let next = self.fates.front().map(|fate| fate.at);
        if room && next.is_none_or(|next| self.paced < next) {
            self.send();
        } else if let Some(fate) = self.fates.pop_front() {
            self.learn(&fate);
        }
    }

    pub(crate) fn round(&mut self) -> &mut Self {
        let end = self.now + self.rtt;
        while self.now < end {
            self.step();
        }
        self
    }

    pub(crate) fn rounds(&mut self, count: u32) -> &mut Self {
        (0..count).for_each(|_| {
            self.round();
        });
        self
    }

    /// Runs `rounds` rounds, and returns the packets delivered in them.
    pub(crate) fn delivered_in(&mut self, rounds: u32) -> f64 {
        let before = self.delivered;
        self.rounds(rounds);
        (self.delivered - before) as f64
    }

    /// Runs `rounds` rounds, and returns the packets lost in them.
    pub(crate) fn lost_in(&mut self, rounds: u32) -> u64 {
        let before = self.lost;
        self.rounds(rounds);
        self.lost - before
    }
}
