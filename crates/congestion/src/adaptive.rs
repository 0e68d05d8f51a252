//! A congestion controller whose algorithm can change while it runs.

mod handle;
mod inner;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use self::inner::Inner;
use crate::delivery::Delivery;
use crate::path::Path;
use crate::{Algorithm, Settings, State};

pub use handle::{Flight, Handle};

/// The congestion controller of a connection.
///
/// It measures the rate at which packets are delivered, whatever the algorithm. At the next
/// acknowledgement it takes a new algorithm, floor or known path from its [`Handle`].
///
/// A new algorithm begins with the old one's window, or with the path's measured BDP if that is
/// larger. So a change never begins from a collapsed window.
///
/// A fixed floor (`min_cwnd`) is FLOOR's method (§5). It raises the minimum congestion window of
/// RFC 9002 §7.2 from two packets to `n` × 1460 B. It goes further than the paper in two ways:
///
/// - It holds before the first loss, too, so that it replaces slow start up to there.
/// - It is paced, since quinn paces from the window (1.25 windows a round trip).
///
/// The algorithm decides as if there were no floor. A fixed floor does not respond to congestion.
/// On a shared path it takes the share of other flows and can collapse the path (FLOOR §7).
#[derive(Clone, Debug)]
pub struct Adaptive {
    inner: Inner,
    settings: Settings,
    mtu: u16,
    delivery: Delivery,
    path: Path,
    /// Bytes of the acknowledgements that are being processed, and the times at which the first and
    /// the last of their packets were sent.
    acked: u64,
    oldest: Option<Instant>,
    newest: Option<Instant>,
    handle: Handle,
    /// The handle's generation when the settings were taken from it.
    generation: u64,
}

/// Makes [`Adaptive`] controllers with these initial settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Factory(pub Settings);

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Adaptive::new(now, current_mtu, self.0))
    }
}

/// Makes the [`Adaptive`] controllers of one connection: another one for each path to its client
/// (RFC 9000 §9.4). All have the same [`Handle`], whose counts go on.
#[derive(Debug)]
pub struct OfConnection {
    settings: Settings,
    handle: OnceLock<Handle>,
}

impl OfConnection {
    /// Makes controllers with these initial settings.
    #[must_use]
    pub const fn new(settings: Settings) -> Self {
        Self {
            settings,
            handle: OnceLock::new(),
        }
    }
}

impl ControllerFactory for OfConnection {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let mut settings = self.settings;
        let handle = match self.handle.get() {
            Some(handle) => {
                // Nothing is known of another path.
                settings.known = None;
                handle.begin_path();
                handle
            }
            None => self.handle.get_or_init(|| Handle::new(now)),
        };
        Box::new(Adaptive::of(now, current_mtu, settings, handle.clone()))
    }
}

impl Adaptive {
    /// Makes the controller of a new connection with packets of `mtu` bytes.
    #[must_use]
    pub fn new(now: Instant, mtu: u16, settings: Settings) -> Self {
        Self::of(now, mtu, settings, Handle::new(now))
    }

    fn of(now: Instant, mtu: u16, settings: Settings, handle: Handle) -> Self {
        let adaptive = Self {
            inner: Inner::new(now, mtu, &settings),
            settings,
            mtu,
            delivery: Delivery::default(),
            path: Path::default(),
            acked: 0,
            oldest: None,
            newest: None,
            handle,
            generation: 0,
        };
        adaptive.handle.set_mtu(mtu);
        adaptive.handle.publish(&adaptive.state());
        adaptive
    }

