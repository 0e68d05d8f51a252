//! The median and spread of few values.

use serde::Serialize;

/// The distribution of a figure over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// The spread of `values`; `None` if there are none.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let upper = sorted[sorted.len() / 2];
        let lower = sorted[(sorted.len() - 1) / 2];
        Some(Self {
            median: f64::midpoint(lower, upper),
            min,
            max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads() {
        let spread = |median, min, max| Some(Spread { median, min, max });
        let cases: &[(&str, &[f64], Option<Spread>)] = &[
            ("nothing", &[], None),
            ("one", &[3.0], spread(3.0, 3.0, 3.0)),
            ("odd", &[9.0, 1.0, 4.0], spread(4.0, 1.0, 9.0)),
            ("even", &[9.0, 1.0, 4.0, 5.0], spread(4.5, 1.0, 9.0)),
        ];
        for (name, values, want) in cases {
            assert_eq!(Spread::of(values.iter().copied()), *want, "{name}");
        }
    }
}
