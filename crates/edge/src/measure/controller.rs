//! Counts what a QUIC connection's path delivers, around any congestion controller.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

/// What the controller of one connection has counted, for its meter to read.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    acked_bytes: AtomicU64,
    /// Bytes per second; see [`Counters::take_delivery_rate`].
    delivery_rate: AtomicU64,
    app_limited: AtomicBool,
}

impl Counters {
    /// Bytes in ack-eliciting packets that the peer acknowledged.
    pub(crate) fn acked_bytes(&self) -> u64 {
        self.acked_bytes.load(Ordering::Relaxed)
    }

    /// The highest delivery rate in bytes per second since this was last asked, and whether
    /// the application rather than the path may have limited it.
    pub(crate) fn take_delivery_rate(&self) -> Option<(u64, bool)> {
        let rate = self.delivery_rate.swap(0, Ordering::Relaxed);
        (rate > 0).then(|| (rate, self.app_limited.load(Ordering::Relaxed)))
    }

    fn sampled(&self, rate: u64, app_limited: bool) {
        if rate > self.delivery_rate.load(Ordering::Relaxed) {
            self.delivery_rate.store(rate, Ordering::Relaxed);
            self.app_limited.store(app_limited, Ordering::Relaxed);
        }
    }
}

/// Makes [`Metered`] controllers, each around one that `inner` makes.
pub(crate) struct MeteredFactory {
    pub(crate) inner: Arc<dyn ControllerFactory + Send + Sync>,
}

impl ControllerFactory for MeteredFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Metered {
            inner: Arc::clone(&self.inner).build(now, current_mtu),
            counters: Arc::default(),
            delivery: Delivery::new(now),
        })
    }
}

/// A congestion controller that counts and leaves the control to `inner`.
pub(crate) struct Metered {
    inner: Box<dyn Controller>,
    counters: Arc<Counters>,
    delivery: Delivery,
}

impl Metered {
    /// The counters of `connection`; `None` if its controller is not ours.
    pub(crate) fn counters(connection: &quinn::Connection) -> Option<Arc<Counters>> {
        let controller = connection.congestion_state().into_any();
        controller
            .downcast::<Self>()
            .ok()
            .map(|metered| metered.counters)
    }
}

impl Controller for Metered {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.delivery.on_sent(now);
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.counters
            .acked_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        self.delivery.on_ack(sent, bytes);
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        if let Some(rate) = self.delivery.on_end_acks(now, in_flight) {
            self.counters.sampled(rate, app_limited);
        }
        self.inner
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.inner
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            counters: Arc::clone(&self.counters),
            delivery: self.delivery.clone(),
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Delivery rate samples, one about each round trip, after
/// draft-cheng-iccrg-delivery-rate-estimation §3: what was delivered between a packet's
/// departure and its acknowledgement, over that time.
#[derive(Clone, Debug)]
struct Delivery {
    bytes: u64,
    /// Departure of the packet acknowledged last in this batch.
    newest_departure: Option<Instant>,
    /// What had been delivered when, ascending in both; the packet's departure is
    /// looked up in it.
    marks: VecDeque<(Instant, u64)>,
    /// Nothing is in flight.
    idle: bool,
}

/// Shortest time between two marks: bounds their number on fast paths.
const MARK_INTERVAL: Duration = Duration::from_millis(1);
/// Most marks kept. When a round trip is longer than they reach, the sample begins at
/// the oldest one, after the packet's departure, and so is taken over a shorter time.
const MAX_MARKS: usize = 128;

impl Delivery {
    fn new(now: Instant) -> Self {
        Self {
            bytes: 0,
            newest_departure: None,
            marks: VecDeque::from([(now, 0)]),
            idle: true,
        }
    }

    /// A flight that begins after idle time begins its sample, too.
    fn on_sent(&mut self, now: Instant) {
        if std::mem::take(&mut self.idle) {
            self.marks.clear();
            self.marks.push_back((now, self.bytes));
        }
    }

    fn on_ack(&mut self, sent: Instant, bytes: u64) {
        self.bytes += bytes;
        self.newest_departure = self.newest_departure.max(Some(sent));
    }

    /// Bytes per second, if this batch of acknowledgements gives a sample.
    fn on_end_acks(&mut self, now: Instant, in_flight: u64) -> Option<u64> {
        self.idle = in_flight == 0;
        let departure = self.newest_departure.take()?;
        // The last mark at or before the departure is where the sample begins.
        while self.marks.len() > 1 && self.marks[1].0 <= departure {
            self.marks.pop_front();
        }
        let (begin, before) = *self.marks.front()?;
        let last = self.marks.back().map(|mark| mark.0);
        if last.is_none_or(|last| now >= last + MARK_INTERVAL) {
            if self.marks.len() == MAX_MARKS {
                self.marks.pop_front();
            }
            self.marks.push_back((now, self.bytes));
        }
        let elapsed = now.saturating_duration_since(begin);
        if elapsed.is_zero() {
            return None;
        }
        let rate = u128::from(self.bytes - before) * 1_000_000 / elapsed.as_micros().max(1);
        u64::try_from(rate).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn delivery_rate_is_what_the_path_carries() {
        // A packet of 1200 B each millisecond, acknowledged 20 ms after its departure.
        let start = Instant::now();
        let mut delivery = Delivery::new(start);
        let mut rate = None;
        for ms in 0..200 {
            delivery.on_sent(at(start, ms));
            if ms >= 20 {
                delivery.on_ack(at(start, ms - 20), 1200);
                rate = delivery.on_end_acks(at(start, ms), 24_000).or(rate);
            }
        }
        let rate = rate.expect("samples") as f64;
        assert!((rate / 1_200_000.0 - 1.0).abs() < 0.06, "{rate}");
    }

    #[test]
    fn the_highest_rate_is_told_once() {
        let counters = Counters::default();
        for (rate, app_limited) in [(5, false), (9, true), (2, false)] {
            counters.sampled(rate, app_limited);
        }
        assert_eq!(counters.take_delivery_rate(), Some((9, true)));
        assert_eq!(counters.take_delivery_rate(), None);
        counters.sampled(3, false);
        assert_eq!(counters.take_delivery_rate(), Some((3, false)));
    }

    #[test]
    fn idle_time_does_not_count() {
        let start = Instant::now();
        let mut delivery = Delivery::new(start);
        delivery.on_sent(start);
        delivery.on_ack(start, 1200);
        delivery.on_end_acks(at(start, 20), 0);
        delivery.on_sent(at(start, 10_000));
        delivery.on_ack(at(start, 10_000), 12_000);
        let rate = delivery.on_end_acks(at(start, 10_020), 0);
        assert_eq!(rate, Some(600_000));
    }
}
