//! A mean and variance that fade with time.

/// Mean and variance of samples whose weight fades, in 12 bytes.
///
/// West's incremental update ("Updating mean and variance estimates", CACM 1979) with a limited weight,
/// so that new samples always count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Stat {
    /// Mean of the samples; 0 without any.
    pub(crate) mean: f32,
    /// Their variance; 0 with one.
    pub(crate) var: f32,
    /// How many samples it is worth.
    pub(crate) weight: f32,
}

impl Stat {
    /// Takes a sample. Above `max_weight` the oldest fade for it.
    pub(crate) fn push(&mut self, sample: f32, max_weight: f32) {
        self.push_weighted(sample, 1.0, max_weight);
    }

    /// Takes a sample that counts as `weight` of one, which is above 0 and at most 1.
    pub(crate) fn push_weighted(&mut self, sample: f32, weight: f32, max_weight: f32) {
        self.weight = (self.weight + weight).min(max_weight);
        let share = weight / self.weight;
        let from_old = sample - self.mean;
        self.mean += share * from_old;
        self.var += share * (from_old * (sample - self.mean) - self.var);
        // Rounding may leave it just below zero.
        self.var = self.var.max(0.0);
    }

    /// Keeps `share` of the weight.
    pub(crate) fn fade(&mut self, share: f32) {
        self.weight *= share;
    }

    /// Its samples and those of `other`, which counts at most `max_weight`.
    pub(crate) fn joined(&self, other: &Self, max_weight: f32) -> Self {
        let other_weight = other.weight.min(max_weight);
        let weight = self.weight + other_weight;
        if weight <= 0.0 {
            return Self::default();
        }
        let (a, b) = (self.weight / weight, other_weight / weight);
        let apart = self.mean - other.mean;
        Self {
            mean: a * self.mean + b * other.mean,
            var: a * self.var + b * other.var + a * b * apart * apart,
            weight,
        }
    }

    /// The variance of a sample, when `prior_sd` is worth four samples.
    pub(crate) fn spread_sq(&self, prior_sd: f32) -> f32 {
        (self.var * self.weight + prior_sd * prior_sd * PRIOR_WEIGHT) / (self.weight + PRIOR_WEIGHT)
    }

    /// The mean's squared standard error; infinite without samples.
    pub(crate) fn standard_error_sq(&self, prior_sd: f32) -> f32 {
        self.spread_sq(prior_sd) / self.weight
    }
}

/// The share that is left after `elapsed` seconds of something that halves each `half_life` seconds.
pub(crate) fn faded(elapsed_secs: f32, half_life_secs: f32) -> f32 {
    (-elapsed_secs / half_life_secs).exp2()
}

const PRIOR_WEIGHT: f32 = 4.0;

#[cfg(test)]
mod tests {
    use super::{Stat, faded};

    fn of(samples: &[f32]) -> Stat {
        let mut stat = Stat::default();
        for &sample in samples {
            stat.push(sample, 100.0);
        }
        stat
    }

    #[test]
    fn it_is_the_mean_and_variance_of_its_samples() {
        let stat = of(&[1.0, 2.0, 3.0, 6.0]);
        assert!(
            (stat.mean - 3.0).abs() < 1e-6 && (stat.var - 3.5).abs() < 1e-5,
            "{stat:?}"
        );
        let joined = of(&[1.0, 2.0]).joined(&of(&[3.0, 6.0]), 10.0);
        assert!(
            (joined.mean - 3.0).abs() < 1e-6 && (joined.var - 3.5).abs() < 1e-5,
            "{joined:?}"
        );
        assert_eq!(
            Stat::default().joined(&Stat::default(), 4.0),
            Stat::default()
        );
    }

    #[test]
    fn a_limited_weight_follows_a_change() {
        let mut stat = of(&[0.0; 100]);
        for _ in 0..30 {
            stat.push(1.0, 8.0);
        }
        assert!(stat.mean > 0.97, "{stat:?}");
    }

    #[test]
    fn weighted_samples_count_in_proportion() {
        let mut stat = Stat::default();
        for _ in 0..20 {
            stat.push_weighted(1.0, 1.0, 100.0);
            stat.push_weighted(5.0, 0.25, 100.0);
        }
        assert!(
            (stat.mean - 1.8).abs() < 1e-4 && (stat.var - 2.56).abs() < 1e-3,
            "{stat:?}"
        );
        assert!((stat.weight - 25.0).abs() < 1e-3, "{stat:?}");
    }

    #[test]
    fn fading_halves_the_weight_but_not_the_mean() {
        let mut stat = of(&[2.0; 8]);
        stat.fade(faded(600.0, 600.0));
        assert_eq!((stat.mean, stat.weight), (2.0, 4.0));
        assert!(stat.standard_error_sq(0.3) > of(&[2.0; 8]).standard_error_sq(0.3));
    }
}
