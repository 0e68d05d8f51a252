//! Intervals that hold at every look, however often and for whatever reason somebody looks.
//!
//! Asymptotic confidence sequences by a Gaussian mixture: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas
//! (Annals of Statistics 52(6), 2024). With n clients of variance s² the boundary is
//!
//! ```text
//! s sqrt(2 (n r² + 1) / (n² r²) ln(sqrt(n r² + 1) / alpha))
//! ```
//!
//! Here 1/v stands for n and 1 for s, where v is the estimate's variance.

/// The share of false alarms over all looks together.
pub(super) const ALPHA: f64 = 0.05;
/// The change of the logarithm that a report is to show: 5 %.
pub(super) const TARGET: f64 = 0.048_790_164_169_432;

/// Half the width of the interval around an estimate with variance `variance`, which was itself estimated with
/// `freedom` degrees of freedom. `alpha` is below 0.5.
pub(super) fn half_width(variance: f64, freedom: f64, alpha: f64) -> f64 {
    half_width_tuned(variance, freedom, alpha, TARGET)
}

/// As [`half_width`], narrowest where it is `target`.
pub(super) fn half_width_tuned(variance: f64, freedom: f64, alpha: f64, target: f64) -> f64 {
    let variance = variance.max(SMALLEST);
    let scaled = best(alpha) * variance_at(target, alpha) / variance;
    let errors = standard_errors(scaled, alpha);
    variance.sqrt() * student(errors, freedom)
}

/// The variance at which half the interval's width is `target`, where the interval is narrowest.
pub(super) fn variance_at(target: f64, alpha: f64) -> f64 {
    (target / standard_errors(best(alpha), alpha)).powi(2)
}

/// Half the width in standard errors, where n r² is `scaled`.
fn standard_errors(scaled: f64, alpha: f64) -> f64 {
    (2.0 * (1.0 + 1.0 / scaled) * ((scaled + 1.0).sqrt() / alpha).ln()).sqrt()
}

/// The n r² at which the interval is about as narrow as it can be.
fn best(alpha: f64) -> f64 {
    let log = -2.0 * alpha.ln();
    log + log.ln() + 1.0
}

/// The quantile of Student's t distribution that belongs to one of the normal distribution.
///
/// Abramowitz, Stegun: Handbook of Mathematical Functions, 26.7.5.
fn student(normal: f64, freedom: f64) -> f64 {
    let x = normal;
    let first = (x.powi(3) + x) / 4.0;
    let second = (5.0 * x.powi(5) + 16.0 * x.powi(3) + 3.0 * x) / 96.0;
    x + first / freedom + second / (freedom * freedom)
}

/// Below any real variance.
const SMALLEST: f64 = 1e-12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_narrowest_in_standard_errors_at_its_target() {
        let at_target = variance_at(TARGET, ALPHA);
        let errors = |variance: f64| half_width(variance, f64::INFINITY, ALPHA) / variance.sqrt();
        let best = errors(at_target);
        assert!((half_width(at_target, f64::INFINITY, ALPHA) - TARGET).abs() < 1e-9);
        assert!((best - 3.035).abs() < 0.01, "{best}");
        for factor in [0.05, 0.3, 3.0, 20.0] {
            let other = errors(at_target * factor);
            assert!(other > best * 1.01, "{factor}: {other}");
        }
    }

    #[test]
    fn fewer_clients_widen_the_interval() {
        // Tables have 2.093 for 19 and 1.984 for 100 degrees of freedom.
        assert!((student(1.96, 19.0) - 2.093).abs() < 0.002);
        assert!((student(1.96, 100.0) - 1.984).abs() < 0.001);
        assert!(half_width(0.0, 19.0, ALPHA) > 0.0);
    }
}
