//! Access to a connection's controller from outside the connection.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quinn_proto::congestion::Controller;

use super::Adaptive;
use crate::{Settings, State};

/// Changes a connection's [`Adaptive`] controller, and reads its counters.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Shared>);

/// The counters and round-trip times of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Bytes sent since the beginning, without packets too small to carry data.
    pub sent: u64,
    /// Bytes that are neither acknowledged nor taken for lost.
    pub in_flight: u64,
    /// Bytes acknowledged.
    pub acked: u64,
    /// The time of the last acknowledgement of new data.
    pub acked_at: Instant,
    /// Smoothed round-trip time, of the oldest packet that each acknowledgement covers. It includes
    /// all delays of the receiver, and is zero before the first acknowledgement.
    pub srtt: Duration,
    /// Mean deviation of these round-trip times (RFC 6298 §2).
    pub rttvar: Duration,
    /// Smallest of these round-trip times; zero before the first.
    pub min_rtt: Duration,
    /// Bytes of a full packet.
    pub mtu: u16,
    /// Whether packets were taken for lost, and no packet sent since then is acknowledged.
    pub repairing: bool,
    /// Acknowledged bytes of packets that were sent over a former path; see [`Handle::failover`].
    pub acked_of_former: u64,
}

#[derive(Debug)]
struct Shared {
    /// The time from which the other times count.
    began: Instant,
    sent_bytes: AtomicU64,
    /// Microseconds since `began`; see [`Flight`].
    acked_at: AtomicU64,
    srtt: AtomicU64,
    rttvar: AtomicU64,
    min_rtt: AtomicU64,
    mtu: AtomicU16,
    /// The time at which packets were last taken for lost, in microseconds. 0 once a packet sent
    /// later is acknowledged.
    lost_at: AtomicU64,
    /// The window until the next acknowledgement; 0 for the controller's own. See
    /// [`Handle::failover`].
    failover_window: AtomicU64,
    left_at: AtomicU64,
    /// The number of changes of `wanted`.
    generation: AtomicU64,
    wanted: Mutex<Settings>,
    /// The window of a beginning with `wanted`; 0 if none is under way. See [`Handle::begin`].
    beginning_window: AtomicU64,
    acked_bytes: AtomicU64,
    acked_of_former: AtomicU64,
    in_flight: AtomicU64,
    /// Bytes per second; see [`Handle::take_delivery_rate`].
    delivery_rate: AtomicU64,
    app_limited: AtomicBool,
    /// The packed [`State`]; see [`State::pack`].
    state: AtomicU64,
}

/// Bytes below which a packet probably holds acknowledgements alone. quinn reports these packets as
/// sent, too, but the peer does not acknowledge them.
const MIN_DATA: u64 = 256;

/// Packets that may be in flight on an unknown path (RFC 9002 §7.2).
const FAILOVER_PACKETS: u64 = 10;

impl Handle {
    pub(super) fn new(now: Instant) -> Self {
        Self(Arc::new(Shared {
            began: now,
            sent_bytes: AtomicU64::new(0),
            acked_at: AtomicU64::new(0),
            srtt: AtomicU64::new(0),
            rttvar: AtomicU64::new(0),
            min_rtt: AtomicU64::new(0),
            mtu: AtomicU16::new(0),
            lost_at: AtomicU64::new(0),
            failover_window: AtomicU64::new(0),
            left_at: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            wanted: Mutex::default(),
            beginning_window: AtomicU64::new(0),
            acked_bytes: AtomicU64::new(0),
            acked_of_former: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            delivery_rate: AtomicU64::new(0),
            app_limited: AtomicBool::new(false),
            state: AtomicU64::new(0),
        }))
    }

    /// Returns the handle of a connection's controller, or `None` if that is not [`Adaptive`].
    #[must_use]
    pub fn of(controller: Box<dyn Controller>) -> Option<Self> {
        let adaptive = controller.into_any().downcast::<Adaptive>().ok()?;
        Some(adaptive.handle().clone())
    }

