//! The colours of a heat map.

use super::super::View;
use crate::report::content::{Key, Mark};
use crate::report::figure::Heatmap;
use crate::report::metric::signed_percent;
use crate::report::plot;
use crate::report::sample::Value;

/// Ratio of two arms' times at which the colours end.
const MAX_RATIO: f64 = 4.0;

/// A mapping from values to colours.
pub(super) struct Palette {
    /// Whether the colours diverge from zero, for gains.
    pub(super) diverging: bool,
    log: bool,
    low: f64,
    high: f64,
}

impl Palette {
    pub(super) fn new(values: &[f64], diverging: bool) -> Self {
        let low = values.iter().copied().fold(f64::MAX, f64::min);
        let high = values.iter().copied().fold(f64::MIN, f64::max);
        if diverging {
            let max = low
                .abs()
                .max(high.abs())
                .clamp(1.25_f64.ln(), MAX_RATIO.ln());
            return Self {
                diverging,
                log: false,
                low: -max,
                high: max,
            };
        }
        let log = low > 0.0 && high > 10.0 * low;
        Self {
            diverging,
            log,
            low,
            high,
        }
    }

    pub(super) fn color(&self, value: f64) -> Option<String> {
        if value.is_nan() {
            return None;
        }
        if self.diverging {
            return Some(plot::diverging(value / self.high));
        }
        let position = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        Some(plot::sequential(if position.is_finite() {
            position
        } else {
            0.0
        }))
    }

    pub(super) fn legend(&self, view: &View, map: &Heatmap) -> Vec<Key> {
        let shades = (0..9).map(|i| {
            let share = f64::from(i) / 8.0;
            if self.diverging {
                plot::diverging(share * 2.0 - 1.0)
            } else {
                plot::sequential(share)
            }
        });
        let gradient = Mark::Gradient(shades.collect());
        let Some([a, b]) = &map.gain else {
            let [low, high] =
                [self.low, self.high].map(|value| view.metric.value(Value::Exact(value)));
            let text = format!("{}: {low} to {high}", view.metric.label);
            return vec![Key {
                mark: gradient,
                text,
            }];
        };
        let ends = [-self.high, self.high].map(|value| signed_percent(value.exp() - 1.0));
        let [low, high] = ends;
        vec![
            Key {
                mark: gradient,
                text: format!("{low} or less: {a} faster · {high} or more: {b} faster"),
            },
            Key {
                mark: Mark::Zero,
                text: "zero line".to_owned(),
            },
            Key {
                mark: Mark::None,
                text: format!(
                    "Numbers: gain of {b} over {a}, ({a} − {b}) / {b}, in %; in parentheses where no 95 % interval excludes zero, as none of three values an arm can; > and < where one timed out"
                ),
            },
        ]
    }
}
