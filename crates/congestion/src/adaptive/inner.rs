//! The algorithm in force.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::congestion::{Controller, ControllerFactory, NewRenoConfig};

#[cfg(test)]
use super::Adaptive;
use crate::bbr::Bbr;
use crate::cubic::Cubic;
use crate::delivery::Sample;
use crate::floor::Floor;
use crate::path::Path;
use crate::{Algorithm, Settings};

/// An algorithm with its state.
pub(super) enum Inner {
    Cubic(Box<Cubic>),
    Floor(Box<Floor>),
    Bbr(Box<Bbr>),
    /// quinn's controller.
    NewReno(Box<dyn Controller>),
}

impl Inner {
    pub(super) fn new(now: Instant, mtu: u16, settings: &Settings) -> Self {
        match settings.algorithm {
            Algorithm::Cubic => {
                let mut cubic = Cubic::new(mtu);
                cubic.open(settings.initial_window(f64::from(mtu)));
                Self::Cubic(Box::new(cubic))
            }
            Algorithm::Floor => Self::Floor(Box::new(Floor::new(mtu, settings))),
            Algorithm::Bbr => Self::Bbr(Box::new(Bbr::new(mtu))),
            Algorithm::NewReno => Self::NewReno(new_reno(now, mtu, None)),
        }
    }

    /// Continues from the window of `former`, or from the measured BDP of the path.
    pub(super) fn take_over(&mut self, now: Instant, mtu: u16, former: &Self, path: &Path) {
        let searching = former.in_slow_start();
        let carried = path
            .bdp(former.loss())
            .filter(|_| !searching)
            .unwrap_or(0.0);
        let window = carried.max(former.window() as f64);
        match self {
            Self::Cubic(cubic) if searching => cubic.open(window),
            Self::Cubic(cubic) => cubic.settle(window),
            Self::Floor(floor) => floor.take_over(window, searching),
            Self::Bbr(bbr) => bbr.take_over(now, window, searching, path),
            Self::NewReno(reno) => *reno = new_reno(now, mtu, Some(window as u64)),
        }
    }

    /// Takes in an RTT that was measured before it began.
    pub(super) fn confirm(&mut self, rtt: Duration) {
        if let Self::Floor(floor) = self {
            floor.confirm(rtt);
        }
    }

    /// The rounds for which the adaptive floor does not trust losses.
    pub(super) fn doubt_rounds(&self, path: &Path) -> u16 {
        match self {
            Self::Floor(floor) => floor.doubt_rounds(path),
            Self::Cubic(_) | Self::Bbr(_) | Self::NewReno(_) => 0,
        }
    }

    /// The part of packets that the path loses, as far as the algorithm knows.
    pub(super) fn loss(&self) -> f64 {
        match self {
            Self::Floor(floor) => floor.loss(),
            Self::Cubic(_) | Self::Bbr(_) | Self::NewReno(_) => 0.0,
        }
    }

    pub(super) fn in_slow_start(&self) -> bool {
        match self {
            Self::Cubic(cubic) => cubic.in_slow_start(),
            Self::Floor(floor) => floor.in_slow_start(),
            Self::Bbr(bbr) => bbr.in_startup(),
            Self::NewReno(reno) => reno.metrics().ssthresh > Some(reno.window()),
        }
    }

    pub(super) fn sent(&mut self, now: Instant, bytes: u64, packet: u64) {
        match self {
            Self::Cubic(cubic) => cubic.sent(packet),
            Self::Floor(floor) => floor.sent(packet),
            Self::Bbr(_) => {}
            Self::NewReno(reno) => reno.on_sent(now, bytes, packet),
        }
    }

    /// Reacts to a window that is full, with `in_flight` bytes.
    pub(super) fn filled(&mut self, now: Instant, in_flight: u64) {
        if let Self::Floor(floor) = self {
            floor.filled(now, in_flight);
        }
    }

    /// NewReno gets its acknowledgements by `on_ack` alone, since it needs quinn's RTT estimator.
    pub(super) fn acked(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        limited: bool,
        srtt: Duration,
    ) {
        match self {
            Self::Cubic(cubic) => cubic.acked(now, sent, bytes as f64, limited, srtt),
            Self::Floor(floor) => floor.acked(now, sent, bytes, limited, srtt),
            Self::Bbr(_) | Self::NewReno(_) => {}
        }
    }

