//! The knowledge of one route.

use std::time::Duration;

use super::record::StallCount;
use super::view::Measured;
use super::{Criterion, Phase, Wants};
use crate::client::estimate::{LossBounds, LossCount};
use crate::stat::Stat;
use hikyaku_units::Rate;

/// The knowledge of a route.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouteQuality {
    /// Since the client last used it; `None` if it never did.
    pub age: Option<Duration>,
    /// For how much longer the client avoids it, since it has stalled.
    pub avoided_for: Option<Duration>,
    /// It is avoided, and the client itself has not stalled on it but others have.
    pub by_hearsay: bool,
    /// Since the client's goodput was last seen to have fallen: what it is known by is younger.
    pub declined: Option<Duration>,
    /// By [`Phase`]: natural logarithm of bit/s, or of a multiple of it that all routes share.
    pub(super) goodput: [Stat; Phase::ALL.len()],
    /// Natural logarithm of seconds, or of a multiple of it.
    pub(super) rtt: Stat,
    pub(super) loss: LossCount,
    pub(super) stalls: StallCount,
    /// It is that of several egress routes together.
    pub(super) several: bool,
    /// The client's own samples of it, by [`Measured::ALL`].
    pub(super) own: [f32; Measured::ALL.len()],
    /// Whether the client's own goodputs, and RTTs, show the base of the multiples.
    pub(super) absolute: [bool; Measured::ALL.len()],
}

impl RouteQuality {
    /// Expected goodput (geometric mean) in a phase; `None` where the client has shown none there by any route.
    #[must_use]
    pub fn goodput(&self, phase: Phase) -> Option<Rate> {
        let stat = self.goodput_of(phase);
        let known = self.absolute[Measured::Goodput(phase).index()] && stat.weight > 0.0;
        known.then(|| Rate::from_bits_per_sec(f64::from(stat.mean).exp() as u64))
    }

    pub(super) const fn goodput_of(&self, phase: Phase) -> &Stat {
        &self.goodput[phase as usize]
    }

    /// Expected smoothed round-trip time, likewise.
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        let known = self.absolute[Measured::Rtt.index()] && self.rtt.weight > 0.0;
        known.then(|| Duration::try_from_secs_f32(self.rtt.mean.exp()).unwrap_or(Duration::MAX))
    }

    /// Packets lost.
    #[must_use]
    pub fn loss(&self) -> Option<LossBounds> {
        self.loss.bounds()
    }

    /// Stalls in an hour of sending; `None` where nothing was sent.
    #[must_use]
    pub fn stalls_per_hour(&self) -> Option<f32> {
        let observed = self.stalls.observed;
        (observed > 0.0).then(|| 3600.0 * self.stalls.stalls / observed)
    }

    /// Goodputs of a phase that can be compared with another's.
    fn comparable_in(&self, phase: Phase, other: &Self) -> f32 {
        let [this, that] = [self, other].map(|quality| quality.goodput_of(phase).weight);
        this.min(that)
    }

    /// The phase in which most goodputs can be compared with another's.
    pub(super) fn best_known_phase(&self, other: &Self) -> Phase {
        let [startup, sustained] = Phase::ALL.map(|phase| self.comparable_in(phase, other));
        match startup < sustained {
            true => Phase::Sustained,
            false => Phase::Startup,
        }
    }

    /// Samples that can be compared with another's.
    pub(super) fn comparable(&self, other: &Self, criterion: Criterion) -> f32 {
        match criterion {
            Criterion::Goodput => {
                let phases = Phase::ALL.map(|phase| self.comparable_in(phase, other));
                phases.iter().sum()
            }
            Criterion::Stall | Criterion::Rtt => self.rtt.weight.min(other.rtt.weight),
        }
    }

    /// Samples that are looked at, faded; those of the AS count half.
    #[must_use]
    pub fn samples(&self, wants: Wants) -> f32 {
        match wants.criterion {
            Criterion::Goodput => self.goodput.iter().map(|stat| stat.weight).sum(),
            Criterion::Stall | Criterion::Rtt => self.rtt.weight,
        }
    }

    /// The client's own samples of the quality that is wanted most.
    pub(super) fn own_samples(&self, wants: Wants) -> f32 {
        let measured = match wants.criterion {
            Criterion::Goodput => Measured::Goodput(wants.phase),
            Criterion::Stall | Criterion::Rtt => Measured::Rtt,
        };
        self.own[measured.index()]
    }
}
