//! Groups of clients, each compared for itself.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hikyaku_units::arm::Version;

use super::effect::{Effect, effect};
use super::interval::ALPHA;
use super::report::{By, ByAssignment, Group, Verdict};
use super::response::SIZES;
use super::sample::{Part, Sample};
use super::subject::Network;
use super::units::{Pick, Unit, clients, mean, units};
use crate::choice::Assignment;

/// Groups in a report.
const MAX_GROUPS: usize = 200;

/// Finds the country of an address.
pub(super) type Country<'a> = &'a dyn Fn(IpAddr) -> Option<String>;

/// The groups of a kind, those with most clients first.
pub(super) fn groups(sample: &Sample, all: &[Unit], by: By, country: Country<'_>) -> Vec<Group> {
    let mut groups = match by {
        By::Network => networks(all),
        By::Country => compared(by_name(all, |network| {
            let name = country(network.first());
            name.unwrap_or_else(|| "unknown".to_owned())
        })),
        By::Site => compared(sites(sample)),
        By::Size => return compared(sizes(sample)),
        By::Version => return versions(sample),
    };
    groups.sort_by_key(|group| std::cmp::Reverse(group.clients.hikyaku + group.clients.hold_back));
    groups.truncate(MAX_GROUPS);
    groups
}

/// Every network for itself.
pub(super) fn networks(all: &[Unit]) -> Vec<Group> {
    compared(by_name(all, |network| network.to_string()))
}

/// The networks with the surest gain and with the surest loss, or the least sure gain.
pub(super) fn extremes(networks: &[Group]) -> [Option<Group>; 2] {
    let compared = || {
        networks
            .iter()
            .filter_map(|group| Some((group, group.ratio?)))
    };
    let best = compared().min_by(|(_, a), (_, b)| a.high.total_cmp(&b.high));
    let worst = compared().max_by(|(_, a), (_, b)| a.low.total_cmp(&b.low));
    [best, worst].map(|found| found.map(|(group, _)| group.clone()))
}

fn by_name(all: &[Unit], name: impl Fn(Network) -> String) -> Vec<(String, Vec<Unit>)> {
    let mut by_network: BTreeMap<Network, Vec<Unit>> = BTreeMap::new();
    for unit in all {
        by_network.entry(unit.network).or_default().push(*unit);
    }
    let mut groups: BTreeMap<String, Vec<Unit>> = BTreeMap::new();
    for (network, units) in by_network {
        groups.entry(name(network)).or_default().extend(units);
    }
    groups.into_iter().collect()
}

fn sites(sample: &Sample) -> Vec<(String, Vec<Unit>)> {
    let clients = sample
        .groups
        .iter()
        .flat_map(|group| group.clients.values());
    let mut sites: Vec<_> = clients
        .flat_map(|client| client.parts.iter().map(|part| part.site))
        .collect();
    sites.sort_unstable();
    sites.dedup();
    let named = sites.into_iter().map(|site| {
        let name = sample.sites.get(&site).cloned();
        let name = name.unwrap_or_else(|| "other hosts".to_owned());
        (name, units(sample, Pick::Site(site)))
    });
    named.collect()
}

fn sizes(sample: &Sample) -> Vec<(String, Vec<Unit>)> {
    let of = |(place, name): (usize, &&str)| ((*name).to_owned(), units(sample, Pick::Size(place)));
    SIZES.iter().enumerate().map(of).collect()
}

/// Compares within each group. All intervals hold together but for a probability of 5 % (Bonferroni).
fn compared(groups: Vec<(String, Vec<Unit>)>) -> Vec<Group> {
    let effects: Vec<Option<Effect>> = groups.iter().map(|(_, units)| effect(units)).collect();
    let intervals = effects.iter().flatten().count().max(1) as f64;
    let group = |((name, units), effect): ((String, Vec<Unit>), Option<Effect>)| {
        let ratio = effect.map(|effect| effect.ratio(ALPHA / intervals));
        Group {
            name,
            clients: ByAssignment::from_fn(|of| clients(&units, of)),
            load_time_s: ByAssignment::from_fn(|of| geometric_mean(&units, of)),
            share: None,
            verdict: ratio.map_or(Verdict::TooFew, |ratio| ratio.verdict()),
            ratio,
        }
    };
    groups.into_iter().zip(effects).map(group).collect()
}

fn geometric_mean(units: &[Unit], of: Assignment) -> Option<f64> {
    let times = units.iter().filter(|unit| unit.assignment == of);
    mean_of(times.map(|unit| unit.log_time))
}

/// The HTTP versions. Clients that use one are not like those that do not, so nothing is compared.
fn versions(sample: &Sample) -> Vec<Group> {
    let shares = ByAssignment::from_fn(|of| responses(sample, of));
    let group = |version: Version| {
        let place = version.index();
        let users = |of| {
            let clients = sample.group(of).clients.values();
            let parts = move |parts: &[Part]| {
                let all = parts.iter().map(|part| part.versions[place]);
                all.fold((0, 0), |(n, sum), times| {
                    (n + times.responses, sum + times.log_time)
                })
            };
            let times = clients.map(move |client| parts(&client.parts));
            let times = times.filter(|(responses, _)| *responses > 0);
            times.map(|(responses, sum)| mean(sum, responses))
        };
        Group {
            name: version.name().to_owned(),
            clients: ByAssignment::from_fn(|of| users(of).count() as u64),
            load_time_s: ByAssignment::from_fn(|of| mean_of(users(of))),
            share: Some(ByAssignment {
                hikyaku: shares.hikyaku[place],
                hold_back: shares.hold_back[place],
            }),
            ratio: None,
            verdict: Verdict::NotCompared,
        }
    };
    Version::ALL.map(group).to_vec()
}

/// Shares of the sampled clients' responses by version; zero without any.
pub(super) fn responses(sample: &Sample, of: Assignment) -> [f64; Version::ALL.len()] {
    let clients = sample.group(of).clients.values();
    let parts = clients.flat_map(|client| &client.parts);
    let counts = parts.fold([0_u64; Version::ALL.len()], |mut counts, part| {
        for (count, times) in counts.iter_mut().zip(&part.versions) {
            *count += u64::from(times.responses);
        }
        counts
    });
    let all = counts.iter().sum::<u64>().max(1) as f64;
    counts.map(|count| count as f64 / all)
}

/// The mean of logarithms, and back.
fn mean_of(logs: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum) = logs.fold((0.0, 0.0), |(n, sum), log| (n + 1.0, sum + log));
    (n > 0.0).then(|| f64::exp(sum / n))
}
