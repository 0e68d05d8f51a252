//! The knowledge of a client, blended from its own samples, its prefix and its AS.

use super::record::{CarrierStats, Kept, Snapshot, StalledBy};
use super::{Carrier, EgressId, Phase, Route, RouteObservation, RouteQuality, Wants};
use crate::stat::Stat;
use hikyaku_units::Secs;

/// The input of [`decide_route`](super::decide_route). The client's own samples count most; its prefix
/// and its AS fill in the missing parts.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteView {
    /// A number for the client, the same on every machine.
    pub client: u64,
    carriers: [RouteQuality; Carrier::COUNT],
    kept: [Kept; Wants::KEPT],
}

/// The knowledge of client, prefix and AS at one time.
pub(super) struct Levels {
    pub(super) own: Snapshot,
    pub(super) prefix: Option<Snapshot>,
    pub(super) asn: Option<Snapshot>,
}

impl RouteView {
    pub(super) fn new(client: u64, levels: &Levels, kept: [Kept; Wants::KEPT], now: Secs) -> Self {
        let Levels { own, prefix, asn } = levels;
        let who = StalledBy::client(client);
        let absolute = Measured::ALL.map(|measured| own.weight(measured) > 0.0);
        let mut carriers = own.0.map(|stats| RouteQuality {
            age: stats.last_seen().map(|seen| now.since(seen)),
            avoided_for: stats.avoided_for(who, now),
            by_hearsay: false,
            declined: stats.declined(now),
            goodput: stats.goodput,
            rtt: stats.rtt,
            loss: stats.loss,
            stalls: stats.stalls,
            several: stats.carrier == Carrier::AGGREGATE,
            own: Measured::ALL.map(|measured| measured.of(&stats).weight),
            absolute,
        });
        if let Some(prefix) = prefix {
            for (quality, prefix) in carriers.iter_mut().zip(&prefix.0) {
                let others = prefix.avoided_for(StalledBy::SEVERAL, now);
                quality.by_hearsay = quality.avoided_for.is_none() && others.is_some();
                quality.avoided_for = quality.avoided_for.max(others);
            }
        }
        let doubt = Doubt::of(own, now);
        for (wider, share) in [(prefix, PREFIX_SHARE), (asn, AS_SHARE)] {
            let Some(wider) = wider else { continue };
            for measured in Measured::ALL {
                let doubt = doubt.filter(|_| measured != Measured::Rtt);
                fill_in(&mut carriers, own, wider, (measured, share), doubt);
            }
            for (quality, wider) in carriers.iter_mut().zip(&wider.0) {
                quality.loss = quality.loss.joined(&wider.loss, WIDER_PACKETS);
                quality.stalls = quality.stalls.joined(&wider.stalls, WIDER_SECS);
            }
        }
        Self {
            client,
            carriers,
            kept,
        }
    }

    /// The knowledge of a route, where plain packets take the egress route `plain_is`.
    #[must_use]
    pub const fn quality(&self, route: Route, plain_is: Option<EgressId>) -> &RouteQuality {
        self.of(route.carrier(plain_is))
    }

    pub(super) const fn of(&self, carrier: Carrier) -> &RouteQuality {
        &self.carriers[carrier.index()]
    }

    pub(super) const fn kept(&self, wants: Wants) -> Kept {
        self.kept[wants.place()]
    }

    /// The phase that most of so many bytes falls in. It is the second one if they take over two
    /// seconds at the goodput that the client has shown.
    #[must_use]
    pub fn phase_of(&self, bytes: u64) -> Phase {
        let [startup, sustained] = Phase::ALL.map(|phase| self.own_goodput(phase));
        let first = startup.or(sustained).unwrap_or(TYPICAL_GOODPUT);
        let second = sustained.unwrap_or(first);
        if bytes as f32 * 8.0 > first + second {
            Phase::Sustained
        } else {
            Phase::Startup
        }
    }

    /// The client's own goodput over all its routes, in bit/s; `None` where it has shown none.
    fn own_goodput(&self, phase: Phase) -> Option<f32> {
        let place = Measured::Goodput(phase).index();
        let (mut sum, mut weight) = (0.0, 0.0);
        for quality in &self.carriers {
            sum += quality.own[place] * quality.goodput_of(phase).mean;
            weight += quality.own[place];
        }
        (weight > 0.0).then(|| (sum / weight).exp())
    }
}

/// The quantities that are measured as a mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measured {
    Goodput(Phase),
    Rtt,
}

impl Measured {
    /// All quantities, in the order of their [`index`](Self::index).
    pub(super) const ALL: [Self; 3] = [
        Self::Goodput(Phase::Startup),
        Self::Goodput(Phase::Sustained),
        Self::Rtt,
    ];

