//! `GET /v1/clients`: the clients, sorted and filtered here, so that no browser gets them all.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::str::FromStr;

use hikyaku_core::choice::Group;
use hikyaku_core::client::key::Key;
use hikyaku_units::Rate;
use hikyaku_units::arm::{Transport, Version};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

use super::query::Query;
use super::{json, problem};
use crate::clients::{Known, Seen};
use crate::shared::Shared;
use hikyaku_content::Body;

/// Most clients of one listing.
const MAX_LISTED: usize = 1000;
/// Most clients, the newest, that are looked at for one answer: some 0.3 s of one core.
pub(super) const MAX_LOOKED: usize = 100_000;
/// Carries the number of clients that the filters let through.
const MATCHING: &str = "hikyaku-matching";
/// Carries the number of all clients.
const KNOWN: &str = "hikyaku-known";

/// A client in a listing.
#[derive(Debug, Serialize)]
struct Listed {
    address: Key,
    /// Seconds since something was last seen of it.
    age_s: Option<u64>,
    version: &'static str,
    /// Congestion control of that version.
    congestion: &'static str,
    reason: String,
    reason_code: &'static str,
    group: &'static str,
    samples: f32,
    min_rtt_us: Option<u64>,
    /// Share of the packets that TCP loses.
    loss: Option<f64>,
    rate_bps: Option<u64>,
    /// The share of an ordinary server's load time that the decision saves.
    saves: Option<f32>,
}

impl Listed {
    fn of(known: &Known, shared: &Shared) -> Self {
        let seen = shared.clients.look(known.address);
        let Seen {
            view,
            decision,
            saves,
        } = &seen;
        let now = shared.clock.now();
        Self {
            address: Key::address(known.address),
            age_s: known.last_seen.map(|seen| now.since(seen).as_secs()),
            version: decision.version.name(),
            congestion: decision.arm().congestion.name(),
            reason: decision.to_string(),
            reason_code: decision.reason.code(),
            group: decision.group.name(),
            samples: view.samples,
            min_rtt_us: view.min_rtt.map(|rtt| rtt.as_micros() as u64),
            loss: loss(&seen),
            rate_bps: view.rate.map(Rate::bits_per_sec),
            saves: *saves,
        }
    }
}

/// The share of the packets that TCP loses.
pub(super) fn loss(seen: &Seen) -> Option<f64> {
    let bounds = seen.view.loss[Transport::Tcp.index()]?;
    Some(bounds.mean.fraction())
}

/// The order of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    /// The newest first.
    Seen,
    /// The largest first.
    Saves,
    Rtt,
    Loss,
    Rate,
    Samples,
}

impl FromStr for Sort {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "seen" => Ok(Self::Seen),
            "saves" => Ok(Self::Saves),
            "rtt" => Ok(Self::Rtt),
            "loss" => Ok(Self::Loss),
            "rate" => Ok(Self::Rate),
            "samples" => Ok(Self::Samples),
            _ => Err("expected seen, saves, rtt, loss, rate or samples"),
        }
    }
}

impl Sort {
    /// The figure to sort by; clients without one come last, in either direction.
    fn figure(self, known: &Known, seen: &Seen) -> Option<f64> {
        match self {
            Self::Seen => known.last_seen.map(|seen| seen.as_micros() as f64),
            Self::Saves => seen.saves.map(f64::from),
            Self::Rtt => seen.view.min_rtt.map(|rtt| rtt.as_secs_f64()),
            Self::Loss => loss(seen),
            Self::Rate => seen.view.rate.map(|rate| rate.bits_per_sec() as f64),
            Self::Samples => Some(f64::from(seen.view.samples)),
        }
    }
}

/// The clients that are asked for.
#[derive(Debug)]
struct Wanted {
    limit: usize,
    sort: Sort,
    ascending: bool,
    version: Option<Version>,
    group: Option<String>,
    /// The beginning of the address.
    address: Option<String>,
}

