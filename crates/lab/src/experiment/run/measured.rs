//! Measurements of a session.

use std::collections::BTreeMap;

use crate::experiment::record::{Outcome, Point};

/// Figures of a session on their way into its record.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) outcome: Outcome,
    pub(crate) error: Option<String>,
    pub(crate) metrics: BTreeMap<String, f64>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) series: BTreeMap<String, Vec<Point>>,
}

impl Default for Measured {
    fn default() -> Self {
        Self {
            outcome: Outcome::Complete,
            error: None,
            metrics: BTreeMap::new(),
            labels: BTreeMap::new(),
            series: BTreeMap::new(),
        }
    }
}

impl Measured {
    /// Records a metric. A value that is not a number counts as unknown, since JSON could not hold
    /// it.
    pub(crate) fn metric(&mut self, name: &str, value: f64) {
        if !value.is_finite() {
            return;
        }
        // No value is more exact, but ratios such as loss need the digits.
        let rounded = (value * 1e6).round() / 1e6;
        self.metrics.insert(name.to_owned(), rounded);
    }

    pub(crate) fn label(&mut self, name: &str, value: &str) {
        self.labels.insert(name.to_owned(), value.to_owned());
    }

    /// Records a problem. The first reason is kept, and a failure outweighs a time-out.
    pub(crate) fn fail(&mut self, outcome: Outcome, why: String) {
        let worse = (self.outcome, outcome) == (Outcome::TimedOut, Outcome::Failed);
        if self.outcome == Outcome::Complete || worse {
            (self.outcome, self.error) = (outcome, Some(why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_outweighs_a_time_out() {
        let mut measured = Measured::default();
        measured.fail(Outcome::TimedOut, "late".to_owned());
        measured.fail(Outcome::Failed, "broken".to_owned());
        measured.fail(Outcome::TimedOut, "late again".to_owned());
        assert_eq!(measured.outcome, Outcome::Failed);
        assert_eq!(measured.error.as_deref(), Some("broken"));
    }

    #[test]
    fn values_that_are_no_numbers_are_unknown() {
        let mut measured = Measured::default();
        for value in [f64::NAN, f64::INFINITY, 1.5] {
            measured.metric("load_ms", value);
        }
        measured.metric("jain", f64::NAN);
        assert_eq!(measured.metrics, [("load_ms".to_owned(), 1.5)].into());
    }
}
