//! A connection's route out of the AS, for its meter.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use hikyaku_content::Peer;
use hikyaku_core::choice::Visit;
use hikyaku_core::egress::{RouteObservation, SubflowRtt};
use http::HeaderMap;

use super::Conn;
use crate::egress::{ConnRoute, Outstanding, SubflowEnds, Update};
use crate::events::{Event, RouteNews};
use crate::ledger::Ledger;
use crate::marked::Packets;
use crate::mptcp::Mptcp;
use crate::shared::Shared;
use crate::transport::{Flight, Stall};

/// The route of a new connection, where there are egress routes.
pub(super) fn open(
    shared: &Shared,
    peer: &Peer,
    mptcp: Mptcp,
    ledger: &Arc<Ledger>,
    visit: Visit,
) -> Option<Arc<ConnRoute>> {
    let egress = Arc::clone(shared.egress.as_ref()?);
    let ends = (peer.remote.ip().to_canonical(), peer.local);
    let meter: Arc<Ledger> = Arc::clone(ledger);
    Some(ConnRoute::open(egress, ends, mptcp, meter, visit))
}

impl Conn {
    /// The route of its packets, where there are egress routes.
    pub(crate) const fn route(&self) -> Option<&Arc<ConnRoute>> {
        self.route.as_ref()
    }

    /// Takes the packets that it sends, which follow its route.
    pub(crate) fn sends_by(&self, packets: &Arc<dyn Packets>) {
        // A connection has one meter.
        let _ = self.packets.set(Arc::downgrade(packets));
    }

    /// Takes note of a response to a request for `path`, before any of it is written. With another class
    /// of content already its first packets take another route: short responses are over when the meter
    /// looks.
    pub(crate) fn responds(
        &self,
        path: &str,
        headers: &HeaderMap,
        length: Option<u64>,
    ) -> Option<Outstanding> {
        let route = self.route.as_ref()?;
        let outstanding = route.begin(path, headers, length);
        if route.is_outdated()
            && let Some(packets) = self.packets.get().and_then(Weak::upgrade)
        {
            packets.set_mark(self.mark());
        }
        Some(outstanding)
    }

    /// The name of that route.
    pub(crate) fn route_name(&self) -> Option<String> {
        self.route.as_ref().map(|route| route.names().0)
    }

    /// Whether its meter is to watch for [`Stall`]s: there is another egress route to go to.
    pub(crate) fn has_other_paths(&self) -> bool {
        self.route.as_ref().is_some_and(|route| route.has_others())
    }

    /// The mark that its packets shall bear, by which the kernel chooses their egress route; 0 for the plain
    /// route. Its meter asks when it looks at the transport, and after [`Conn::stalled`].
    pub(crate) fn mark(&self) -> u32 {
        let Some(route) = &self.route else {
            return 0;
        };
        if route.is_outdated() {
            self.reroute(route);
        }
        route.mark()
    }

    /// A number that moves on when its packets take another egress route. A load that was under way at
    /// the move says nothing of either route.
    pub(crate) fn route_changes(&self) -> u64 {
        self.route.as_ref().map_or(0, |route| route.changes())
    }

    /// The packets under way, with the route that carries them.
    pub(crate) fn of_path(&self, flight: Flight) -> Flight {
        let on = |route: &Arc<ConnRoute>| flight.on(route.mark(), route.changes() > 0);
        self.route.as_ref().map_or(flight, on)
    }

    /// Learns what responses have shown `during` this time of the route that they took.
    pub(crate) fn observe_route(&self, seen: &RouteObservation, during: &Range<Instant>) {
        if let Some(route) = &self.route {
            route.learn(seen, self.choice.load().experiments.ran(during));
        }
    }

    /// Its egress route carries nothing, as it seems. Returns whether it shall take another one, which
    /// [`Conn::mark`] gives: its meter then makes the transport send over that at once.
    ///
    /// Noticed again if the new egress route, too, stays silent.
    pub(crate) fn stalled(&self, stall: &Stall) -> bool {
        let Some(route) = &self.route else {
            return false;
        };
        let blame = route.stalled();
        let update = self.reroute(route);
        tracing::debug!(client = %self.client(), ?stall, ?blame, ?update, "the path is silent");
        update.moved
    }

    /// The subflows of MPTCP, of which the class of content may want others to carry its data.
    pub(crate) fn see_subflows(&self, subflows: &[(SubflowRtt, SubflowEnds)]) {
        if let Some(route) = &self.route {
            route.see_subflows(subflows);
        }
    }

    /// A subflow of MPTCP that is sent from `local` carries nothing, as it seems. The agent takes
    /// its egress route from the connection, where there are others.
    pub(crate) fn subflow_stalled(&self, local: IpAddr, stall: &Stall) -> bool {
        let Some(route) = &self.route else {
            return false;
        };
        let blame = route.subflow_stalled(local);
        let update = self.reroute(route);
        tracing::debug!(
            client = %self.client(), %local, ?stall, ?blame, ?update,
            "the path of a subflow is silent"
        );
        update.moved
    }

    /// Acknowledgements come again after a [`Stall`], `silent` after the last one before it; after a
    /// false alarm they show that the egress route delivers.
    pub(crate) fn resumed(&self, silent: Duration, false_alarm: bool) {
        if let Some(route) = &self.route {
            route.resumed(silent, false_alarm);
            tracing::debug!(client = %self.client(), ?silent, false_alarm, "the path answers again");
        }
    }

    /// The egress route that was last left because of a [`Stall`] delivers.
    pub(crate) fn delivered(&self) {
        if let Some(route) = &self.route {
            route.delivered();
            tracing::debug!(client = %self.client(), "the path that was left delivers");
        }
    }

    /// Acknowledgements come again of a subflow of MPTCP that is sent from `local`.
    pub(crate) fn subflow_resumed(&self, local: IpAddr, silent: Duration) {
        if let Some(route) = &self.route {
            route.subflow_resumed(local, silent);
        }
    }

    fn reroute(&self, route: &ConnRoute) -> Update {
        let update = route.update(self.decision().visit());
        if update.is_news
            && let Some(egress) = &self.shared.egress
        {
            let decision = update.decided.decision;
            self.shared.events.send(|| {
                Event::route(&RouteNews {
                    client: self.client(),
                    port: self.peer.remote.port(),
                    route: egress.name(update.route),
                    moved: update.moved,
                    reason: decision.reason.code(),
                    explanation: egress.sentence(decision),
                })
            });
        }
        update
    }
}
