//! Looks at many clients at once, for the admin API.

use std::net::IpAddr;
use std::time::Duration;

use hikyaku_core::client::estimate::Estimate;
use hikyaku_core::client::key::Key;
use hikyaku_core::client::view::ClientView;
use hikyaku_core::transport::{Decision, Plane, gains};
use hikyaku_units::arm::Version;

use super::pins::Pin;
use super::{Clients, Known};

/// A client as the decision for it sees it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) view: ClientView,
    pub(crate) decision: Decision,
    /// The share of an ordinary server's load time that this saves; `None` where that can't be said.
    pub(crate) saves: Option<f32>,
}

impl Clients {
    /// The decision that a client would get now, and what it is made from.
    pub(crate) fn look(&self, client: IpAddr) -> Seen {
        let now = self.clock.now();
        let rules = self.rules.load();
        let policy = self.pins.over(client, rules.policies.server(), now);
        let view = self.knowledge(client, &rules).view(now, &policy);
        let decision = rules.decide(&view, &policy, now);
        let saves = view
            .min_rtt
            .and_then(|min_rtt| decision.saves(min_rtt, policy.plain.arm()));
        Seen {
            view,
            decision,
            saves,
        }
    }

    /// The newest addresses, about `max` at most, in no order, and the number of all addresses. Each stripe
    /// gives its share, so that no more are held at once.
    pub(crate) fn newest(&self, max: usize) -> (Vec<Known>, usize) {
        let total = self.len().max(1);
        let part = (max as f64 / total as f64).min(1.0);
        let (mut newest, mut all) = (Vec::new(), 0);
        for stripe in &self.stripes {
            let mut own: Vec<Known> = stripe.lock().iter().filter_map(known).collect();
            all += own.len();
            let share = (own.len() as f64 * part).ceil() as usize;
            if own.len() > share {
                own.select_nth_unstable_by_key(share, |known| std::cmp::Reverse(known.last_seen));
                own.truncate(share);
            }
            newest.append(&mut own);
        }
        (newest, all)
    }

    /// The knowledge of an address alone, as of its last observation.
    pub(crate) fn own(&self, client: IpAddr) -> Option<Estimate> {
        let rules = self.rules.load();
        self.table(client, &rules).knowledge(client).own
    }

    /// The gain of HTTP/3 over a plane of paths, as decisions reckon it.
    pub(crate) fn gains(&self, plane: &Plane<'_>) -> Vec<Vec<Option<f32>>> {
        let rules = self.rules.load();
        gains(
            plane,
            &rules.model,
            rules.policies.server(),
            &rules.available,
        )
    }

    /// The response size that clients of which none is known are compared for.
    pub(crate) fn typical_size(&self) -> hikyaku_units::ByteSize {
        self.rules.load().policies.server().typical_size
    }

    /// Pins a client to a version for a time. Returns `false`, and does not, where too many are.
    pub(crate) fn pin(&self, client: IpAddr, version: Version, time: Duration) -> bool {
        let now = self.clock.now();
        let until = now.saturating_add(time);
        let is_pinned = self.pins.set(client, Pin { version, until }, now);
        self.changed(client);
        is_pinned
    }

    /// Ends a client's pin. Returns whether it had one.
    pub(crate) fn unpin(&self, client: IpAddr) -> bool {
        let was = self.pins.remove(client);
        self.changed(client);
        was
    }

    /// The version that a client is pinned to, and for how long still.
    pub(crate) fn pinned(&self, client: IpAddr) -> Option<(Version, Duration)> {
        let now = self.clock.now();
        let pin = self.pins.of(client, now)?;
        Some((pin.version, pin.until.since(now)))
    }
}

fn known((key, estimate): (Key, Estimate)) -> Option<Known> {
    match key {
        Key::Address(address) => Some(Known {
            address,
            last_seen: estimate.last_seen(),
        }),
        Key::Prefix(_) => None,
    }
}
