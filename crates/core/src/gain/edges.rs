//! The samples of several edges and days.

use std::collections::BTreeMap;

use super::calendar::Day;
use super::sample::Sample;

/// The counts of each edge and day. An edge's later sample of a day replaces its former one, so
/// that nothing is counted twice, however often and in whatever order samples come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges(BTreeMap<(String, Day), Sample>);

impl Edges {
    /// Takes a sample of an edge.
    pub fn put(&mut self, edge: &str, day: Day, sample: Sample) {
        let later = |a: &Sample, b: &Sample| {
            let order = |sample: &Sample| (sample.seen.map(|(_, last)| last), sample.responses());
            order(a)
                .cmp(&order(b))
                .then_with(|| a.encode().cmp(&b.encode()))
        };
        match self.0.get_mut(&(edge.to_owned(), day)) {
            Some(known) if later(&sample, known).is_gt() => *known = sample,
            Some(_) => {}
            None => drop(self.0.insert((edge.to_owned(), day), sample)),
        }
    }

    /// Takes all samples of others.
    pub fn join(&mut self, others: Self) {
        for ((edge, day), sample) in others.0 {
            self.put(&edge, day, sample);
        }
    }

    /// Forgets the days before `day`.
    pub fn forget_before(&mut self, day: Day) {
        self.0.retain(|(_, of), _| *of >= day);
    }

    /// Different edges from `day` on.
    #[must_use]
    pub fn count(&self, day: Day) -> usize {
        let mut edges: Vec<&str> = self.since(day).map(|(edge, _)| edge).collect();
        edges.dedup();
        edges.len()
    }

    /// The samples of all edges from `day` on, as one. Of each group `max` clients are kept.
    #[must_use]
    pub fn merged(&self, day: Day, max: usize) -> Sample {
        let mut all = Sample::default();
        for (_, sample) in self.since(day) {
            all.merge(sample, max);
        }
        all
    }

    fn since(&self, day: Day) -> impl Iterator<Item = (&str, &Sample)> {
        let of = self.0.iter().filter(move |((_, of), _)| *of >= day);
        of.map(|((edge, _), sample)| (edge.as_str(), sample))
    }
}
