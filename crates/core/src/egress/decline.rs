//! Changes for the worse that a mean of many samples would hide.

use std::time::Duration;

use super::Phase;
use crate::stat::Stat;
use hikyaku_units::Secs;

/// The evidence that a client's goodput on a route has fallen, in 28 bytes.
///
/// A cumulative sum of how far samples lie below their mean (CUSUM: Page, "Continuous Inspection Schemes",
/// Biometrika 41, 1954). It grows by each that is more than [`SLACK`] standard deviations below, and
/// shrinks by each other. That mean is a slow one, so that a fall in small steps adds up. Above [`LIMIT`] the samples since it began to grow replace the mean: some four
/// where goodput fell to a third, and many where it fell little. A single sample counts at most [`CLIP`]
/// standard deviations, so that heavy tails are no change.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Decline {
    score: f32,
    /// Time of the last sample.
    at: Secs,
    /// By [`Phase`], the mean that samples are compared with; 0 where it is not known.
    references: [f32; Phase::ALL.len()],
    /// By [`Phase`], the mean of the samples since the score began to grow, the last [`RECENT`] above all, and
    /// their number.
    means: [f32; Phase::ALL.len()],
    counts: [u8; Phase::ALL.len()],
    /// Goodput before the first fall since [`Self::settle`], in parts of [`PARTS`] of a logarithm; 0 before one.
    before: u16,
}

impl Decline {
    /// Takes a sample of a phase before the phase's mean in `goodput` does. It counts as `weight` of one, and
    /// less where the last one is younger than [`APART`]: samples of one visit stand for one.
    /// Returns whether goodput has fallen; the means are then those of the samples since.
    pub(super) fn observe(
        &mut self,
        goodput: &mut [Stat; Phase::ALL.len()],
        phase: Phase,
        (sample, weight): (f32, f32),
        now: Secs,
    ) -> bool {
        let apart = now.since(std::mem::replace(&mut self.at, now));
        let weight = weight * (apart.as_secs_f32() / APART.as_secs_f32()).min(1.0);
        let place = phase as usize;
        let known = &goodput[place];
        if known.weight < MIN_KNOWN {
            return false;
        }
        let reference = &mut self.references[place];
        if *reference == 0.0 {
            *reference = known.mean;
        }
        let below = (*reference - sample) / known.spread_sq(SD).sqrt();
        self.score += weight * (below.clamp(-CLIP, CLIP) - SLACK);
        let share = if known.weight < YOUNG {
            (1.0 + known.weight).recip()
        } else {
            REFERENCE_SHARE
        };
        *reference += share * weight * (sample - *reference);
        if self.score <= 0.0 {
            self.restart();
            return false;
        }
        self.counts[place] = self.counts[place].saturating_add(1);
        let share = f32::from(self.counts[place].min(RECENT)).recip();
        self.means[place] += share * (sample - self.means[place]);
        if self.score <= LIMIT {
            return false;
        }
        self.replace(goodput);
        true
    }

    /// By how much goodput is below that before the first fall since [`Self::settle`], as a natural logarithm.
    pub(super) fn fell(&self, goodput: &[Stat; Phase::ALL.len()]) -> f32 {
        let [startup, sustained] = goodput;
        let now = if startup.weight < sustained.weight {
            sustained
        } else {
            startup
        };
        (f32::from(self.before) / PARTS - now.mean).max(0.0)
    }

    /// Takes the next fall for the first of its kind.
    pub(super) fn settle(&mut self) {
        self.before = 0;
    }

    fn restart(&mut self) {
        *self = Self {
            references: self.references,
            at: self.at,
            before: self.before,
            ..Self::default()
        };
    }

    /// Replaces the means. A phase without samples since is taken to have fallen as the other did.
    fn replace(&mut self, goodput: &mut [Stat; Phase::ALL.len()]) {
        let fallen = |place: usize, goodput: &[Stat]| {
            let by = self.means[place] - goodput[place].mean;
            (self.counts[place] > 0).then_some(by.min(0.0))
        };
        let by = Phase::ALL.map(|phase| fallen(phase as usize, goodput));
        for phase in Phase::ALL {
            let stat = &mut goodput[phase as usize];
            match (by[phase as usize], by[phase.other() as usize]) {
                (Some(by), _) => {
                    stat.mean += by;
                    stat.weight =
                        f32::from(self.counts[phase as usize].min(RECENT)).min(stat.weight);
                }
                (None, Some(by)) => {
                    stat.mean += by;
                    stat.weight = stat.weight.min(1.0);
                }
                (None, None) => {}
            }
        }
        let before = self.references.into_iter().fold(0.0, f32::max) * PARTS;
        *self = Self {
            at: self.at,
            before: self.before.max(before as u16),
            ..Self::default()
        };
    }
}

/// Parts of a natural logarithm. Those of bits per second are below 64.
const PARTS: f32 = 1024.0;
/// The time after which another sample is evidence of its own.
const APART: Duration = Duration::from_secs(6);
/// For how much a sample counts in the reference.
const REFERENCE_SHARE: f32 = 1.0 / 32.0;
/// Up to so many samples the reference is their mean: the first ones alone are no measure of a fall.
const YOUNG: f32 = 12.0;
/// Samples that a mean must have before one can lie below it.
const MIN_KNOWN: f32 = 4.0;
/// The spread of goodputs until they show their own, as in comparisons.
const SD: f32 = 0.4;
/// So many of the last samples are the new mean. In a decay those before are too high.
const RECENT: u8 = 4;
/// Standard deviations below the mean that are no evidence.
const SLACK: f32 = 0.75;
/// Standard deviations of one sample that count.
const CLIP: f32 = 3.0;
/// Sum of standard deviations that is a change.
const LIMIT: f32 = 6.5;

