//! A uniform random sample of clients with exact sums, in bounded memory.
//!
//! Of each group the clients with the smallest hashes are kept: a bottom-k sketch (Cohen, Kaplan:
//! "Summarizing data using bottom-k sketches", PODC 2007). Samples of days and of edges merge, in whatever
//! order, to the sample of all their responses.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use hikyaku_units::Timestamp;
use hikyaku_units::arm::Version;
use hikyaku_units::mix::mix;

use super::response::{Response, SIZES};
use super::subject::{Network, Subject};
use crate::choice::Assignment;

/// A sample of the clients of some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    pub(super) groups: [Bottom; 2],
    /// Names of the sites.
    pub(super) sites: BTreeMap<Site, String>,
    /// Seconds of the first and of the last response.
    pub(super) seen: Option<(u32, u32)>,
}

/// The clients of one group with the smallest hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bottom {
    /// No client below it is missing.
    pub(super) bound: u64,
    pub(super) clients: BTreeMap<u64, Client>,
    /// Responses of all clients, and those among them that did not end whole.
    pub(super) responses: u64,
    pub(super) incomplete: u64,
}

/// The sums of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) network: Network,
    /// By site and share, in this order.
    pub(super) parts: Vec<Part>,
}

/// The sums of a client at a site, drawn with one share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) site: Site,
    pub(super) share: u16,
    pub(super) sizes: [Sums; SIZES.len()],
    pub(super) versions: [Times; Version::ALL.len()],
    pub(super) incomplete: u32,
}

/// Sums of whole responses, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) responses: u32,
    pub(super) adjusted: i64,
    pub(super) log_time: i64,
}

/// As [`Sums`], without the outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) responses: u32,
    pub(super) log_time: i64,
}

/// A site, by a hash of its name that is the same everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site(pub(super) u32);

impl Site {
    /// The site with this name; the empty one is that of all hosts without a site.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let hash = name
            .bytes()
            .fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
        Self(hash as u32)
    }
}

impl Sample {
    /// Adds a response. Of each group `max` clients are kept.
    pub fn record(
        &mut self,
        subject: &Subject,
        site: Site,
        response: &Response,
        at: Timestamp,
        max: usize,
    ) {
        let secs = u32::try_from(at.as_secs()).unwrap_or(u32::MAX);
        self.seen = Some(widened(self.seen, (secs, secs)));
        let group = &mut self.groups[subject.assignment.index()];
        match response.complete {
            true => group.responses += 1,
            false => group.incomplete += 1,
        }
        if let Some(client) = group.client(subject, max) {
            client.record(site, subject.share, response);
        }
    }

    /// Whether a response of this client changes nothing but the totals.
    #[must_use]
    pub fn leaves_out(&self, subject: &Subject) -> bool {
        subject.hash >= self.groups[subject.assignment.index()].bound
    }

    /// Names a site, for reports.
    pub fn name(&mut self, site: Site, name: &str) {
        if !name.is_empty() {
            self.sites.insert(site, name.to_owned());
        }
    }

    /// Adds the responses of another sample, of which none is in this one. Of each group `max` clients are
    /// kept.
    pub fn merge(&mut self, other: &Self, max: usize) {
        for (group, others) in self.groups.iter_mut().zip(&other.groups) {
            group.merge(others, max);
        }
        for (site, name) in &other.sites {
            let known = self.sites.entry(*site).or_insert_with(|| name.clone());
            if *name < *known {
                known.clone_from(name);
            }
        }
        if let Some(seen) = other.seen {
            self.seen = Some(widened(self.seen, seen));
        }
    }

    /// The sample in so many parts, each with the clients whose hash has its place as the remainder. Merged
    /// they are the sample again. `parts` is above 0.
    #[must_use]
    pub fn split(&self, parts: usize) -> Vec<Self> {
        let part = |place: usize| {
            let mut part = self.clone();
            for group in &mut part.groups {
                group
                    .clients
                    .retain(|hash, _| hash % parts as u64 == place as u64);
                if place > 0 {
                    (group.responses, group.incomplete) = (0, 0);
                }
            }
            part
        };
        (0..parts).map(part).collect()
    }

    /// Makes the larger group smaller, so that `bytes` become `max` about; not below the size of the other.
    pub(super) fn shrink(&mut self, bytes: usize, max: usize) {
        let [a, b] = self.groups.each_ref().map(|group| group.clients.len());
        let (larger, other) = if a >= b { (0, b) } else { (1, a) };
        let clients = a + b;
        // A little less than in proportion, so that the end comes soon.
        let left = clients * max / bytes.max(1) * 15 / 16;
        let even = other.min(left / 2);
        self.groups[larger].trim((left - even).min(a.max(b) - 1));
    }

    /// Whether there are no responses in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.seen.is_none()
    }

    /// Responses in it, whole or not: more than before if something was added.
    #[must_use]
    pub fn responses(&self) -> u64 {
        let of = |group: &Bottom| group.responses + group.incomplete;
        self.groups.iter().map(of).sum()
    }

    pub(super) const fn group(&self, assignment: Assignment) -> &Bottom {
        &self.groups[assignment.index()]
    }
}

