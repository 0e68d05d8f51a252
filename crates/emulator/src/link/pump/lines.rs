//! The links of one direction: one for everybody, and those of single clients.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;

use hikyaku_netsim::{Change, Link, LinkConfig, PacketInfo, derive_seed};
use hikyaku_units::Timestamp;

use super::worker::Segment;
use crate::link::report::DirectionState;

/// Index in [`Lines::links`] of the link for addresses that have none of their own.
const COMMON: usize = 0;

/// The time of an empty link's next packet.
const NEVER: Timestamp = Timestamp::from_micros(u64::MAX);

/// All links of a direction. A turn costs only as much as the links with a due packet, since
/// hundreds of slow links mostly wait.
pub(super) struct Lines {
    links: Vec<Link<Segment>>,
    by_client: HashMap<IpAddr, usize>,
    /// Times of polling the clients' own links, the earliest first. Only entries that agree with
    /// `planned` count.
    due: BinaryHeap<Reverse<(Timestamp, usize)>>,
    planned: Vec<Timestamp>,
}

impl Lines {
    /// Makes empty links at `now`, each with random streams of its own from `seed`. With
    /// `keep_discarded` they keep discarded packets ([`Link::keep_discarded`]).
    pub(super) fn new<'a>(
        now: Timestamp,
        common: &LinkConfig,
        own: impl Iterator<Item = (IpAddr, &'a LinkConfig)>,
        seed: u64,
        keep_discarded: bool,
    ) -> Self {
        let link = |config: &LinkConfig, seed| {
            let mut link = Link::starting_at(now, config, seed);
            if keep_discarded {
                link.keep_discarded();
            }
            link
        };
        let mut links = vec![link(common, seed)];
        let mut by_client = HashMap::new();
        for (client, config) in own {
            by_client.insert(client, links.len());
            links.push(link(config, derive_seed(seed, &[links.len() as u64])));
        }
        Self {
            planned: vec![NEVER; links.len()],
            links,
            by_client,
            due: BinaryHeap::new(),
        }
    }

    /// Whether no client has a link of its own.
    pub(super) fn is_one(&self) -> bool {
        self.links.len() == 1
    }

    /// Returns the index of a client's link, for [`Self::enqueue`].
    pub(super) fn of(&self, client: Option<IpAddr>) -> usize {
        let own = client.and_then(|client| self.by_client.get(&client));
        own.copied().unwrap_or(COMMON)
    }

    /// Enqueues a packet on a link ([`Link::enqueue`]); the link's counters have the queue's drops.
    /// After the last packet of a turn comes [`Self::plan`].
    pub(super) fn enqueue(&mut self, line: usize, at: Timestamp, info: PacketInfo, what: Segment) {
        let _ = self.links[line].enqueue(at, info, what);
    }

    /// Plans the next poll of a link, after an event that may have made it earlier.
    pub(super) fn plan(&mut self, line: usize) {
        // Every turn polls the common link.
        let next = self.links[line].next_due().unwrap_or(NEVER);
        if line != COMMON && next < self.planned[line] {
            self.planned[line] = next;
            self.due.push(Reverse((next, line)));
        }
    }

    /// The time of the next poll; `None` while nothing is under way.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        // An outdated entry only wakes the pump in vain.
        let own = self.due.peek().map(|Reverse((at, _))| *at);
        self.links[COMMON].next_due().into_iter().chain(own).min()
    }

    /// Returns the links to poll at `now`: the common one, and those with a due packet. Each is to
    /// be polled until it is empty, and planned again.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<usize> {
        let mut lines = vec![COMMON];
        while let Some(Reverse((at, line))) = self.due.peek().copied()
            && at <= now
        {
            self.due.pop();
            if self.planned[line] == at {
                self.planned[line] = NEVER;
                lines.push(line);
            }
        }
        lines
    }

    pub(super) fn link_mut(&mut self, line: usize) -> &mut Link<Segment> {
        &mut self.links[line]
    }

    /// Plans changes of the common link.
    pub(super) fn schedule(&mut self, start: Timestamp, changes: &[Change]) {
        self.links[COMMON].schedule(start, changes);
    }

    /// The state of all links together, each as of its last poll.
    pub(super) fn state(&self) -> DirectionState {
        let mut all = DirectionState::default();
        for link in &self.links {
            all.counters += link.counters();
            all.queued += link.queued();
        }
        all
    }
}