    /// Sets the settings that the controller takes at its next acknowledgement.
    pub fn change(&self, settings: Settings) {
        *self.wanted() = settings;
        self.0.generation.fetch_add(1, Ordering::Release);
    }

    /// Sets the settings with which the controller begins anew at the next packet, and makes room for it. To be
    /// called in the first round trip after the handshake, where the knowledge of the path has come only then.
    /// The caller has to wake the connection, so that one whose former window is full sends.
    pub fn begin(&self, settings: Settings) {
        *self.wanted() = settings;
        let mtu = f64::from(self.0.mtu.load(Ordering::Relaxed));
        let window = settings.initial_window(mtu) as u64;
        self.0.beginning_window.store(window, Ordering::Release);
    }

    /// The window in bytes of a [`Handle::begin`]; 0 if none is under way.
    pub(super) fn beginning_window(&self) -> u64 {
        self.0.beginning_window.load(Ordering::Relaxed)
    }

    /// Takes the settings of [`Handle::begin`].
    pub(super) fn take_beginning(&self) -> Option<Settings> {
        // Seldom set, and looked at with each packet.
        let begins = self.beginning_window() > 0;
        let begins = begins && self.0.beginning_window.swap(0, Ordering::Acquire) > 0;
        begins.then(|| *self.wanted())
    }

    /// Bytes in ack-eliciting packets that the peer has acknowledged.
    #[must_use]
    pub fn acked_bytes(&self) -> u64 {
        self.0.acked_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that are neither acknowledged nor taken for lost.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.0.in_flight.load(Ordering::Relaxed)
    }

    /// Reads the counters and round-trip times.
    #[must_use]
    pub fn flight(&self) -> Flight {
        let shared = &*self.0;
        let micros = |value: &AtomicU64| Duration::from_micros(value.load(Ordering::Relaxed));
        Flight {
            sent: shared.sent_bytes.load(Ordering::Relaxed),
            in_flight: self.in_flight(),
            acked: self.acked_bytes(),
            acked_at: shared.began + micros(&shared.acked_at),
            srtt: micros(&shared.srtt),
            rttvar: micros(&shared.rttvar),
            min_rtt: micros(&shared.min_rtt),
            mtu: shared.mtu.load(Ordering::Relaxed),
            repairing: shared.lost_at.load(Ordering::Relaxed) > 0,
            acked_of_former: shared.acked_of_former.load(Ordering::Relaxed),
        }
    }

    /// Notes that the connection left its path at `now`, since that carries nothing.
    ///
    /// Until the next acknowledgement a few packets more than those in flight may be sent. Losses
    /// of packets on the former path are no congestion of the new one (RFC 9000 §9.4). The caller
    /// has to wake the connection, so that it sends.
    pub fn failover(&self, now: Instant) {
        let room = FAILOVER_PACKETS * u64::from(self.0.mtu.load(Ordering::Relaxed));
        let window = self.in_flight() + room;
        self.0
            .left_at
            .store(self.since_began(now).max(1), Ordering::Relaxed);
        self.0.failover_window.store(window, Ordering::Relaxed);
    }

    /// The window in bytes after a [`Handle::failover`]; 0 if none is under way.
    pub(super) fn failover_window(&self) -> u64 {
        self.0.failover_window.load(Ordering::Relaxed)
    }

    /// Whether packets sent at `sent` took a path that the connection has left.
    pub(super) fn took_former_path(&self, sent: Instant) -> bool {
        let left_at = self.0.left_at.load(Ordering::Relaxed);
        left_at > 0 && self.since_began(sent) < left_at
    }

    fn since_began(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.0.began).as_micros();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    /// Notes that the connection has another path now, with another controller. Counts go on,
    /// and measurements of the former path are forgotten.
    pub(super) fn begin_path(&self) {
        let shared = &*self.0;
        let of_path = [
            &shared.srtt,
            &shared.rttvar,
            &shared.min_rtt,
            &shared.lost_at,
            &shared.failover_window,
            &shared.in_flight,
            &shared.delivery_rate,
        ];
        for value in of_path {
            value.store(0, Ordering::Relaxed);
        }
    }

