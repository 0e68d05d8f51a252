//! The other edges of a fleet, as orders of certificates use them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hikyaku_acme::{Common, Given, Peers, Pending, Turn};
use hikyaku_fleet::{Board, Content, Lease, Topic};

use super::{Joined, Membership};

/// How long the first order waits for the store.
const START: Duration = Duration::from_secs(10);
/// How long the store may take with an exchange.
const EXCHANGE: Duration = Duration::from_secs(10);
/// How long all edges may take to have an answer to an authority.
const ACKNOWLEDGED: Duration = Duration::from_secs(15);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// For how long an edge has the turn to order.
const TURN: Duration = Duration::from_secs(30);

/// The other edges of the fleet that this edge is in, if it shares certificates with them.
#[derive(Debug)]
pub(crate) struct FleetPeers {
    membership: Arc<Membership>,
    board: Arc<Board>,
}

impl FleetPeers {
    pub(crate) const fn new(membership: Arc<Membership>, board: Arc<Board>) -> Self {
        Self { membership, board }
    }

    /// Whether certificates are shared.
    fn is_on(&self) -> bool {
        let wanted = self.membership.wanted.lock();
        wanted
            .as_ref()
            .is_some_and(|wanted| wanted.config.share_certificates)
    }

    /// This edge's part in the fleet, while certificates are shared.
    fn joined(&self) -> Option<Arc<Joined>> {
        let joined = self.membership.joined.load_full()?;
        joined.config.share_certificates.then_some(joined)
    }
}

const fn topic(common: Common) -> Topic {
    match common {
        Common::Account => Topic::Account,
        Common::Certificate => Topic::Certificate,
        Common::Challenge => Topic::Challenge,
    }
}

/// A time of the Unix epoch; those before it count as its begin.
fn seconds(time: i64) -> u64 {
    u64::try_from(time).unwrap_or(0)
}

impl Peers for FleetPeers {
    fn ready(&self) -> Pending<'_, bool> {
        Box::pin(async {
            let begun = Instant::now();
            while self.is_on() && begun.elapsed() < START {
                if let Some(joined) = self.joined() {
                    if joined.fleet.is_up() {
                        return true;
                    }
                    if joined.fleet.status().fault.is_some() {
                        return false;
                    }
                }
                tokio::time::sleep(LOOK).await;
            }
            false
        })
    }

    fn content(&self, common: Common, name: &str) -> Option<Vec<u8>> {
        let content = self.board.get(topic(common), name)?;
        Some(content.bytes)
    }

    fn contents(&self, common: Common) -> Vec<Vec<u8>> {
        let all = self.board.all(topic(common)).into_iter();
        all.map(|(_, content)| content.bytes).collect()
    }

    fn give(&self, common: Common, name: &str, given: Given) {
        let content = Content {
            stamp: (seconds(given.stamp.0), seconds(given.stamp.1)),
            until: seconds(given.until),
            title: given.title.chars().take(120).collect(),
            bytes: given.content,
        };
        self.board.put(topic(common), name, content);
    }

    fn take_back(&self, common: Common, name: &str) {
        self.board.remove(topic(common), name);
    }

    fn exchanged(&self) -> Pending<'_, ()> {
        Box::pin(async {
            if let Some(joined) = self.joined() {
                joined.fleet.sync(EXCHANGE).await;
            }
        })
    }

    fn acknowledged<'a>(&'a self, name: &'a str) -> Pending<'a, ()> {
        Box::pin(async move {
            let Some(joined) = self.joined() else {
                return;
            };
            let begun = Instant::now();
            while joined.fleet.sync(EXCHANGE).await && begun.elapsed() < ACKNOWLEDGED {
                if joined.fleet.is_acknowledged(name) {
                    return;
                }
                tokio::time::sleep(LOOK).await;
            }
            tracing::debug!("not all edges of the fleet are known to have the answers of an order");
        })
    }

    fn turn<'a>(&'a self, common: Common, name: &'a str) -> Pending<'a, Turn> {
        Box::pin(async move {
            let Some(joined) = self.joined() else {
                return Turn::Unknown;
            };
            match joined.fleet.lease(topic(common), name, TURN).await {
                Lease::Taken => Turn::Own,
                Lease::Elsewhere => Turn::Elsewhere,
                Lease::Unavailable => Turn::Unknown,
            }
        })
    }

    fn end_turn<'a>(&'a self, common: Common, name: &'a str) -> Pending<'a, ()> {
        Box::pin(async move {
            if let Some(joined) = self.joined() {
                joined.fleet.release(topic(common), name).await;
            }
        })
    }
}
