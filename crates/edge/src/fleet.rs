//! This edge's part in a fleet: what it shares with other edges through a store, and reads of them.
//!
//! Nothing here is ever waited for by a client. A connection that begins has the others' knowledge of its
//! client's prefixes read beside its handshake. An answer that has come by then counts for the first decision,
//! any other for later ones.

mod drains;
mod gain;
mod host;
mod peers;
mod reading;
mod tickets;

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use hikyaku_core::client::key::Prefix;
use hikyaku_core::fleet::Pop;
use hikyaku_fleet::{
    Board, Fault, Fleet, FleetConfig, Identity, Status, Topic, Wanted as WantedContents,
};
use parking_lot::Mutex;

use crate::clients::Clients;
use crate::clock::Clock;
use crate::egress::Egress;
pub(crate) use drains::share_drains;
pub(crate) use gain::share_gain;
use hikyaku_content::Caches;
use host::Host;
pub(crate) use peers::FleetPeers;
use reading::{Part, Reading};
pub(crate) use tickets::rotate_together;

/// Prefixes of which the others' knowledge is held.
const MAX_REMOTE: usize = 65_536;

/// The place for this edge's part in a fleet, which a reload may change.
#[derive(Debug)]
pub(crate) struct Membership {
    clients: Arc<Clients>,
    /// Where there is an agent of egress paths.
    egress: Option<Arc<Egress>>,
    clock: Clock,
    /// `None` outside of a fleet.
    wanted: Mutex<Option<Arc<Wanted>>>,
    /// Held by whoever leaves one fleet and joins the next.
    order: tokio::sync::Mutex<()>,
    /// `None` outside of a fleet.
    joined: ArcSwapOption<Joined>,
    /// Knowledge that is on its way.
    reading: Mutex<HashSet<(Part, Prefix)>>,
    /// Contributions of other releases, or that make no sense.
    unread: AtomicU64,
}

/// The fleet that this edge is to be in.
#[derive(Debug)]
struct Wanted {
    config: FleetConfig,
    /// Of the whole configuration.
    digest: String,
    caches: Caches,
    board: Arc<Board>,
}

/// The parts that a fleet is joined with.
#[derive(Debug)]
pub(crate) struct Joining<'a> {
    pub(crate) config: &'a FleetConfig,
    /// Of the whole configuration.
    pub(crate) digest: String,
    pub(crate) caches: &'a Caches,
    pub(crate) board: &'a Arc<Board>,
    /// Names of the certificates that are got by ACME, as servers of a fleet know them.
    pub(crate) certificates: BTreeSet<String>,
}

/// This edge's part in a fleet.
#[derive(Debug)]
struct Joined {
    config: FleetConfig,
    fleet: Fleet,
    pop: Pop,
}

impl Membership {
    pub(crate) fn new(
        clients: Arc<Clients>,
        egress: Option<Arc<Egress>>,
        clock: Clock,
    ) -> Arc<Self> {
        Arc::new(Self {
            clients,
            egress,
            clock,
            wanted: Mutex::default(),
            order: tokio::sync::Mutex::default(),
            joined: ArcSwapOption::empty(),
            reading: Mutex::default(),
            unread: AtomicU64::new(0),
        })
    }

    /// Is soon in the fleet that the configuration names, or in none. Needs a tokio runtime; nothing is waited
    /// for.
    pub(crate) fn join(self: &Arc<Self>, joining: Joining<'_>) {
        let config = joining.config;
        want(&joining);
        let wanted = config.is_on().then(|| {
            Arc::new(Wanted {
                config: config.clone(),
                digest: joining.digest,
                caches: joining.caches.clone(),
                board: Arc::clone(joining.board),
            })
        });
        let is_off = wanted.is_none();
        let former = std::mem::replace(&mut *self.wanted.lock(), wanted);
        if is_off && former.is_none() {
            return;
        }
        let this = Arc::clone(self);
        tokio::spawn(async move { this.settle().await });
    }

    /// Writes the last news for the fleet, and is in none from now on.
    pub(crate) async fn leave(&self) {
        *self.wanted.lock() = None;
        self.settle().await;
    }

    /// Leaves and joins as is wanted. The former fleet takes the last changes before the next one takes any.
    async fn settle(&self) {
        let _order = self.order.lock().await;
        let wanted = self.wanted.lock().clone();
        let joined = self.joined.load_full();
        if let (Some(wanted), Some(joined)) = (&wanted, &joined)
            && joined.config.shares_like(&wanted.config)
        {
            return joined.fleet.reconfigured(wanted.digest.clone());
        }
        self.joined.store(None);
        if let Some(joined) = joined {
            joined.fleet.stop().await;
        }
        self.joined
            .store(wanted.and_then(|wanted| self.start(&wanted)));
    }

    fn start(&self, wanted: &Wanted) -> Option<Arc<Joined>> {
        let config = &wanted.config;
        let pop = Pop::named(config.pop.as_deref().unwrap_or_default());
        self.clients.share(pop, MAX_REMOTE);
        if let Some(egress) = &self.egress {
            egress.share(pop, MAX_REMOTE);
        }
        let identity = Identity {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: wanted.digest.clone(),
        };
        let host = Host {
            clients: Arc::clone(&self.clients),
            egress: self.egress.clone(),
            caches: wanted.caches.clone(),
        };
        let board = Arc::clone(&wanted.board);
        let started = Fleet::start(config.clone(), identity, Arc::new(host), board);
        let fleet = started.inspect_err(|error| tracing::error!("joining the fleet: {error}"));
        Some(Arc::new(Joined {
            config: config.clone(),
            fleet: fleet.ok()?,
            pop,
        }))
    }

    /// Has the others' knowledge of a client's prefixes read, unless that was done lately. Returns at once;
    /// `then` is called after a read.
    pub(crate) fn look_up(self: &Arc<Self>, client: IpAddr, then: impl FnOnce() + Send + 'static) {
        let joined = self.joined.load();
        let Some(joined) = &*joined else { return };
        if !joined.fleet.is_up() {
            return;
        }
        if let Some(reading) = Reading::begin(self, client) {
            let read = reading.run(Arc::clone(joined));
            tokio::spawn(async move {
                read.await;
                then();
            });
        }
    }

    /// The state of the fleet; `None` outside of one.
    pub(crate) fn status(&self) -> Option<Status> {
        let joined = self.joined.load();
        let mut status = joined.as_ref()?.fleet.status();
        status.counts.ignored += self.unread.load(Ordering::Relaxed);
        Some(status)
    }

    /// Has all other edges purge what `order` says. `None` outside of a fleet.
    pub(crate) async fn purge(&self, order: &[u8]) -> Option<Result<(), Fault>> {
        let joined = self.joined.load_full()?;
        Some(joined.fleet.purge(order).await)
    }
}

/// Holds the board that an edge of this configuration uses, and no others.
fn want(joining: &Joining<'_>) {
    let config = joining.config;
    let is_sealed = config.seals();
    let shares = is_sealed && config.share_certificates;
    for topic in Topic::ALL {
        let wanted = match topic {
            Topic::Tickets | Topic::Drain | Topic::Gain => is_sealed.then_some(WantedContents::All),
            Topic::Certificate => {
                shares.then(|| WantedContents::Named(joining.certificates.clone()))
            }
            _ => shares.then_some(WantedContents::All),
        };
        joining.board.want(topic, wanted);
    }
}