    pub(super) fn sampled(
        &mut self,
        now: Instant,
        sample: &Sample,
        round_ended: bool,
        in_flight: u64,
        acked: u64,
        path: &Path,
    ) {
        match self {
            Self::Floor(floor) => {
                floor.sampled(now, sample, round_ended, path);
                floor.validate(now, sample.sent, acked, in_flight);
            }
            Self::Bbr(bbr) => bbr.sampled(now, sample, round_ended, in_flight, acked),
            Self::Cubic(_) | Self::NewReno(_) => {}
        }
    }

    pub(super) fn acks_ended(&mut self, largest: Option<u64>) {
        match self {
            Self::Cubic(cubic) => cubic.acks_ended(largest),
            Self::Floor(floor) => floor.acks_ended(largest),
            Self::Bbr(_) | Self::NewReno(_) => {}
        }
    }

    pub(super) fn congested(
        &mut self,
        now: Instant,
        sent: Instant,
        persistent: bool,
        bytes: u64,
        path: &Path,
    ) {
        match self {
            Self::Cubic(cubic) => cubic.congested(now, sent, persistent),
            Self::Floor(floor) => floor.congested(now, sent, persistent, bytes, path),
            Self::Bbr(bbr) => bbr.congested(persistent, bytes),
            Self::NewReno(reno) => reno.on_congestion_event(now, sent, persistent, bytes),
        }
    }

    pub(super) fn set_mtu(&mut self, mtu: u16) {
        match self {
            Self::Cubic(cubic) => cubic.set_mtu(mtu),
            Self::Floor(floor) => floor.set_mtu(mtu),
            Self::Bbr(bbr) => bbr.set_mtu(mtu),
            Self::NewReno(reno) => reno.on_mtu_update(mtu),
        }
    }

    pub(super) fn window(&self) -> u64 {
        match self {
            Self::Cubic(cubic) => cubic.window_bytes() as u64,
            Self::Floor(floor) => floor.window_bytes() as u64,
            Self::Bbr(bbr) => bbr.window_bytes() as u64,
            Self::NewReno(reno) => reno.window(),
        }
    }

    pub(super) fn ssthresh(&self) -> Option<u64> {
        match self {
            Self::Cubic(cubic) => cubic.ssthresh(),
            Self::Floor(floor) => floor.ssthresh(),
            Self::Bbr(_) => None,
            Self::NewReno(reno) => reno.metrics().ssthresh,
        }
    }
}

fn new_reno(now: Instant, mtu: u16, window: Option<u64>) -> Box<dyn Controller> {
    let mut config = NewRenoConfig::default();
    if let Some(window) = window {
        config.initial_window(window);
    }
    Arc::new(config).build(now, mtu)
}

#[cfg(test)]
impl Adaptive {
    pub(crate) fn floor(&mut self) -> (&mut Floor, &mut Path) {
        let Inner::Floor(floor) = &mut self.inner else {
            panic!("another algorithm is in force");
        };
        (floor, &mut self.path)
    }

    pub(crate) fn bbr(&mut self) -> &mut Bbr {
        let Inner::Bbr(bbr) = &mut self.inner else {
            panic!("another algorithm is in force");
        };
        bbr
    }
}

impl Clone for Inner {
    fn clone(&self) -> Self {
        match self {
            Self::Cubic(cubic) => Self::Cubic(cubic.clone()),
            Self::Floor(floor) => Self::Floor(floor.clone()),
            Self::Bbr(bbr) => Self::Bbr(bbr.clone()),
            Self::NewReno(reno) => Self::NewReno(reno.clone_box()),
        }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cubic(cubic) => cubic.fmt(f),
            Self::Floor(floor) => floor.fmt(f),
            Self::Bbr(bbr) => bbr.fmt(f),
            Self::NewReno(reno) => write!(f, "NewReno {{ window: {} }}", reno.window()),
        }
    }
}