    pub(super) const fn index(self) -> usize {
        match self {
            Self::Goodput(phase) => phase as usize,
            Self::Rtt => 2,
        }
    }

    const fn of(self, stats: &CarrierStats) -> Stat {
        match self {
            Self::Goodput(phase) => stats.goodput[phase as usize],
            Self::Rtt => stats.rtt,
        }
    }

    pub(super) const fn of_mut(self, stats: &mut CarrierStats) -> &mut Stat {
        match self {
            Self::Goodput(phase) => &mut stats.goodput[phase as usize],
            Self::Rtt => &mut stats.rtt,
        }
    }

    const fn of_quality(self, quality: &mut RouteQuality) -> &mut Stat {
        match self {
            Self::Goodput(phase) => &mut quality.goodput[phase as usize],
            Self::Rtt => &mut quality.rtt,
        }
    }

    /// A sample's logarithm, and for how many it counts.
    fn sample(self, seen: &RouteObservation) -> Option<(f32, f32)> {
        match self {
            Self::Goodput(phase) if phase != seen.phase => None,
            Self::Goodput(_) => {
                let rate = seen.goodput()?.bits_per_sec() as f32;
                Some((rate.ln(), (seen.bytes as f32 / FULL_BYTES).min(1.0)))
            }
            Self::Rtt => {
                let rtt = seen.rtt.filter(|rtt| !rtt.is_zero())?;
                Some((rtt.as_secs_f32().ln(), 1.0))
            }
        }
    }
}

impl Snapshot {
    fn weight(&self, measured: Measured) -> f32 {
        let weights = self.0.iter().map(|stats| measured.of(stats).weight);
        weights.sum()
    }

    /// The client's level, with its weight: the mean of its own samples by the carriers that `counts`
    /// holds. Each sample counts less the difference that `wider` has for it. `None` without such
    /// samples.
    fn level(
        &self,
        wider: &Self,
        measured: Measured,
        counts: impl Fn(Carrier) -> bool,
    ) -> Option<(f32, f32)> {
        let established = wider.weight(measured) > 0.0;
        let (mut sum, mut weight) = (0.0, 0.0);
        for (own, wider) in self.0.iter().zip(&wider.0) {
            let (mine, theirs) = (measured.of(own), measured.of(wider));
            if counts(own.carrier) && !(established && theirs.weight <= 0.0) {
                sum += mine.weight * (mine.mean - theirs.mean);
                weight += mine.weight;
            }
        }
        (weight > 0.0).then(|| (sum / weight, weight))
    }
}

/// Takes a sample for its client. Returns whether it shows that the carrier's goodput has fallen.
pub(super) fn learn_own(stats: &mut CarrierStats, seen: &RouteObservation, now: Secs) -> bool {
    let measured = Measured::Goodput(seen.phase);
    let mut fell = false;
    if let Some((sample, weight)) = measured.sample(seen) {
        if !stats.is_unsteady(now) {
            stats.decline.settle();
        }
        if !seen.app_limited {
            let CarrierStats {
                decline, goodput, ..
            } = stats;
            fell = decline.observe(goodput, seen.phase, (sample, weight), now);
        }
        let most = if fell || stats.is_unsteady(now) {
            UNSTEADY_SAMPLES
        } else {
            OWN_SAMPLES
        };
        let goodput = measured.of_mut(stats);
        if !seen.app_limited {
            goodput.push_weighted(sample, weight, most);
        } else if goodput.weight <= 0.0 {
            goodput.push_weighted(sample, APP_LIMITED_WEIGHT * weight, OWN_SAMPLES);
        } else if sample > goodput.mean {
            goodput.push_weighted(sample, weight, OWN_SAMPLES);
        }
    }
    if let Some((sample, weight)) = Measured::Rtt.sample(seen) {
        stats.rtt.push_weighted(sample, weight, OWN_SAMPLES);
    }
    fell
}

