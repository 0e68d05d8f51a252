//! The difference between the groups, and its variance.

use std::collections::{BTreeMap, HashMap};

use super::MIN_CLIENTS;
use super::interval::half_width;
use super::report::Ratio;
use super::subject::Assignment;
use super::units::Unit;

/// Number, mean and squared deviations of clients.
///
/// West: "Updating mean and variance estimates: an improved method", CACM 22(9), 1979.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    pub(super) n: f64,
    mean: f64,
    deviations: f64,
}

impl Moments {
    pub(super) fn add(&mut self, value: f64) {
        self.n += 1.0;
        let from_old = value - self.mean;
        self.mean += from_old / self.n;
        self.deviations += from_old * (value - self.mean);
    }

    /// Takes out a value that was added.
    #[cfg(test)]
    pub(super) fn remove(&mut self, value: f64) {
        if self.n <= 1.0 {
            *self = Self::default();
            return;
        }
        let from_new = value - self.mean;
        self.n -= 1.0;
        self.mean -= from_new / self.n;
        self.deviations -= from_new * (value - self.mean);
    }

    /// The mean's variance, as far as the values show it; there are two at least.
    fn variance(&self) -> f64 {
        (self.deviations / (self.n - 1.0) / self.n).max(0.0)
    }
}

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
/// Clients are compared with those that were drawn with the same share: a share that differs by site or was
/// changed would else compare unlike clients. The strata have the weights of a regression with an intercept
/// each, n1 n0 / (n1 + n0). A client in several strata counts once in the variance: its influences are added
/// before they are squared (Liang, Zeger: "Longitudinal data analysis using generalized linear models",
/// Biometrika 73, 1986).
pub(super) fn effect(units: &[Unit]) -> Option<Effect> {
    let strata = strata(units);
    let enough = |group: usize| {
        let n: f64 = strata.values().map(|groups| groups[group].n).sum();
        n >= MIN_CLIENTS as f64
    };
    if !(enough(0) && enough(1)) {
        return None;
    }
    let mut of = strata.values();
    match (of.next(), of.next()) {
        (Some(only), None) => Some(difference(only)),
        _ => Some(stratified(units, &strata)),
    }
}

/// The clients by share, where both groups have some.
fn strata(units: &[Unit]) -> BTreeMap<u16, [Moments; 2]> {
    let mut strata: BTreeMap<u16, [Moments; 2]> = BTreeMap::new();
    for unit in units {
        strata.entry(unit.share).or_default()[unit.assignment.index()].add(unit.adjusted);
    }
    strata.retain(|_, groups| groups.iter().all(|group| group.n >= 2.0));
    strata
}

/// The weight of each stratum; together 1.
pub(super) fn weights(units: &[Unit]) -> BTreeMap<u16, f64> {
    weights_of(&strata(units))
}

fn weights_of(strata: &BTreeMap<u16, [Moments; 2]>) -> BTreeMap<u16, f64> {
    let overlap = |[a, b]: &[Moments; 2]| a.n * b.n / (a.n + b.n);
    let total: f64 = strata.values().map(overlap).sum();
    let weigh = |(&share, groups)| (share, overlap(groups) / total);
    strata.iter().map(weigh).collect()
}

fn stratified(units: &[Unit], strata: &BTreeMap<u16, [Moments; 2]>) -> Effect {
    let weights = weights_of(strata);
    let difference = strata.iter().map(|(share, [own, other])| {
        let weight = weights.get(share).copied().unwrap_or_default();
        weight * (own.mean - other.mean)
    });
    let difference = difference.sum();
    let mut influences: HashMap<u64, f64> = HashMap::new();
    let (mut parts, mut counts) = ([0.0; 2], [0.0; 2]);
    for unit in units {
        let (Some(groups), Some(weight)) = (strata.get(&unit.share), weights.get(&unit.share))
        else {
            continue;
        };
        let group = unit.assignment.index();
        let moments = &groups[group];
        // As with the variance of a mean: the deviations are from a mean of the same values.
        let correction = (moments.n / (moments.n - 1.0)).sqrt();
        let sign = if unit.assignment == Assignment::Hikyaku { 1.0 } else { -1.0 };
        let influence = sign * weight * correction * (unit.adjusted - moments.mean) / moments.n;
        *influences.entry(unit.hash).or_default() += influence;
        parts[group] += influence * influence;
        counts[group] += 1.0;
    }
    Effect {
        difference,
        variance: influences.values().map(|influence| influence * influence).sum(),
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
