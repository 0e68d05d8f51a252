//! The gain of one arm over another.

/// The gain of one arm over another, with bounds: natural logarithms of a ratio of which more is better.
///
/// As a share, 0.5 is half as much more goodput, or two thirds of the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    ln: f32,
    ln_low: f32,
    ln_high: f32,
}

impl Gain {
    /// A gain whose logarithm is normal, with this standard error.
    pub(crate) fn normal(ln: f32, error: f32) -> Self {
        let margin = QUANTILE_90 as f32 * error;
        Self {
            ln,
            ln_low: ln - margin,
            ln_high: ln + margin,
        }
    }

    /// A gain of these shares.
    pub(crate) fn of_shares(expected: f32, low: f32, high: f32) -> Self {
        Self {
            ln: expected.ln_1p(),
            ln_low: low.ln_1p(),
            ln_high: high.ln_1p(),
        }
    }

    /// The expected gain, as a share (VERSION §4.2.2).
    #[must_use]
    pub fn expected(self) -> f32 {
        self.ln.exp_m1()
    }

    /// Its lower bound (one-sided, 90 %).
    #[must_use]
    pub fn low(self) -> f32 {
        self.ln_low.exp_m1()
    }

    /// Its upper bound (one-sided, 90 %).
    #[must_use]
    pub fn high(self) -> f32 {
        self.ln_high.exp_m1()
    }

    /// The lower bound where there is but this share of the samples that it takes: it lies farther off,
    /// in proportion.
    pub(crate) fn low_at(self, evidence: f32) -> f32 {
        match evidence < 1.0 {
            true => (self.ln - (self.ln - self.ln_low) / evidence).exp_m1(),
            false => self.low(),
        }
    }

    /// The arm's cost as a multiple of the other's.
    pub(crate) fn cost(self) -> f32 {
        (-self.ln).exp()
    }

    /// The gain of the other over this one.
    pub(crate) fn reversed(self) -> Self {
        Self {
            ln: -self.ln,
            ln_low: -self.ln_high,
            ln_high: -self.ln_low,
        }
    }
}

/// The normal distribution's 90 % quantile: bounds are one-sided.
pub(crate) const QUANTILE_90: f64 = 1.2816;
