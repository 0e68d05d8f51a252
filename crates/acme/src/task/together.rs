//! One certificate of several servers: one of them orders it, and the others take it over.

use std::cmp::Ordering as Order;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Task;
use crate::order::missing;
use crate::peers::{Common, Given, Peers, Turn};
use crate::record::Record;
use crate::schedule::{self, DAY};

/// Between two looks whether the server that orders is done.
const LOOK: Duration = Duration::from_secs(2);
/// Between two renewals of the turn, which ends half a minute after the last.
const RENEWAL: Duration = Duration::from_secs(8);
/// For so long another server may order. Then this one does, too: who writes to the store must not hold all
/// orders back.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// For so long the failures of orders without any certificate count for other servers.
const FAILURE_LIFE: i64 = 7 * DAY;

impl Task {
    pub(super) fn peers(&self) -> Option<&dyn Peers> {
        self.shared.peers.as_deref()
    }

    /// Orders where no other server does, and unless one has done so.
    pub(super) async fn order_in_turn(&mut self) {
        let Some(peers) = self.shared.peers.clone() else {
            return self.order().await;
        };
        if !peers.ready().await {
            return self.order().await;
        }
        match peers.turn(Common::Certificate, &self.common).await {
            Turn::Unknown => self.order().await,
            Turn::Own => self.order_for_all(&*peers).await,
            Turn::Elsewhere => {
                let since = *self.waited.get_or_insert_with(Instant::now);
                if since.elapsed() > PATIENCE {
                    tracing::warn!(
                        "another server of the fleet has ordered the certificate for {} for long: this one \
                         orders it, too",
                        self.title()
                    );
                    return self.order_for_all(&*peers).await;
                }
                let _ = tokio::time::timeout(LOOK, self.wake.notified()).await;
            }
        }
    }

    /// Orders, and gives the outcome to all servers.
    async fn order_for_all(&mut self, peers: &dyn Peers) {
        self.waited = None;
        // Another may just have ended its turn.
        peers.exchanged().await;
        self.adopt();
        let now = self.now();
        if schedule::due(&self.known(now), now) <= now {
            let name = self.common.clone();
            let renewal = async {
                loop {
                    tokio::time::sleep(RENEWAL).await;
                    peers.turn(Common::Certificate, &name).await;
                }
            };
            tokio::select! {
                () = self.order() => {}
                () = renewal => {}
            }
            self.give();
            peers.exchanged().await;
        }
        peers.end_turn(Common::Certificate, &self.common).await;
    }

    /// Gives the record to all servers. Of two, the newer stands.
    pub(super) fn give(&self) {
        let Some(peers) = self.peers() else {
            return;
        };
        let record = &self.record;
        if rank(record) == rank(&Record::default()) {
            return;
        }
        let validity = record.validity(&self.setup.key_types);
        let of_failure = record.failed.saturating_add(FAILURE_LIFE);
        let until = validity.map_or(of_failure, |validity| validity.to.max(of_failure));
        if let Ok(content) = serde_json::to_vec(record) {
            let given = Given {
                stamp: rank(record),
                until,
                title: self.title(),
                content,
            };
            peers.give(Common::Certificate, &self.common, given);
        }
    }

    /// Takes over what another server knows better: its certificate, or its failures.
    pub(super) fn adopt(&mut self) {
        let theirs = self
            .peers()
            .and_then(|peers| peers.content(Common::Certificate, &self.common));
        let Some(theirs) = theirs.and_then(|content| self.usable(&content)) else {
            return;
        };
        if rank(&theirs).cmp(&rank(&self.record)) != Order::Greater {
            return;
        }
        let has_changed = theirs.pairs != self.record.pairs;
        self.record = Record {
            names: self.names.clone(),
            ..theirs
        };
        self.waited = None;
        if let Err(failure) = self.save() {
            tracing::warn!("{failure}");
        }
        if has_changed {
            let shared = Arc::clone(&self.shared);
            (shared.on_issued)(&self.path);
            tracing::info!(
                "certificate for {} taken over from another server of the fleet",
                self.title()
            );
        }
    }

    /// The record of another server, if this one can use it.
    fn usable(&self, content: &[u8]) -> Option<Record> {
        let record: Record = serde_json::from_slice(content).ok()?;
        if record.pairs.is_empty() {
            return Some(record);
        }
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let certified = record.certified(&provider).ok()?;
        let is_for_all = certified.iter().all(|one| {
            let leaf = one.cert.first();
            leaf.is_some_and(|leaf| missing(leaf, &self.names).is_none())
        });
        let validity = record.validity(&self.setup.key_types)?;
        // Failures to replace one that is over concern all servers that have it.
        let is_of_use = validity.to > self.now() || record.pairs == self.record.pairs;
        (is_for_all && is_of_use).then_some(record)
    }
}

/// The newer of two records has the larger: of the later certificate, and then of the later failure.
fn rank(record: &Record) -> (i64, i64) {
    (record.issued, record.failed)
}
