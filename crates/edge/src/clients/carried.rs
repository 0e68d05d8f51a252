//! Summaries that clients carry from server to server.

use std::net::IpAddr;

use hikyaku_core::client::estimate::{CARRIED_LEN, Estimate};

use super::Clients;
use crate::metrics::Summary;

impl Clients {
    /// Takes a summary that a client carries from another server, or from before.
    pub(crate) fn carry(&self, client: IpAddr, carried: &[u8]) -> Summary {
        let Ok(carried) = Estimate::carried(carried) else {
            return Summary::Unreadable;
        };
        let (now, rules) = (self.clock.now(), self.rules.load());
        if self.table(client, &rules).carry(client, now, &carried) {
            Summary::Used
        } else {
            Summary::Known
        }
    }

    /// The summary that a client is to carry to another server; `None` where nothing is known of its path. The
    /// one that it has just `brought` is carried on if it says more than is known here.
    pub(crate) fn to_carry(
        &self,
        client: IpAddr,
        brought: Option<&[u8]>,
    ) -> Option<[u8; CARRIED_LEN]> {
        let brought = brought.and_then(|brought| Estimate::carried(brought).ok());
        let (now, rules) = (self.clock.now(), self.rules.load());
        self.table(client, &rules).to_carry(client, now, brought)
    }
}
