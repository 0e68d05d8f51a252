//! Goals of a report, and whether they were reached.

use serde::Deserialize;

use super::metric::{self, Unit};
use super::sample::{Sample, Value};

/// A limit of a result: `<= 2%`, `>= 95%`, `<= 300ms`, `<= 2`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Bound {
    is_upper: bool,
    value: f64,
    unit: String,
}

/// Units of a bound, with the size of each in the results' own unit.
const UNITS: [(&str, f64); 6] = [
    ("%", 0.01),
    ("ms", 1.0),
    ("s", 1000.0),
    ("Mbps", 1.0),
    ("MB", 1e6),
    ("", 1.0),
];

impl TryFrom<String> for Bound {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| {
            format!("`{text}` is no bound: expected `<=` or `>=` and a number with %, ms, s, Mbps, MB or no unit, such as `<= 2%`")
        })
    }
}

impl Bound {
    fn parse(text: &str) -> Option<Self> {
        let (is_upper, rest) = match text.strip_prefix("<=") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix(">=")?),
        };
        let rest = rest.trim();
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, unit) = rest.split_at(end.unwrap_or(rest.len()));
        let (unit, _) = UNITS.iter().find(|(name, _)| *name == unit.trim())?;
        Some(Self {
            is_upper,
            value: number.parse().ok()?,
            unit: (*unit).to_owned(),
        })
    }

    fn factor(&self) -> f64 {
        let unit = UNITS.iter().find(|(name, _)| *name == self.unit);
        unit.map_or(1.0, |(_, factor)| *factor)
    }

    /// Whether a result meets the bound. Shares are fractions: 0.02 meets `<= 2%`. A value that is
    /// only known as a lower limit never meets an upper bound.
    pub(super) fn met(&self, result: Value) -> bool {
        let limit = self.limit();
        // 95 % is not exactly 0.95.
        let rounding = limit.abs() * 1e-9;
        match result {
            Value::Exact(value) if self.is_upper => value <= limit + rounding,
            Value::Exact(value) | Value::Over(value) if !self.is_upper => value >= limit - rounding,
            _ => false,
        }
    }

    /// Returns the result that is farthest from meeting the bound, or nearest to missing it.
    pub(super) fn worst(&self, results: &[Value]) -> Option<Value> {
        let badness = |result: &Value| match *result {
            Value::Exact(value) if self.is_upper => (0, value),
            Value::Exact(value) | Value::Over(value) if !self.is_upper => (0, -value),
            Value::Exact(value) | Value::Over(value) => (1, value),
            Value::Failed => (2, 0.0),
        };
        let order = |one: &&Value, other: &&Value| {
            let (one, other) = (badness(one), badness(other));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        };
        results.iter().max_by(order).copied()
    }

    /// Formats the bound in words: `at most 2 %`.
    pub(super) fn text(&self) -> String {
        let word = if self.is_upper { "at most" } else { "at least" };
        let number = metric::trimmed(self.value);
        format!("{word} {number} {}", self.unit)
            .trim_end()
            .to_owned()
    }

    /// Formats a result in the bound's unit, or as `> 2 %` if it is a lower limit.
    pub(super) fn result(&self, result: Value) -> String {
        match result {
            Value::Exact(value) => self.number(value),
            Value::Over(value) => format!("> {}", self.number(value)),
            Value::Failed => "failed".to_owned(),
        }
    }

    fn number(&self, result: f64) -> String {
        if result.is_infinite() {
            return "∞".to_owned();
        }
        match self.unit.as_str() {
            "ms" | "s" => Unit::Millis.text(result),
            "Mbps" => Unit::Mbps.text(result),
            "MB" => Unit::Bytes.text(result),
            "%" => format!("{} %", metric::digits(result * 100.0)),
            _ if result.fract() == 0.0 => metric::trimmed(result),
            _ => metric::digits(result),
        }
    }

    /// Returns the limit itself, in the results' unit.
    pub(super) fn limit(&self) -> f64 {
        self.value * self.factor()
    }
}

/// The value of a sample for which a goal is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// The median.
    Median,
    /// The value that 99 of 100 do not exceed.
    P99,
    /// The largest.
    Worst,
}

impl Of {
    /// Splits a goal's name into its metric and its value of a sample.
    pub(super) fn split(name: &str) -> (&str, Self) {
        let suffixes = [("_p99", Self::P99), ("_worst", Self::Worst)];
        let found = suffixes
            .iter()
            .find_map(|(suffix, of)| Some((name.strip_suffix(suffix)?, *of)));
        found.unwrap_or((name, Self::Median))
    }

