//! The clients of a sample, each with its mean outcome.

use super::response::MILLION;
use super::sample::{Part, Sample, Site, Sums};
use super::subject::Network;
use crate::choice::Assignment;

/// A client's responses under one share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) hash: u64,
    pub(super) assignment: Assignment,
    pub(super) share: u16,
    pub(super) network: Network,
    /// Mean outcome.
    pub(super) adjusted: f64,
    /// Mean logarithm of the time in seconds.
    pub(super) log_time: f64,
}

/// The responses that count.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pick {
    All,
    Site(Site),
    /// By its place in the classes of sizes.
    Size(usize),
}

impl Pick {
    fn sums(self, part: &Part) -> Sums {
        match self {
            Self::Site(site) if part.site != site => Sums::default(),
            Self::Size(size) => part.sizes[size],
            Self::All | Self::Site(_) => {
                part.sizes.iter().fold(Sums::default(), |mut all, sums| {
                    all.add(sums);
                    all
                })
            }
        }
    }
}

/// The clients that have responses of `pick`. Those of a group stand together, in the order of their hashes.
pub(super) fn units(sample: &Sample, pick: Pick) -> Vec<Unit> {
    let mut units = Vec::new();
    for assignment in Assignment::ALL {
        for (&hash, client) in &sample.group(assignment).clients {
            // By share, of which a client has one, or a few.
            let mut shares: Vec<(u16, Sums)> = Vec::new();
            for part in &client.parts {
                let sums = pick.sums(part);
                if sums.responses == 0 {
                    continue;
                }
                match shares.iter_mut().find(|(share, _)| *share == part.share) {
                    Some((_, all)) => all.add(&sums),
                    None => shares.push((part.share, sums)),
                }
            }
            units.extend(shares.into_iter().map(|(share, sums)| Unit {
                hash,
                assignment,
                share,
                network: client.network,
                adjusted: mean(sums.adjusted, sums.responses),
                log_time: mean(sums.log_time, sums.responses),
            }));
        }
    }
    units
}

/// The mean of a sum of millionths.
pub(super) fn mean(sum: i64, responses: u32) -> f64 {
    sum as f64 / MILLION / f64::from(responses)
}

/// Different clients of a group.
pub(super) fn clients(units: &[Unit], assignment: Assignment) -> u64 {
    let mut of = units.iter().filter(|unit| unit.assignment == assignment);
    let mut hashes: Vec<u64> = of.by_ref().map(|unit| unit.hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes.len() as u64
}
