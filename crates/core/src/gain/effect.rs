//! The difference between the groups, and its variance.

use std::collections::BTreeMap;

use super::MIN_CLIENTS;
use super::covariate::{Cell, Change, changed, changes};
use super::interval::half_width;
use super::moments::Moments;
use super::report::Ratio;
use super::subject::Network;
use super::units::Unit;
use crate::choice::Assignment;

/// An estimate of the difference of mean outcomes: hikyaku's less the hold-back group's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effect {
    pub(super) difference: f64,
    pub(super) variance: f64,
    /// Degrees of freedom of the variance.
    freedom: f64,
}

impl Effect {
    /// The ratio of load times with an interval that misses the truth with a probability of `alpha`.
    pub(super) fn ratio(&self, alpha: f64) -> Ratio {
        let half = half_width(self.variance, self.freedom, alpha);
        Ratio {
            mean: self.difference.exp(),
            low: (self.difference - half).exp(),
            high: (self.difference + half).exp(),
        }
    }
}

/// Compares two groups of which each has two clients at least.
pub(super) fn difference(groups: &[Moments; 2]) -> Effect {
    let [own, other] = groups;
    let (a, b) = (own.variance(), other.variance());
    Effect {
        difference: own.mean - other.mean,
        variance: a + b,
        freedom: freedom(a, own.n, b, other.n),
    }
}

/// Compares the clients of both groups; `None` where one of them has too few.
///
/// Clients are compared with those that were drawn with the same share. A share that differs by site, or was
/// changed, would else compare unlike clients. The strata have the weights of a regression with an intercept
/// each, n1 n0 / (n1 + n0). A client in several strata counts once in the variance: its influences are added
/// before they are squared (Liang, Zeger, Biometrika 73, 1986).
pub(super) fn effect(units: &[Unit]) -> Option<Effect> {
    let strata = strata(units);
    let enough = |group: usize| {
        let n: f64 = strata.values().map(|stratum| stratum.groups[group].n).sum();
        n >= MIN_CLIENTS as f64
    };
    if !(enough(0) && enough(1)) {
        return None;
    }
    let mut of = strata.values();
    match (of.next(), of.next()) {
        (Some(only), None) => Some(difference(&only.groups)),
        _ => Some(stratified(units, &strata)),
    }
}

/// Clients that were drawn with one share.
struct Stratum {
    /// The change of each network's outcomes.
    changes: BTreeMap<Network, Change>,
    /// Outcomes after the changes.
    groups: [Moments; 2],
}

impl Stratum {
    fn of(networks: &BTreeMap<Network, Cell>) -> Self {
        let cells: Vec<Cell> = networks.values().copied().collect();
        Self {
            changes: networks.keys().copied().zip(changes(&cells)).collect(),
            groups: changed(&cells),
        }
    }

    /// The outcome of one of its clients after the change.
    fn outcome(&self, unit: &Unit) -> f64 {
        self.changes
            .get(&unit.network)
            .map_or(unit.adjusted, |change| {
                change.factor * unit.adjusted + change.shifts[unit.assignment.index()]
            })
    }
}

/// The clients by share, where both groups have some.
fn strata(units: &[Unit]) -> BTreeMap<u16, Stratum> {
    let mut cells: BTreeMap<u16, BTreeMap<Network, Cell>> = BTreeMap::new();
    for unit in units {
        let networks = cells.entry(unit.share).or_default();
        networks.entry(unit.network).or_default()[unit.assignment.index()].add(unit.adjusted);
    }
    let strata = cells
        .iter()
        .map(|(&share, networks)| (share, Stratum::of(networks)));
    let mut strata: BTreeMap<u16, Stratum> = strata.collect();
    strata.retain(|_, stratum| stratum.groups.iter().all(|group| group.n >= 2.0));
    strata
}

/// The weight of each stratum; together 1.
pub(super) fn weights(units: &[Unit]) -> BTreeMap<u16, f64> {
    weights_of(&strata(units))
}

fn weights_of(strata: &BTreeMap<u16, Stratum>) -> BTreeMap<u16, f64> {
    let overlap = |stratum: &Stratum| {
        let [a, b] = &stratum.groups;
        a.n * b.n / (a.n + b.n)
    };
    let total: f64 = strata.values().map(overlap).sum();
    let weigh = |(&share, stratum)| (share, overlap(stratum) / total);
    strata.iter().map(weigh).collect()
}

fn stratified(units: &[Unit], strata: &BTreeMap<u16, Stratum>) -> Effect {
    let weights = weights_of(strata);
    let differences = strata.iter().map(|(share, stratum)| {
        let weight = weights.get(share).copied().unwrap_or_default();
        let [own, other] = &stratum.groups;
        weight * (own.mean - other.mean)
    });
    let difference = differences.sum();
    let mut influences: BTreeMap<u64, f64> = BTreeMap::new();
    let (mut parts, mut counts) = ([0.0; 2], [0.0; 2]);
    for unit in units {
        let (Some(stratum), Some(weight)) = (strata.get(&unit.share), weights.get(&unit.share))
        else {
            continue;
        };
        let group = unit.assignment.index();
        let moments = &stratum.groups[group];
        // As with the variance of a mean: the deviations are from a mean of the same values.
        let correction = (moments.n / (moments.n - 1.0)).sqrt();
        let sign = match unit.assignment {
            Assignment::Hikyaku => 1.0,
            Assignment::HoldBack => -1.0,
        };
        let deviation = stratum.outcome(unit) - moments.mean;
        let influence = sign * weight * correction * deviation / moments.n;
        *influences.entry(unit.hash).or_default() += influence;
        parts[group] += influence * influence;
        counts[group] += 1.0;
    }
    let squares = influences.values().map(|influence| influence * influence);
    Effect {
        difference,
        variance: squares.sum(),
        freedom: freedom(parts[0], counts[0], parts[1], counts[1]),
    }
}

/// Welch: "The generalization of Student's problem when several different population variances are
/// involved", Biometrika 34, 1947.
fn freedom(a: f64, n: f64, b: f64, m: f64) -> f64 {
    let parts = a * a / (n - 1.0) + b * b / (m - 1.0);
    match parts > 0.0 {
        true => (a + b).powi(2) / parts,
        false => n + m - 2.0,
    }
}