    pub(super) fn sent(&self, bytes: u64) {
        if bytes < MIN_DATA {
            return;
        }
        self.0.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.0.in_flight.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn lost(&self, now: Instant, bytes: u64) {
        let lost_at = self.since_began(now).max(1);
        self.0.lost_at.store(lost_at, Ordering::Relaxed);
        let left = self.in_flight().saturating_sub(bytes);
        self.0.in_flight.store(left, Ordering::Relaxed);
    }

    pub(super) fn set_mtu(&self, mtu: u16) {
        self.0.mtu.store(mtu, Ordering::Relaxed);
    }

    /// Takes a round-trip time in: from the oldest packet of an acknowledgement to its arrival at
    /// `now`.
    pub(super) fn timed(&self, now: Instant, oldest: Instant) {
        let shared = &*self.0;
        if self.since_began(oldest) >= shared.lost_at.load(Ordering::Relaxed) {
            shared.lost_at.store(0, Ordering::Relaxed);
        }
        shared
            .acked_at
            .store(self.since_began(now), Ordering::Relaxed);
        let rtt = now.saturating_duration_since(oldest).as_micros();
        let rtt = u64::try_from(rtt).unwrap_or(u64::MAX).max(1);
        let (srtt, rttvar) = match shared.srtt.load(Ordering::Relaxed) {
            0 => (rtt, rtt / 2),
            srtt => {
                let rttvar = shared.rttvar.load(Ordering::Relaxed);
                let deviation = srtt.abs_diff(rtt);
                ((7 * srtt + rtt) / 8, (3 * rttvar + deviation) / 4)
            }
        };
        let min_rtt = match shared.min_rtt.load(Ordering::Relaxed) {
            0 => rtt,
            min_rtt => min_rtt.min(rtt),
        };
        shared.srtt.store(srtt, Ordering::Relaxed);
        shared.rttvar.store(rttvar, Ordering::Relaxed);
        shared.min_rtt.store(min_rtt, Ordering::Relaxed);
    }

    /// Returns the largest delivery rate since the last call, in bytes per second, and whether the
    /// application rather than the path may have limited it.
    #[must_use]
    pub fn take_delivery_rate(&self) -> Option<(u64, bool)> {
        let rate = self.0.delivery_rate.swap(0, Ordering::Relaxed);
        (rate > 0).then(|| (rate, self.0.app_limited.load(Ordering::Relaxed)))
    }

    /// The state of the controller at the end of the last round trip, or at the last change.
    #[must_use]
    pub fn state(&self) -> State {
        State::unpack(self.0.state.load(Ordering::Relaxed))
    }

    pub(super) fn publish(&self, state: &State) {
        self.0.state.store(state.pack(), Ordering::Relaxed);
    }

    pub(super) fn acked(&self, sent: Instant, bytes: u64) {
        self.0.acked_bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.took_former_path(sent) {
            self.0.acked_of_former.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(super) fn acks_ended(&self, in_flight: u64) {
        self.0.failover_window.store(0, Ordering::Relaxed);
        self.0.in_flight.store(in_flight, Ordering::Relaxed);
    }

    pub(super) fn sampled(&self, rate: u64, app_limited: bool) {
        if rate > self.0.delivery_rate.load(Ordering::Relaxed) {
            self.0.delivery_rate.store(rate, Ordering::Relaxed);
            self.0.app_limited.store(app_limited, Ordering::Relaxed);
        }
    }

    pub(super) fn changed_since(&self, generation: u64) -> Option<(u64, Settings)> {
        let now = self.0.generation.load(Ordering::Acquire);
        (now != generation).then(|| (now, *self.wanted()))
    }

    fn wanted(&self) -> MutexGuard<'_, Settings> {
        // A panic elsewhere leaves the settings whole: they are replaced at once.
        self.0.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
