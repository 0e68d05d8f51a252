//! A window that never falls below a floor.

#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

/// A congestion controller whose window is at least `min_cwnd` bytes at all times: from the
/// first packet on, in recovery, after persistent congestion, in BBR's PROBE_RTT.
///
/// This is FLOOR's method (§5), which raises the minimum congestion window of RFC 9002 §7.2
/// from two packets to `n` × 1460 B. Two things go further than the paper says: the floor
/// holds before the first loss, too, so that it replaces slow start up to there, and it is
/// paced, since quinn paces from the window (1.25 windows a round trip).
///
/// `inner` decides as if it were alone, and what it is told is true: its window grows while
/// the floor is in use, as packets beyond it are acknowledged.
///
/// A fixed floor takes no part in congestion control below it. On a path that others share
/// it takes their share and can collapse the path (FLOOR §7).
pub struct Floor {
    inner: Box<dyn Controller>,
    min_cwnd: u64,
}

/// Makes [`Floor`] controllers, each around one that `inner` makes.
pub struct FloorFactory {
    /// Makes the controllers that decide above the floor.
    pub inner: Arc<dyn ControllerFactory + Send + Sync>,
    /// The floor in bytes.
    pub min_cwnd: u64,
}

impl ControllerFactory for FloorFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Floor {
            inner: Arc::clone(&self.inner).build(now, current_mtu),
            min_cwnd: self.min_cwnd,
        })
    }
}

impl Controller for Floor {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
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
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
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
        self.inner.window().max(self.min_cwnd)
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = self.inner.metrics();
        metrics.congestion_window = self.window();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            min_cwnd: self.min_cwnd,
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window().max(self.min_cwnd)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