/// Gives `update` the lesson of a sample for a prefix or an AS. The lesson is how much the sample's
/// carrier differs, for the client, from the others that the client is known by.
///
/// Only samples of the carrier that is the rarer one there count, and they are compared with fresh
/// means of the other. Else an egress route on which everything becomes slower in the evening would
/// look worse than one that was last seen at noon. Repeated samples of one client count less and less.
pub(super) fn contrast(
    own: &Snapshot,
    wider: &Snapshot,
    carrier: Carrier,
    seen: &RouteObservation,
    mut update: impl FnMut(Carrier, Measured, Stat),
) {
    for measured in Measured::ALL {
        if measured != Measured::Rtt && seen.app_limited {
            continue;
        }
        let Some((sample, weight)) = measured.sample(seen) else {
            continue;
        };
        let Some((level, others)) = own.level(wider, measured, |other| other != carrier) else {
            continue;
        };
        let so_far = measured.of(&own.0[carrier.index()]).weight;
        if so_far > others {
            continue;
        }
        let weight = weight * others / (1.0 + others) / (1.0 + so_far);
        let mut stat = measured.of(&wider.0[carrier.index()]);
        let apart = (sample - level).clamp(-MAX_APART, MAX_APART);
        stat.push_weighted(apart, weight, WIDER_SAMPLES);
        update(carrier, measured, stat);
        // The carrier that it was compared with keeps its place, and is known as well.
        let compared = own.0.iter().filter(|stats| stats.carrier != carrier);
        let most = |a: &&CarrierStats, b: &&CarrierStats| {
            let [a, b] = [a, b].map(|stats| measured.of(stats).weight);
            a.total_cmp(&b)
        };
        if let Some(most) = compared.max_by(most) {
            let mut stat = measured.of(&wider.0[most.carrier.index()]);
            stat.push_weighted(stat.mean, weight, WIDER_SAMPLES);
            update(most.carrier, measured, stat);
        }
    }
}

/// How much a fall of a carrier's goodput casts doubt on differences that others saw before it. Another
/// carrier may have fallen as much, or not at all.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    /// By how much the carrier fell that fell most, as a natural logarithm.
    fell: f32,
    now: Secs,
}

impl Doubt {
    /// A client's doubt of goodputs; `None` where no carrier has fallen a short time ago.
    fn of(own: &Snapshot, now: Secs) -> Option<Self> {
        let fallen = own.0.iter().filter(|stats| stats.is_unsteady(now));
        let fell = fallen.map(|stats| stats.decline.fell(&stats.goodput));
        fell.reduce(f32::max).map(|fell| Self { fell, now })
    }

    /// A carrier's place beside the fallen one, between that of before and as much better as that fell.
    fn blurred(self, theirs: Stat) -> Stat {
        Stat {
            mean: theirs.mean + self.fell / 2.0,
            var: theirs.var + (self.fell / 2.0).powi(2),
            weight: theirs.weight.min(1.0),
        }
    }
}

/// Adds the differences between carriers that `wider` knows to the client's `own` samples. Where there is
/// a `doubt`, they count as one sample at most, and the fallen carriers have their own samples alone.
fn fill_in(
    carriers: &mut [RouteQuality; Carrier::COUNT],
    own: &Snapshot,
    wider: &Snapshot,
    (measured, share): (Measured, f32),
    doubt: Option<Doubt>,
) {
    let total = own.weight(measured);
    let level = match own.level(wider, measured, |_| true) {
        Some((level, _)) => level,
        // Differences alone show which carrier is better.
        None if total <= 0.0 => 0.0,
        None => return,
    };
    for ((quality, own), wider) in carriers.iter_mut().zip(&own.0).zip(&wider.0) {
        let has_fallen = doubt.is_some_and(|doubt| own.is_unsteady(doubt.now));
        // A carrier that the level was mostly taken from learns nothing by it.
        if measured.of(own).weight <= total / 2.0 && !has_fallen {
            let theirs = measured.of(wider);
            // Its own contribution does not count twice.
            let others = (theirs.weight - measured.of(own).weight).max(0.0);
            let theirs = Stat {
                mean: theirs.mean + level,
                weight: share * others,
                ..theirs
            };
            let theirs = doubt.map_or(theirs, |doubt| doubt.blurred(theirs));
            let stat = measured.of_quality(quality);
            *stat = stat.joined(&theirs, MAX_WIDER);
        }
    }
}

/// The goodput that a client is taken to have until it shows its own, in bit/s.
const TYPICAL_GOODPUT: f32 = 16e6;
/// Bytes from which on a response counts fully: smaller ones have shown less than the route can do.
const FULL_BYTES: f32 = 1e6;
/// Samples whose mean is kept meanwhile.
const UNSTEADY_SAMPLES: f32 = 6.0;
/// Samples whose mean is kept for a client, and for a prefix or an AS.
const OWN_SAMPLES: f32 = 16.0;
const WIDER_SAMPLES: f32 = 256.0;
/// For how much an app-limited sample counts while there are no others.
const APP_LIMITED_WEIGHT: f32 = 0.1;
/// A sample of the prefix, and of the AS, counts as so many of the client's own ...
const PREFIX_SHARE: f32 = 1.0;
const AS_SHARE: f32 = 0.5;
/// ... and all of them as so many at most,
const MAX_WIDER: f32 = 8.0;
/// as so many packets,
const WIDER_PACKETS: f32 = 500.0;
/// and as so many seconds.
const WIDER_SECS: f32 = 600.0;
/// Most that a sample may differ (a factor of 20): a larger difference says nothing of routes.
const MAX_APART: f32 = 3.0;