    /// The handle that changes the settings and reads the counters from outside the connection.
    #[must_use]
    pub const fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) fn acked(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        limited: bool,
        srtt: Duration,
    ) {
        self.handle.acked(sent, bytes);
        self.delivery.on_ack(bytes);
        self.acked += bytes;
        self.oldest = Some(self.oldest.map_or(sent, |oldest| oldest.min(sent)));
        self.newest = self.newest.max(Some(sent));
        self.inner.acked(now, sent, bytes, limited, srtt);
    }

    pub(crate) fn acks_ended(
        &mut self,
        now: Instant,
        in_flight: u64,
        limited: bool,
        largest: Option<u64>,
    ) {
        self.handle.acks_ended(in_flight);
        if let Some(oldest) = self.oldest.take() {
            self.handle.timed(now, oldest);
        }
        let acked = std::mem::take(&mut self.acked);
        let sample = self
            .newest
            .take()
            .and_then(|newest| self.delivery.on_end_acks(now, newest, in_flight, limited));
        let mut has_news = false;
        if let Some(sample) = sample {
            self.handle.sampled(sample.rate as u64, sample.limited);
            let delivered = self.delivery.delivered();
            let round_ended = self.path.on_sample(now, &sample, delivered);
            self.inner
                .sampled(now, &sample, round_ended, in_flight, acked, &self.path);
            has_news = round_ended;
        }
        self.inner.acks_ended(largest);
        if let Some((generation, settings)) = self.handle.changed_since(self.generation) {
            self.generation = generation;
            self.adopt(now, settings);
            has_news = true;
        }
        if has_news {
            self.handle.publish(&self.state());
        }
    }

    fn state(&self) -> State {
        let doubt_rounds = self.inner.doubt_rounds(&self.path);
        let fair = self.settings.algorithm == Algorithm::Floor && doubt_rounds == 0;
        let fair = self
            .path
            .bdp(self.inner.loss())
            .filter(|_| fair)
            .map(|bdp| bdp as u64);
        State {
            algorithm: self.settings.algorithm,
            slow_start: self.inner.in_slow_start(),
            floor: fair.max(self.settings.min_cwnd),
            doubt_rounds,
        }
    }

    fn adopt(&mut self, now: Instant, settings: Settings) {
        if settings.algorithm != self.settings.algorithm {
            let mut next = Inner::new(now, self.mtu, &settings);
            next.take_over(now, self.mtu, &self.inner, &self.path);
            self.inner = next;
        }
        self.settings = settings;
    }

    /// Begins anew, after a handshake that has shown the RTT.
    fn begin(&mut self, now: Instant, settings: Settings) {
        self.inner = Inner::new(now, self.mtu, &settings);
        let rtt = self.handle.flight().min_rtt;
        if !rtt.is_zero() {
            self.inner.confirm(rtt);
        }
        self.settings = settings;
        self.handle.publish(&self.state());
    }

    pub(crate) fn lost(&mut self, now: Instant, sent: Instant, persistent: bool, bytes: u64) {
        self.handle.lost(now, bytes);
        if self.handle.took_former_path(sent) {
            return;
        }
        self.inner
            .congested(now, sent, persistent, bytes, &self.path);
    }

    pub(crate) fn current(&self) -> u64 {
        let window = self.inner.window().max(self.settings.min_cwnd.unwrap_or(0));
        window
            .max(self.handle.failover_window())
            .max(self.handle.beginning_window())
    }
}

/// A window with less room than this is full: quinn sends no packet that would not fit.
const FULL_PACKETS: u64 = 2;

impl Controller for Adaptive {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        if let Some(settings) = self.handle.take_beginning() {
            self.begin(now, settings);
        }
        self.handle.sent(bytes);
        self.delivery.on_sent(now, bytes);
        self.inner.sent(now, bytes, last_packet_number);
        let in_flight = self.handle.in_flight();
        if in_flight + FULL_PACKETS * u64::from(self.mtu) > self.current() {
            self.inner.filled(now, in_flight);
        }
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        if let Inner::NewReno(reno) = &mut self.inner {
            reno.on_ack(now, sent, bytes, app_limited, rtt);
        }
        self.acked(now, sent, bytes, app_limited, rtt.get());
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.acks_ended(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.lost(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.handle.set_mtu(new_mtu);
        self.inner.set_mtu(new_mtu);
    }

    fn window(&self) -> u64 {
        self.current()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.current();
        metrics.ssthresh = self.inner.ssthresh();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        let initial = self.settings.initial_window(f64::from(self.mtu)) as u64;
        initial.max(self.settings.min_cwnd.unwrap_or(0))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
