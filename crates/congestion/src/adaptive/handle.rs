//! A connection's controller, seen from outside the connection.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quinn_proto::congestion::Controller;

use super::Adaptive;
use crate::{Settings, State};

/// Changes a connection's [`Adaptive`] controller, and reads what it has counted.
#[derive(Clone, Debug, Default)]
pub struct Handle(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Changes of `wanted`.
    generation: AtomicU64,
    wanted: Mutex<Settings>,
    acked_bytes: AtomicU64,
    in_flight: AtomicU64,
    /// Bytes a second; see [`Handle::take_delivery_rate`].
    delivery_rate: AtomicU64,
    app_limited: AtomicBool,
    /// See [`State::pack`].
    state: AtomicU64,
}

impl Handle {
    /// The handle of a connection's controller; `None` if that is not [`Adaptive`].
    #[must_use]
    pub fn of(controller: Box<dyn Controller>) -> Option<Self> {
        let adaptive = controller.into_any().downcast::<Adaptive>().ok()?;
        Some(adaptive.handle().clone())
    }

    /// Sets what the controller is to be from its next acknowledgement on.
    pub fn change(&self, settings: Settings) {
        *self.wanted() = settings;
        self.0.generation.fetch_add(1, Ordering::Release);
    }

    /// Bytes in ack-eliciting packets that the peer has acknowledged.
    #[must_use]
    pub fn acked_bytes(&self) -> u64 {
        self.0.acked_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of ack-eliciting packets in flight after the last acknowledgement.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.0.in_flight.load(Ordering::Relaxed)
    }

    /// The largest delivery rate in bytes a second since this was last asked, and whether the
    /// application rather than the path may have limited it.
    #[must_use]
    pub fn take_delivery_rate(&self) -> Option<(u64, bool)> {
        let rate = self.0.delivery_rate.swap(0, Ordering::Relaxed);
        (rate > 0).then(|| (rate, self.0.app_limited.load(Ordering::Relaxed)))
    }

    /// What the controller does, as of the end of the last round trip or the last change.
    #[must_use]
    pub fn state(&self) -> State {
        State::unpack(self.0.state.load(Ordering::Relaxed))
    }

    pub(super) fn publish(&self, state: &State) {
        self.0.state.store(state.pack(), Ordering::Relaxed);
    }

    pub(super) fn acked(&self, bytes: u64) {
        self.0.acked_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn acks_ended(&self, in_flight: u64) {
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
        // Settings are whole at all times.
        self.0.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
