//! The rate at which packets leave the network (draft-ietf-ccwg-bbr §4.1, after
//! draft-cheng-iccrg-delivery-rate-estimation).

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Counts bytes sent and acknowledged, and computes a rate at each acknowledgement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    /// Bytes acknowledged.
    delivered: u64,
    in_flight: u64,
    /// The time at which `delivered` last grew.
    delivered_at: Option<Instant>,
    /// The time at which the last acknowledged packet was sent.
    acked_sent: Option<Instant>,
    /// The delivered bytes up to which packets were sent while the application was the limit.
    limited_until: u64,
    /// The packets in flight in the order of sending. Packets sent at one time share an entry.
    batches: VecDeque<Batch>,
}

/// The counters at the time at which packets were sent.
#[derive(Clone, Copy, Debug)]
struct Batch {
    sent: Instant,
    delivered: u64,
    delivered_at: Instant,
    acked_sent: Instant,
    limited: bool,
}

/// The measurements of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Bytes acknowledged per second.
    pub rate: f64,
    /// The time from sending to acknowledgement.
    pub rtt: Duration,
    /// The time at which the packet was sent.
    pub sent: Instant,
    /// The bytes delivered when the packet was sent.
    pub prior: u64,
    /// Whether the application was the limit: the path may carry more than `rate`.
    pub limited: bool,
}

impl Delivery {
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64) {
        if self.in_flight == 0 {
            self.delivered_at = Some(now);
            self.acked_sent = Some(now);
        }
        self.in_flight += bytes;
        if self.batches.back().is_some_and(|batch| batch.sent == now) {
            return;
        }
        self.batches.push_back(Batch {
            sent: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at.unwrap_or(now),
            acked_sent: self.acked_sent.unwrap_or(now),
            limited: self.limited_until > self.delivered,
        });
    }

    pub(crate) fn on_ack(&mut self, bytes: u64) {
        self.delivered += bytes;
    }

    /// Computes a sample after the acknowledgements at `now`. `newest` is the latest sending time
    /// among their packets.
    pub(crate) fn on_end_acks(
        &mut self,
        now: Instant,
        newest: Instant,
        in_flight: u64,
        limited: bool,
    ) -> Option<Sample> {
        self.in_flight = in_flight;
        if limited {
            self.limited_until = self.delivered + in_flight.max(1);
        }
        let index = self.batches.partition_point(|batch| batch.sent < newest);
        self.batches.drain(..index);
        let batch = *self.batches.front().filter(|batch| batch.sent == newest)?;
        self.delivered_at = Some(now);
        self.acked_sent = Some(newest);
        // The larger time of both, so that packets sent or acknowledged in a burst do not look
        // fast.
        let sending = newest.saturating_duration_since(batch.acked_sent);
        let acking = now.saturating_duration_since(batch.delivered_at);
        let secs = sending.max(acking).as_secs_f64();
        let delivered = (self.delivered - batch.delivered) as f64;
        (secs > 0.0).then(|| Sample {
            rate: delivered / secs,
            rtt: now.saturating_duration_since(newest),
            sent: newest,
            prior: batch.delivered,
            limited: batch.limited,
        })
    }
}
