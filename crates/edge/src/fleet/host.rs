//! This edge, as its fleet uses it.

use std::sync::Arc;

use hikyaku_content::{Caches, Purge};
use hikyaku_core::client::key::Prefix;
use hikyaku_fleet::{Change, Key};

use crate::clients::Clients;
use crate::egress::Egress;

/// The knowledge and the caches of this edge.
pub(super) struct Host {
    pub(super) clients: Arc<Clients>,
    pub(super) egress: Option<Arc<Egress>>,
    pub(super) caches: Caches,
}

impl hikyaku_fleet::Host for Host {
    fn changes(&self, max: usize) -> Vec<Change> {
        let mut changes = changes(self.clients.drain_shared(max), Key::path);
        let left = max.saturating_sub(changes.len());
        if let (Some(egress), 1..) = (&self.egress, left) {
            let mut routes = self::changes(egress.drain_shared(left), Key::route);
            changes.append(&mut routes);
        }
        changes
    }

    fn mark_all(&self) {
        self.clients.mark_all_shared();
        if let Some(egress) = &self.egress {
            egress.mark_all_shared();
        }
    }

    fn purge(&self, order: Option<&[u8]>) {
        let order = order.map(serde_json::from_slice::<Purge>).transpose();
        let caches = self.caches.clone();
        // It looks at all that is stored, also on disk.
        tokio::task::spawn_blocking(move || match order {
            Ok(None) => {
                caches.clear();
            }
            Ok(Some(purge)) => match caches.purge(&purge) {
                Ok(purged) => tracing::debug!("{purged} responses purged for the fleet: {purge:?}"),
                Err(error) => tracing::warn!("a purge of the fleet is left out: {error}"),
            },
            Err(error) => tracing::warn!("a purge of the fleet is left out: {error}"),
        });
    }
}

/// Contributions to prefixes, by their keys.
fn changes(drained: Vec<(Prefix, Box<[u8]>)>, key: fn(&str) -> Option<Key>) -> Vec<Change> {
    let change = |(prefix, payload): (Prefix, Box<[u8]>)| {
        Some(Change {
            key: key(&prefix.to_string())?,
            payload: payload.into(),
        })
    };
    drained.into_iter().filter_map(change).collect()
}