impl Wanted {
    fn read(query: Option<&str>) -> Result<Self, String> {
        let keys = ["limit", "sort", "order", "version", "group", "address"];
        let query = Query::read(query, &keys)?;
        let version = match query.text("version") {
            None => None,
            Some("h1") => Some(Version::H1),
            Some("h2") => Some(Version::H2),
            Some("h3") => Some(Version::H3),
            Some(other) => return Err(format!("`version={other}`: expected h1, h2 or h3")),
        };
        let ascending = match query.text("order") {
            None | Some("descending") => false,
            Some("ascending") => true,
            Some(other) => {
                return Err(format!("`order={other}`: expected ascending or descending"));
            }
        };
        Ok(Self {
            limit: query.value("limit")?.unwrap_or(100).min(MAX_LISTED),
            sort: query.value("sort")?.unwrap_or(Sort::Seen),
            ascending,
            version,
            group: query.text("group").map(str::to_owned),
            address: query.text("address").map(str::to_owned),
        })
    }

    /// Whether the newest clients are the answer.
    fn is_plain(&self) -> bool {
        let is_filtered = self.version.is_some() || self.group.is_some() || self.address.is_some();
        self.sort == Sort::Seen && !self.ascending && !is_filtered
    }

    fn takes_address(&self, address: IpAddr) -> bool {
        let begin = self.address.as_deref();
        begin.is_none_or(|begin| address.to_string().starts_with(begin))
    }

    fn takes(&self, seen: &Seen) -> bool {
        let is_group = |group: &String| Group::name(seen.decision.group) == group;
        self.version
            .is_none_or(|version| seen.decision.version == version)
            && self.group.as_ref().is_none_or(is_group)
    }
}

/// Lists the clients that are asked for.
pub(super) fn list(query: Option<&str>, shared: &Shared) -> Response<Body> {
    let wanted = match Wanted::read(query) {
        Ok(wanted) => wanted,
        Err(why) => return problem(StatusCode::BAD_REQUEST, &why),
    };
    let clients = &shared.clients;
    let (listed, matching, known) = match wanted.is_plain() {
        true => {
            let newest = clients.recent(wanted.limit);
            let listed = newest.iter().map(|known| Listed::of(known, shared));
            (listed.collect(), None, clients.len())
        }
        false => {
            let (listed, matching, known) = sorted(&wanted, shared);
            (listed, Some(matching), known)
        }
    };
    let listed: Vec<Listed> = listed;
    let mut response = json(&listed);
    let headers = response.headers_mut();
    if let Some(matching) = matching {
        headers.insert(MATCHING, HeaderValue::from(matching));
    }
    headers.insert(KNOWN, HeaderValue::from(known));
    response
}

fn sorted(wanted: &Wanted, shared: &Shared) -> (Vec<Listed>, usize, usize) {
    let (newest, known) = shared.clients.newest(MAX_LOOKED);
    let mut taken: Vec<(Option<f64>, Known)> = Vec::new();
    for known in newest {
        if !wanted.takes_address(known.address) {
            continue;
        }
        let seen = shared.clients.look(known.address);
        if wanted.takes(&seen) {
            taken.push((wanted.sort.figure(&known, &seen), known));
        }
    }
    let direction = if wanted.ascending { 1.0 } else { -1.0 };
    let place = |figure: Option<f64>| figure.map_or(f64::INFINITY, |figure| figure * direction);
    taken.sort_by(|(a, x), (b, y)| {
        let by_figure = place(*a).total_cmp(&place(*b));
        by_figure.then_with(|| Reverse(x.last_seen).cmp(&Reverse(y.last_seen)))
    });
    let matching = taken.len();
    taken.truncate(wanted.limit);
    let listed = taken.iter().map(|(_, known)| Listed::of(known, shared));
    (listed.collect(), matching, known)
}
