//! The browser's view: pages that report their times, reports of connections that failed, and the decision
//! in `Server-Timing`. `docs/beacon.md` describes all of it.
//!
//! [`Beacons`] has the settings by site, which a reload replaces. [`Receiver`] outlives that: it knows the
//! ids that pages were given.

mod ids;
mod insert;
mod nel;
mod outcome;
mod page;
mod receive;
mod report;
mod script;
mod sites;
mod throttle;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::clients::Clients;
use crate::clock;
use crate::metrics::BeaconCounts;
use ids::Ids;
use throttle::Throttle;

pub(crate) use ids::{Chosen, Page};
pub(crate) use page::Visit;
pub(crate) use sites::{Beacon, Beacons, Point};

/// Takes reports, and knows the pages that they may be of.
#[derive(Debug)]
pub(crate) struct Receiver {
    ids: Ids,
    throttle: Throttle,
    counts: Arc<BeaconCounts>,
    clients: Arc<Clients>,
}

impl Receiver {
    pub(crate) fn new(clients: Arc<Clients>, counts: Arc<BeaconCounts>) -> Self {
        Self {
            ids: Ids::default(),
            throttle: Throttle::starting_at(clock::now()),
            counts,
            clients,
        }
    }

    fn metrics(&self) -> &BeaconCounts {
        &self.counts
    }

    fn hand_out(&self, page: Page) -> u64 {
        self.ids.hand_out(page, clock::now())
    }

    fn admits(&self, client: IpAddr, now: Instant) -> bool {
        self.throttle.admits(client, now)
    }
}

impl Beacon {
    /// Adds the fields of a response to a request with these fields. `decision` is asked for the value of
    /// `Server-Timing`; `is_https` is true where the client came by `https`.
    pub(crate) fn head(
        &self,
        is_visit: bool,
        is_https: bool,
        response: &mut HeaderMap,
        decision: impl FnOnce() -> String,
    ) {
        if self.config.server_timing
            && let Ok(value) = HeaderValue::try_from(decision())
        {
            response.append(SERVER_TIMING, value);
        }
        let is_own = response.contains_key(REPORT_TO) || response.contains_key(NEL);
        if let Some(nel) = &self.nel
            && is_visit
            && is_https
            && !is_own
        {
            response.insert(REPORT_TO, nel.report_to.clone());
            response.insert(NEL, nel.nel.clone());
        }
    }

    /// Whether a response to a request with these fields may ask for reports of failures.
    pub(crate) fn is_visit(request: &HeaderMap) -> bool {
        sites::is_visit(request)
    }
}

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");
const REPORT_TO: HeaderName = HeaderName::from_static("report-to");
const NEL: HeaderName = HeaderName::from_static("nel");
