//! Comparison of the best fixed arm with the choices.

use std::collections::BTreeMap;

use super::View;
use crate::experiment::Cell;
use crate::report::sample::{Sample, Value};

/// The best of several fixed arms under the same conditions.
pub(super) struct Best<'a> {
    pub(super) arm: &'a str,
    pub(super) sample: Sample,
    /// How much longer the slowest takes than the best, as a share.
    pub(super) spread: f64,
    /// Labels of the best arm, and of those close to it.
    pub(super) right: Vec<String>,
    /// Whether some arm takes longer than the best by more than the threshold.
    pub(super) differ: bool,
    /// Whether it had no competitor.
    pub(super) alone: bool,
}

/// An arm with its sessions' metric and their most frequent label.
pub(super) struct Candidate<'a> {
    pub(super) arm: &'a str,
    pub(super) sample: Sample,
    pub(super) label: Option<String>,
}

impl<'a> View<'a> {
    /// Returns the arms of the figure that are not adaptive, unless `fixed` names them.
    pub(super) fn fixed(&self, fixed: &'a [String], adaptive: &[String]) -> Vec<&'a str> {
        if !fixed.is_empty() {
            return fixed.iter().map(String::as_str).collect();
        }
        let chooses = |arm: &&str| adaptive.iter().any(|name| name == arm);
        self.arms
            .iter()
            .copied()
            .filter(|arm| !chooses(arm))
            .collect()
    }

    /// Returns a fixed arm in a cell as a candidate.
    pub(super) fn candidate(&self, cell: &Cell, arm: &'a str, label: &str) -> Candidate<'a> {
        let labels = self
            .data
            .sessions(cell, arm)
            .filter_map(|run| run.label(label));
        Candidate {
            arm,
            sample: self.sample(cell, arm),
            label: most_frequent(labels),
        }
    }
}

/// Returns the most frequent value.
pub(super) fn most_frequent<'a>(labels: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for label in labels {
        *counts.entry(label).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(label, _)| label.to_owned())
}

/// Returns the best of the candidates. Arms within `differ` per cent of it count as good as the
/// best.
pub(super) fn best<'a>(candidates: &[Candidate<'a>], differ: f64) -> Option<Best<'a>> {
    let known = candidates
        .iter()
        .filter_map(|c| Some((c, c.sample.median()?)));
    let mut known: Vec<(&Candidate, Value)> = known.collect();
    // Given-up sessions rank behind complete ones, by the same order as in a sample.
    known.sort_by(|(_, a), (_, b)| a.rank_cmp(b));
    let (first, median) = known.first()?;
    let excess = |value: Value| match (value, *median) {
        (Value::Exact(value), Value::Exact(best)) => value / best - 1.0,
        // An arm that did not end while the best did exceeds any bound; two such arms are
        // incomparable.
        (_, Value::Exact(_)) => f64::INFINITY,
        _ => 0.0,
    };
    let is_right = |value: Value| excess(value) * 100.0 <= differ;
    let mut right: Vec<String> = known
        .iter()
        .filter(|(_, value)| is_right(*value))
        .filter_map(|(c, _)| c.label.clone())
        .collect();
    right.dedup();
    Some(Best {
        arm: first.arm,
        sample: first.sample.clone(),
        spread: known.last().map_or(0.0, |(_, value)| excess(*value)),
        differ: known.iter().any(|(_, value)| !is_right(*value)),
        right,
        alone: known.len() == 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(arm: &'static str, label: &str, values: &[Value]) -> Candidate<'static> {
        Candidate {
            arm,
            sample: values.iter().copied().collect(),
            label: Some(label.to_owned()),
        }
    }

    #[test]
    fn the_best_ended() {
        let slow = candidate("slow", "2", &[Value::Exact(130.0); 3]);
        let out = candidate("out", "3", &[Value::Over(120.0); 3]);
        let best = best(&[out, slow], 5.0).unwrap();
        assert_eq!((best.arm, best.differ), ("slow", true));
        assert_eq!(best.right, ["2"]);
    }

    #[test]
    fn arms_next_to_the_best_are_right_too() {
        let a = candidate("a", "2", &[Value::Exact(100.0); 3]);
        let b = candidate("b", "3", &[Value::Exact(104.0); 3]);
        let c = candidate("c", "1.1", &[Value::Exact(150.0); 3]);
        let near = best(&[a, b], 5.0).unwrap();
        assert!(!near.differ && near.right.len() == 2 && (near.spread - 0.04).abs() < 1e-12);
        let a = candidate("a", "2", &[Value::Exact(100.0); 3]);
        let far = best(&[a, c], 5.0).unwrap();
        assert!(far.differ && far.right == ["2"]);
        assert!(best(&[], 5.0).is_none());
    }
}
