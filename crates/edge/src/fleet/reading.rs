//! Reads of the other edges' knowledge of a client's prefixes.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hikyaku_core::client::key::{Prefix, prefixes};
use hikyaku_core::client::shared::Contributions;
use hikyaku_core::egress::RouteContributions;
use hikyaku_fleet::{Field, Key};

use super::{Joined, Membership};
use crate::metrics::add;

/// For how long the others' knowledge of a prefix counts as new.
const FRESH: Duration = Duration::from_secs(10);
/// How long a read may take. Its outcome is of use to the client's later decisions, too.
const PATIENCE: Duration = Duration::from_secs(1);
/// Prefixes that are read at a time.
const MAX_READING: usize = 4096;

/// The part of the knowledge of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    Path,
    Routes,
}

/// Knowledge that nobody else reads meanwhile.
pub(super) struct Reading {
    membership: Arc<Membership>,
    wanted: Vec<(Part, Prefix)>,
}

impl Reading {
    /// That of a client which is missing or old; `None` where all is new, or is read already.
    pub(super) fn begin(membership: &Arc<Membership>, client: IpAddr) -> Option<Self> {
        let is_old = |age: Option<Duration>| age.is_none_or(|age| age > FRESH);
        let clients = &membership.clients;
        let paths = prefixes(client).filter(|prefix| is_old(clients.remote_age(*prefix)));
        let paths = paths.map(|prefix| (Part::Path, prefix));
        // Routes are known of the widest.
        let routes = membership.egress.as_ref().and_then(|egress| {
            let prefix = prefixes(client).last()?;
            is_old(egress.remote_age(prefix)).then_some((Part::Routes, prefix))
        });
        let mut wanted: Vec<(Part, Prefix)> = paths.chain(routes).collect();
        if wanted.is_empty() {
            return None;
        }
        {
            let mut reading = membership.reading.lock();
            wanted.retain(|part| reading.len() < MAX_READING && reading.insert(*part));
        }
        (!wanted.is_empty()).then(|| Self {
            membership: Arc::clone(membership),
            wanted,
        })
    }

    /// Reads, and takes the answer. A read that is missed is counted, and done again by the next connection.
    pub(super) async fn run(self, joined: Arc<Joined>) {
        let key = |&(part, prefix): &(Part, Prefix)| match part {
            Part::Path => Key::path(&prefix.to_string()),
            Part::Routes => Key::route(&prefix.to_string()),
        };
        let keys = self.wanted.iter().filter_map(key).collect();
        let read = joined.fleet.read(keys, Instant::now() + PATIENCE).await;
        for (&(part, prefix), fields) in self.wanted.iter().zip(read.iter().flatten()) {
            self.take(&joined, part, prefix, fields);
        }
    }

    fn take(&self, joined: &Joined, part: Part, prefix: Prefix, fields: &[Field]) {
        let membership = &self.membership;
        let (now, me) = (membership.clock.now(), joined.fleet.name());
        let fields = fields
            .iter()
            .map(|field| (field.edge.as_str(), field.payload.as_slice()));
        let unread = match part {
            Part::Path => {
                let (contributions, unread) = Contributions::read(fields, now);
                let clients = &membership.clients;
                clients.set_total(prefix, &contributions, me, joined.pop);
                unread
            }
            Part::Routes => {
                let Some(egress) = &membership.egress else {
                    return;
                };
                let (contributions, unread) = RouteContributions::read(fields, now);
                egress.set_remote(prefix, &contributions, &me, joined.pop);
                unread
            }
        };
        add(&membership.unread, unread as u64);
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut reading = self.membership.reading.lock();
        for part in &self.wanted {
            reading.remove(part);
        }
    }
}