impl Default for Bottom {
    fn default() -> Self {
        Self {
            bound: u64::MAX,
            clients: BTreeMap::new(),
            responses: 0,
            incomplete: 0,
        }
    }
}

impl Bottom {
    /// The sums of a client; `None` if the client is not in the sample.
    fn client(&mut self, subject: &Subject, max: usize) -> Option<&mut Client> {
        if subject.hash >= self.bound {
            return None;
        }
        if !self.clients.contains_key(&subject.hash) && self.clients.len() >= max {
            let largest = self.clients.keys().next_back().copied();
            self.bound = largest.map_or(subject.hash, |largest| largest.max(subject.hash));
            if self.bound == subject.hash {
                return None;
            }
            self.clients.pop_last();
        }
        let client = self.clients.entry(subject.hash);
        Some(client.or_insert_with(|| Client::of(subject.network)))
    }

    fn merge(&mut self, other: &Self, max: usize) {
        self.responses += other.responses;
        self.incomplete += other.incomplete;
        self.bound = self.bound.min(other.bound);
        let bound = self.bound;
        for (&hash, client) in other.clients.range(..bound) {
            match self.clients.entry(hash) {
                Entry::Vacant(place) => drop(place.insert(client.clone())),
                Entry::Occupied(mut place) => place.get_mut().merge(client),
            }
        }
        self.trim(max);
    }

    /// Keeps `max` clients at most.
    fn trim(&mut self, max: usize) {
        if let Some(&first_out) = self.clients.keys().nth(max) {
            self.bound = self.bound.min(first_out);
        }
        drop(self.clients.split_off(&self.bound));
    }

    /// Clients of the group, in the sample or not: exact where none was left out, else estimated by how
    /// dense the hashes are.
    pub(super) fn population(&self) -> u64 {
        let kept = self.clients.len() as f64;
        match self.bound {
            u64::MAX => self.clients.len() as u64,
            bound => (kept / (bound as f64 / u64::MAX as f64)).round() as u64,
        }
    }
}

impl Client {
    const fn of(network: Network) -> Self {
        Self {
            network,
            parts: Vec::new(),
        }
    }

    fn record(&mut self, site: Site, share: u16, response: &Response) {
        let place = self.parts.binary_search_by_key(&(site, share), Part::key);
        let place = match place {
            Ok(place) => place,
            // So many sites of one client are a robot's.
            Err(_) if self.parts.len() >= MAX_PARTS => return,
            Err(place) => {
                self.parts.insert(place, Part::new(site, share));
                place
            }
        };
        self.parts[place].record(response);
    }

    fn merge(&mut self, other: &Self) {
        self.network = self.network.min(other.network);
        for part in &other.parts {
            match self.parts.binary_search_by_key(&part.key(), Part::key) {
                Ok(place) => self.parts[place].add(part),
                Err(place) => self.parts.insert(place, *part),
            }
        }
    }
}

impl Part {
    pub(super) fn new(site: Site, share: u16) -> Self {
        Self {
            site,
            share,
            sizes: Default::default(),
            versions: Default::default(),
            incomplete: 0,
        }
    }

    pub(super) const fn key(&self) -> (Site, u16) {
        (self.site, self.share)
    }

    fn record(&mut self, response: &Response) {
        if !response.complete {
            self.incomplete = self.incomplete.saturating_add(1);
            return;
        }
        let log_time = response.log_time();
        self.sizes[response.size()].add(&Sums {
            responses: 1,
            adjusted: response.adjusted(),
            log_time,
        });
        self.versions[response.version.index()].add(&Times {
            responses: 1,
            log_time,
        });
    }

    fn add(&mut self, other: &Self) {
        for (sums, others) in self.sizes.iter_mut().zip(&other.sizes) {
            sums.add(others);
        }
        for (times, others) in self.versions.iter_mut().zip(&other.versions) {
            times.add(others);
        }
        self.incomplete = self.incomplete.saturating_add(other.incomplete);
    }
}

impl Sums {
    pub(super) fn add(&mut self, other: &Self) {
        self.responses = self.responses.saturating_add(other.responses);
        self.adjusted = self.adjusted.saturating_add(other.adjusted);
        self.log_time = self.log_time.saturating_add(other.log_time);
    }
}

impl Times {
    fn add(&mut self, other: &Self) {
        self.responses = self.responses.saturating_add(other.responses);
        self.log_time = self.log_time.saturating_add(other.log_time);
    }
}

fn widened(seen: Option<(u32, u32)>, (first, last): (u32, u32)) -> (u32, u32) {
    seen.map_or((first, last), |seen| (seen.0.min(first), seen.1.max(last)))
}

/// Sites and shares of one client that are kept apart.
pub(super) const MAX_PARTS: usize = 8;