#[cfg(test)]
mod tests {
    use super::*;
    use hikyaku_units::mix::draw;

    const MAX_WEIGHT: f32 = 16.0;

    /// Goodputs around one that changes, in logarithms, as a client's record takes them.
    struct Line {
        decline: Decline,
        goodput: [Stat; 2],
        drawn: u64,
        seed: u64,
        now: Secs,
    }

    #[derive(Clone, Copy, Debug)]
    enum Noise {
        /// Normal, with this standard deviation.
        Normal(f64),
        /// Student's t with three degrees of freedom, scaled: outliers are common.
        Heavy(f64),
        /// A tenth of the responses gets a quarter of the rest.
        Slow(f64),
    }

    impl Line {
        fn new(seed: u64) -> Self {
            Self {
                decline: Decline::default(),
                goodput: Default::default(),
                drawn: 0,
                seed,
                now: Secs::default(),
            }
        }

        fn normal(&mut self) -> f64 {
            self.drawn += 2;
            let [a, b] = [0, 1].map(|n| draw([self.seed, self.drawn + n, 7, 9]));
            (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
        }

        fn noise(&mut self, noise: Noise) -> f64 {
            match noise {
                Noise::Normal(sd) => sd * self.normal(),
                Noise::Heavy(sd) => {
                    let chi: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
                    sd * self.normal() / (chi / 3.0).sqrt()
                }
                Noise::Slow(sd) => {
                    self.drawn += 1;
                    let slow = draw([self.seed, self.drawn, 1, 2]) < 0.1;
                    sd * self.normal() - if slow { 4f64.ln() } else { 0.0 }
                }
            }
        }

        fn see(&mut self, ln: f64, noise: Noise) -> bool {
            let sample = (ln + self.noise(noise)) as f32;
            self.now = self.now.saturating_add(APART);
            let seen = (sample, 1.0);
            let fell = self
                .decline
                .observe(&mut self.goodput, Phase::Startup, seen, self.now);
            self.goodput[0].push_weighted(sample, 1.0, MAX_WEIGHT);
            fell
        }
    }

    #[test]
    fn steady_noise_is_no_change() {
        for (noise, most) in [
            (Noise::Normal(0.2), 3),
            (Noise::Normal(0.6), 3),
            (Noise::Heavy(0.3), 12),
            (Noise::Slow(0.3), 25),
        ] {
            let mut line = Line::new(1);
            let alarms = (0..20_000).filter(|_| line.see(3.0, noise)).count();
            assert!(alarms <= most, "{noise:?}: {alarms} in 20,000 samples");
        }
    }

    #[test]
    fn a_fall_is_followed_after_few_samples() {
        for (noise, to, most) in [
            (Noise::Normal(0.3), 20.0, 5),
            (Noise::Normal(0.3), 30.0, 12),
            (Noise::Heavy(0.3), 20.0, 9),
            (Noise::Slow(0.3), 20.0, 9),
        ] {
            let mut sum = 0;
            for seed in 0..50 {
                let mut line = Line::new(seed);
                for _ in 0..60 {
                    line.see(60f64.ln(), noise);
                }
                let followed = |line: &mut Line| {
                    let fell = line.see(f64::ln(to), noise);
                    fell || f64::from(line.goodput[0].mean) < f64::ln(to) + 0.2
                };
                let after = (1..200).find(|_| followed(&mut line)).unwrap_or(200);
                sum += after;
            }
            assert!(
                sum <= 50 * most,
                "{noise:?} to {to}: {sum} samples in 50 runs"
            );
        }
    }

    #[test]
    fn the_mean_follows_a_slow_decay() {
        // 60 to 8 Mbit/s in steps, four visits each.
        let mut line = Line::new(3);
        for _ in 0..100 {
            line.see(60f64.ln(), Noise::Normal(0.3));
        }
        for mbps in [45.0, 34.0, 25.0, 19.0, 14.0, 11.0, 8.0, 8.0] {
            for _ in 0..4 {
                line.see(f64::ln(mbps), Noise::Normal(0.3));
            }
        }
        let mean = f64::from(line.goodput[0].mean).exp();
        assert!((6.0..14.0).contains(&mean), "{mean} Mbit/s");
    }

    #[test]
    fn the_phase_that_was_not_seen_falls_too() {
        let known = Stat {
            mean: 4.0,
            var: 0.01,
            weight: 16.0,
        };
        let mut goodput = [known; 2];
        let mut decline = Decline::default();
        let mut now = Secs::default();
        let fell = (0..20).any(|_| {
            now = now.saturating_add(APART);
            decline.observe(&mut goodput, Phase::Startup, (2.0, 1.0), now)
        });
        assert!(fell);
        let [startup, sustained] = goodput;
        assert!(
            (startup.mean - 2.0).abs() < 1e-3 && startup.weight < 8.0,
            "{startup:?}"
        );
        assert!(
            (sustained.mean - 2.0).abs() < 1e-3 && sustained.weight == 1.0,
            "{sustained:?}"
        );
    }
}
