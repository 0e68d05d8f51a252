//! Number, mean and variance of clients' outcomes.

/// Number, mean and squared deviations of values.
///
/// West: "Updating mean and variance estimates: an improved method", CACM 22(9), 1979.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    pub(super) n: f64,
    pub(super) mean: f64,
    pub(super) deviations: f64,
}

impl Moments {
    pub(super) fn add(&mut self, value: f64) {
        self.n += 1.0;
        let from_old = value - self.mean;
        self.mean += from_old / self.n;
        self.deviations += from_old * (value - self.mean);
    }

    /// Takes out a value that was added.
    #[cfg(test)]
    pub(super) fn remove(&mut self, value: f64) {
        if self.n <= 1.0 {
            *self = Self::default();
            return;
        }
        let from_new = value - self.mean;
        self.n -= 1.0;
        self.mean -= from_new / self.n;
        self.deviations -= from_new * (value - self.mean);
    }

    /// Those of both together (Chan, Golub, LeVeque: "Updating formulae and a pairwise algorithm for
    /// computing sample variances", 1979).
    pub(super) fn joined(&self, other: &Self) -> Self {
        let n = self.n + other.n;
        if n <= 0.0 {
            return Self::default();
        }
        let apart = other.mean - self.mean;
        Self {
            n,
            mean: self.mean + apart * other.n / n,
            deviations: self.deviations + other.deviations + apart * apart * self.n * other.n / n,
        }
    }

    /// Those of `factor` times each value, plus `shift`.
    pub(super) fn mapped(&self, factor: f64, shift: f64) -> Self {
        Self {
            n: self.n,
            mean: factor * self.mean + shift,
            deviations: factor * factor * self.deviations,
        }
    }

    /// Sum of the squared differences from `centre`.
    pub(super) fn squares_around(&self, centre: f64) -> f64 {
        self.deviations + self.n * (self.mean - centre).powi(2)
    }

    /// The mean's variance, as far as the values show it; there are two at least.
    pub(super) fn variance(&self) -> f64 {
        (self.deviations / (self.n - 1.0) / self.n).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Moments {
        let mut moments = Moments::default();
        for &value in values {
            moments.add(value);
        }
        moments
    }

    fn is_like(one: Moments, other: Moments) -> bool {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        near(one.n, other.n) && near(one.mean, other.mean) && near(one.deviations, other.deviations)
    }

    #[test]
    fn moments_are_those_of_the_values() {
        let all = of(&[1.0, 2.0, 3.0, 6.0]);
        assert!((all.mean - 3.0).abs() < 1e-9 && (all.deviations - 14.0).abs() < 1e-9);
        assert!((all.squares_around(0.0) - 50.0).abs() < 1e-9);
        assert!(is_like(of(&[1.0, 6.0]).joined(&of(&[3.0, 2.0])), all));
        assert!(is_like(of(&[5.0, 7.0, 9.0, 15.0]), all.mapped(2.0, 3.0)));
        let mut less = all;
        less.remove(6.0);
        assert!(is_like(less, of(&[1.0, 2.0, 3.0])));
    }
}
