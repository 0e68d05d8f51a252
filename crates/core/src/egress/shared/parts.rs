//! The quantities of a carrier as sums.

use crate::client::estimate::LossCount;
use crate::egress::Phase;
use crate::egress::record::{CarrierStats, StallCount};
use crate::fleet::{Bounds, Moments};

/// A quantity that is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Goodput at the start of a response, as a difference between carriers.
    Startup,
    /// Goodput later on, likewise.
    Sustained,
    /// Round-trip time, likewise.
    Rtt,
    /// Lost packets among those sent.
    Loss,
    /// Stalls by seconds of sending.
    Stalls,
    /// Stalled seconds by seconds of sending.
    Stalled,
}

/// The sums of each quantity, by [`Part`].
pub(super) type Parts = [Moments; Part::ALL.len()];

impl Part {
    /// All of them, in their order.
    pub(super) const ALL: [Self; 6] = [
        Self::Startup,
        Self::Sustained,
        Self::Rtt,
        Self::Loss,
        Self::Stalls,
        Self::Stalled,
    ];
    /// Those that are differences between carriers.
    pub(super) const DIFFERENCES: [Self; 3] = [Self::Startup, Self::Sustained, Self::Rtt];

    pub(super) const fn bounds(self) -> Bounds {
        let (weight, mean, scatters) = match self {
            Self::Startup | Self::Sustained | Self::Rtt => (256.0, [-6.0, 6.0], true),
            Self::Loss => (100_000.0, [0.0, 1.0], false),
            Self::Stalls | Self::Stalled => (86_400.0, [0.0, 1.0], false),
        };
        Bounds {
            weight,
            mean: Some(mean),
            scatters,
        }
    }
}

/// The sums of a carrier's record.
pub(super) fn of(stats: &CarrierStats) -> Parts {
    let [startup, sustained] = Phase::ALL.map(|phase| Moments::of(&stats.goodput[phase as usize]));
    let by = |count: f32, all: f32| {
        if all > 0.0 {
            Moments::new(f64::from(count) / f64::from(all), all.into())
        } else {
            Moments::default()
        }
    };
    let (loss, stalls) = (&stats.loss, &stats.stalls);
    [
        startup,
        sustained,
        Moments::of(&stats.rtt),
        by(loss.lost, loss.sent),
        by(stalls.stalls, stalls.observed),
        by(stalls.stalled, stalls.observed),
    ]
}

/// Puts sums into a carrier's record.
pub(super) fn put(parts: &Parts, stats: &mut CarrierStats) {
    let [startup, sustained, rtt, loss, stalls, stalled] = parts;
    let count = |part: &Moments| {
        let all = part.weight as f32;
        (part.mean().unwrap_or(0.0) as f32 * all, all)
    };
    let (lost, sent) = count(loss);
    let ((stalls, observed), (stalled, _)) = (count(stalls), count(stalled));
    stats.goodput = [startup.stat(), sustained.stat()];
    stats.rtt = rtt.stat();
    stats.loss = LossCount {
        sent,
        lost: lost.clamp(0.0, sent),
    };
    stats.stalls = StallCount {
        stalls,
        stalled,
        observed,
    };
}
