//! The times at which a connection's session bore an experiment. A measurement is credited to the one that
//! ran while it was made, whatever is decided later.

use std::ops::Range;
use std::time::Instant;

/// The last times of an experiment in one domain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Experiments {
    running_since: Option<Instant>,
    /// The end of the last one that runs no more.
    ended: Option<Instant>,
}

impl Experiments {
    /// The same, with a decision from `now` on that is an experiment or none.
    pub(crate) fn then(self, is_experiment: bool, now: Instant) -> Self {
        match (is_experiment, self.running_since) {
            (true, since) => Self {
                running_since: since.or(Some(now)),
                ..self
            },
            (false, Some(_)) => Self {
                running_since: None,
                ended: Some(now),
            },
            (false, None) => self,
        }
    }

    /// Whether an experiment ran at some time of a measurement.
    pub(crate) fn ran(&self, during: &Range<Instant>) -> bool {
        let runs = self.running_since.is_some_and(|at| at < during.end);
        runs || self.ended.is_some_and(|at| at > during.start)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_experiment_has_what_was_measured_while_it_ran() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        // Runs from 100 to 300 ms and from 500 ms on.
        let decisions = [
            (0, false),
            (100, true),
            (200, true),
            (300, false),
            (400, false),
        ];
        let none = Experiments::default();
        let past = decisions
            .into_iter()
            .fold(none, |so_far, (ms, is_experiment)| {
                so_far.then(is_experiment, at(ms))
            });
        let again = past.then(true, at(500));
        // Begin and end of a measurement, whether an experiment ran before 500 ms, and after
        let cases = [
            (150, 250, true, true),
            (250, 450, true, true),
            (300, 450, false, false),
            (310, 500, false, false),
            (310, 501, false, true),
            (600, 700, false, true),
        ];
        for (begin, end, before, after) in cases {
            let during = at(begin)..at(end);
            assert_eq!(past.ran(&during), before, "{begin} to {end} ms");
            assert_eq!(again.ran(&during), after, "{begin} to {end} ms, later");
        }
        assert!(!none.ran(&(at(0)..at(900))));
    }
}