    /// Returns this value of a sample.
    pub(super) fn value(self, sample: &Sample) -> Option<Value> {
        match self {
            Self::Median => sample.median(),
            Self::P99 => sample.quantile(0.99),
            Self::Worst => sample.quantile(1.0),
        }
    }

    /// Returns the value's name in words.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Median => "each median",
            Self::P99 => "each 99th percentile",
            Self::Worst => "each",
        }
    }
}

/// A goal with its result.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Goal {
    /// Subject of the goal: `adaptive: worst excess over the best fixed arm`.
    pub(super) what: String,
    /// The bound in words.
    pub(super) bound: String,
    /// The result; `None` without data.
    pub(super) reached: Option<String>,
    /// Whether the result meets the bound.
    pub(super) verdict: Verdict,
}

/// The outcome of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Reached,
    Missed,
    /// There is no result.
    NotMeasured,
    /// The result is of a reduced experiment (`--quick`), whose size can't reach the bound.
    NotJudged,
}

impl Goal {
    /// Compares a result with its bound.
    pub(super) fn of(what: String, bound: &Bound, result: Option<Value>) -> Self {
        Self {
            what,
            bound: bound.text(),
            reached: result.map(|result| bound.result(result)),
            verdict: match result.map(|result| bound.met(result)) {
                None => Verdict::NotMeasured,
                Some(true) => Verdict::Reached,
                Some(false) => Verdict::Missed,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_result_is_shown() {
        use Value::{Exact, Failed, Over};
        let cases: [(&str, &[Value], Option<Value>); 6] = [
            (
                "<= 95%",
                &[Exact(0.4), Exact(0.8), Exact(0.6)],
                Some(Exact(0.8)),
            ),
            (">= 95%", &[Exact(0.97), Exact(0.96)], Some(Exact(0.96))),
            ("<= 2", &[Exact(9.0), Over(3.0)], Some(Over(3.0))),
            (">= 2", &[Over(3.0), Exact(5.0)], Some(Over(3.0))),
            ("<= 2", &[Failed, Over(3.0)], Some(Failed)),
            ("<= 2", &[], None),
        ];
        for (bound, results, want) in cases {
            let bound = Bound::parse(bound).unwrap();
            assert_eq!(bound.worst(results), want, "{bound:?} of {results:?}");
        }
    }

    #[test]
    fn bounds_are_read_and_held() {
        let cases = [
            ("<= 2%", 0.02, 0.021, "at most 2 %"),
            (">= 95%", 0.95, 0.949, "at least 95 %"),
            ("<=300ms", 300.0, 300.5, "at most 300 ms"),
            ("<= 2", 2.0, 3.0, "at most 2"),
            (">= 0.9", 0.9, 0.89, "at least 0.9"),
        ];
        for (text, good, bad, words) in cases {
            let bound = Bound::parse(text).unwrap();
            let met = |value| bound.met(Value::Exact(value));
            assert!(met(good) && !met(bad), "{text}");
            assert_eq!(bound.text(), words);
        }
        for text in ["", "2%", "< 2%", "<= x", "<= 2 parsecs", "<="] {
            assert!(Bound::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_lower_limit_meets_no_upper_bound() {
        let upper = Bound::parse("<= 2%").unwrap();
        assert!(!upper.met(Value::Over(0.01)) && !upper.met(Value::Failed));
        assert_eq!(upper.result(Value::Over(0.01)), "> 1.00 %");
        let least = Bound::parse(">= 2%").unwrap();
        assert!(least.met(Value::Over(0.02)) && !least.met(Value::Over(0.01)));
        assert!(!least.met(Value::Failed));
    }

    #[test]
    fn a_goal_says_which_value_it_is_for() {
        for (name, want) in [
            ("epe_add_ms", ("epe_add_ms", Of::Median)),
            ("epe_add_ms_p99", ("epe_add_ms", Of::P99)),
            ("wrong_peer_worst", ("wrong_peer", Of::Worst)),
        ] {
            assert_eq!(Of::split(name), want);
        }
    }

    #[test]
    fn nothing_measured_is_not_reached() {
        let bound = Bound::parse("<= 2%").unwrap();
        let goal = Goal::of("excess".into(), &bound, None);
        assert_eq!((goal.verdict, goal.reached), (Verdict::NotMeasured, None));
        let goal = Goal::of("excess".into(), &bound, Some(Value::Exact(0.0123)));
        assert_eq!(goal.reached.as_deref(), Some("1.23 %"));
        assert_eq!(goal.verdict, Verdict::Reached);
    }
}
