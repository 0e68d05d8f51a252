//! Pages whose browsers report their times.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use hikyaku_core::transport::Decision;
use hikyaku_units::arm::Arm;

use super::{Asked, Conn};
use crate::beacon::{Chosen, Page};

impl Conn {
    /// The page that answers a request which came at `asked_at`.
    pub(crate) fn page(&self, asked: &Asked, asked_at: Instant) -> Page {
        let decision = self.decision_for(asked);
        let measures = self.is_of_client() && self.through.measures_client();
        Page {
            client: asked
                .client
                .map_or_else(|| self.client(), |client| client.ip()),
            arm: Arm::new(self.peer.version, self.congestion()),
            chosen: Chosen {
                version: decision.version.name(),
                reason: decision.reason.code(),
                group: decision.group.name(),
            },
            asked: asked_at,
            // In an experiment with the route, load times say nothing of versions.
            is_of_client: measures && self.route.is_none(),
            switched: Arc::clone(self.pages.lock().get_or_insert_default()),
        }
    }

    /// The decision for a response, in the words of `Server-Timing` (W3C).
    pub(crate) fn server_timing(&self, asked: &Asked) -> String {
        let decision = self.decision_for(asked);
        format!(
            "hikyaku;desc=\"{} {}, {} by {}\"",
            self.peer.version.name(),
            self.congestion().name(),
            decision.version.name(),
            decision.reason.code()
        )
    }

    /// Takes note that pages so far were sent by two congestion controls.
    pub(super) fn spoil_pages(&self) {
        if let Some(switched) = self.pages.lock().take() {
            switched.store(true, Ordering::Relaxed);
        }
    }

    fn decision_for(&self, asked: &Asked) -> Decision {
        match asked.client {
            Some(client) => self.shared.clients.preview(client.ip(), self.server_name()),
            None => self.decision(),
        }
    }
}
