//! The paper's scenario 3: the client's provider announces the client to other transits, and the
//! content server's kernel follows.

use std::thread;
use std::time::{Duration, Instant};

use super::super::error::RunError;
use super::super::measured::Measured;
use super::bed::{Bed, Setup};
use super::daemon::{Family, Maker, Neighbour, Router, Vty};
use super::feed::{Feed, Session, Speaker};
use super::net::{Border, CLIENT, ISP_AS, OWN_AS, Peer, Shape};
use super::watch::{Watch, What};
use super::{MAIN, Place, Sessions, ms};
use crate::experiment::record::Outcome;

/// The shape of the paper's figure 7.
const SHAPE: Shape = Shape {
    borders: 2,
    transits: 1,
    isp: true,
};

/// The client's provider, which changes its announcement to the first transit.
#[derive(Debug)]
enum Isp {
    /// A router to each transit: a change adds or removes the route.
    GoBgp {
        first: Feed,
        #[allow(dead_code, reason = "announces while it lives")]
        second: Feed,
    },
    /// One router to both: a change is one of its prefix list.
    Frr(Vty),
}

/// Measures the sessions of a run, each of which takes the route away and brings it back. Returns
/// `None` if a signal to stop came first.
pub(super) fn measure(
    place: &Place<'_>,
    maker: Maker,
    sessions: &mut Sessions<'_>,
) -> Result<Option<()>, RunError> {
    let setup = Setup {
        shape: SHAPE,
        reflector: maker,
        best_paths: true,
        best_path_at_server: true,
    };
    let mut bed = Bed::start(setup, place)?;
    let Some(mut isp) = start_routers(&mut bed, maker)? else {
        return Ok(None);
    };
    let ready = bed.until("the client to be reached by both transits", |bed| {
        is_ready(bed)
    })?;
    if !ready {
        return Ok(None);
    }
    let watch = Watch::start(bed.node("server")?)?;
    while let Some(mut session) = sessions.next() {
        let mut measurement = Measurement {
            isp: &mut isp,
            watch: &watch,
            measured: &mut session.measured,
            limit: place.timeout,
        };
        for (name, on) in [("withdraw", false), ("add", true)] {
            // So that sessions meet the timers of daemons at different times.
            thread::sleep(session.pause);
            if bed.is_stopped() {
                return Ok(None);
            }
            measurement.change(name, on)?;
        }
        sessions.end(session);
    }
    Ok(Some(()))
}

/// Whether both transits reach the client, and the first is best.
fn is_ready(bed: &Bed) -> Result<bool, RunError> {
    let tables = SHAPE.peers().map(|peer| (peer.server_table(), None));
    let mut wanted = tables.chain([(MAIN, Some(Border(1)))]);
    wanted.try_fold(true, |all, (table, via)| {
        Ok(all && bed.has_route(table, CLIENT, via)?)
    })
}

/// Starts the routers outside of the AS.
fn start_routers(bed: &mut Bed, maker: Maker) -> Result<Option<Isp>, RunError> {
    if !bed.wait_for_reflector()? {
        return Ok(None);
    }
    if maker == Maker::Frr {
        bed.add("isp", &isp(), maker)?;
    }
    let feed = |bed: &Bed, peer: Peer| {
        let session = Session {
            local: peer.isp_address(),
            asn: ISP_AS,
            router_id: format!("203.0.113.{}", peer.number),
            neighbour: peer.inner_address(),
            neighbour_asn: peer.asn(),
        };
        bed.feed("isp", &session, Speaker::GoBgp)
    };
    let mut feeds = Vec::new();
    for peer in SHAPE.peers() {
        if maker == Maker::GoBgp {
            feeds.push(feed(bed, peer)?);
        }
        bed.add(&peer.node(), &transit(peer), maker)?;
    }
    for feed in &mut feeds {
        feed.execute("wait")?;
        feed.execute(&format!("announce {}/{}", CLIENT.0, CLIENT.1))?;
    }
    let mut feeds = feeds.into_iter();
    Ok(Some(match (feeds.next(), feeds.next()) {
        (Some(first), Some(second)) => Isp::GoBgp { first, second },
        _ => Isp::Frr(Vty::open(&bed.place("isp"), ISP_AS)?),
    }))
}

fn transit(peer: Peer) -> Router {
    let neighbour = |address, local, asn, passive| Neighbour {
        address,
        local,
        asn,
        families: &[Family::Unicast],
        passive,
    };
    Router {
        asn: peer.asn(),
        router_id: peer.router_id(),
        listen: vec![peer.address(), peer.inner_address()],
        neighbours: vec![
            neighbour(peer.border_address(), peer.address(), OWN_AS, true),
            neighbour(peer.isp_address(), peer.inner_address(), ISP_AS, false),
        ],
        networks: Vec::new(),
    }
}

fn isp() -> Router {
    let neighbour = |peer: Peer| Neighbour {
        address: peer.inner_address(),
        local: peer.isp_address(),
        asn: peer.asn(),
        families: &[Family::Unicast],
        passive: true,
    };
    Router {
        asn: ISP_AS,
        router_id: "203.0.113.1".to_owned(),
        listen: SHAPE.peers().map(Peer::isp_address).collect(),
        neighbours: SHAPE.peers().map(neighbour).collect(),
        networks: vec![format!("{}/{}", CLIENT.0, CLIENT.1)],
    }
}

impl Isp {
    /// Announces the client to the first transit, or withdraws it, and returns the time.
    fn announce(&mut self, on: bool) -> Result<Duration, RunError> {
        let prefix = format!("{}/{}", CLIENT.0, CLIENT.1);
        match self {
            Self::GoBgp { first, .. } => {
                let word = if on { "announce" } else { "withdraw" };
                Ok(first.execute(&format!("{word} {prefix}"))?.began)
            }
            Self::Frr(vty) => {
                let list = if on { "ALL" } else { "NONE" };
                let to = SHAPE.peers().next().map(Peer::inner_address);
                let to = to.map_or(String::new(), |address| address.to_string());
                vty.command(&format!("neighbor {to} prefix-list {list} out"))
            }
        }
    }
}

/// One change and its measurements.
struct Measurement<'a> {
    isp: &'a mut Isp,
    watch: &'a Watch,
    measured: &'a mut Measured,
    limit: Duration,
}

impl Measurement<'_> {
    fn change(&mut self, name: &str, on: bool) -> Result<(), RunError> {
        self.watch.forget();
        let began = self.isp.announce(on)?;
        let deadline = Instant::now() + self.limit;
        let (mut route, mut best) = (None, None);
        while route.is_none() || best.is_none() {
            let Some(change) = self.watch.next(deadline) else {
                let missing = if route.is_none() {
                    "the EPE route"
                } else {
                    "the best path"
                };
                let why = format!("{name}: {missing} did not follow within {:?}", self.limit);
                self.measured.fail(Outcome::TimedOut, why);
                return Ok(());
            };
            let at = change.at.saturating_sub(began);
            if is_route(on, change.table, change.what) {
                route.get_or_insert(at);
            }
            if change.table == MAIN && is_best(on, change.what) {
                best.get_or_insert(at);
            }
        }
        let [route, best] = [route, best].map(|at| ms(&at.unwrap_or_default()));
        self.measured.metric(&format!("epe_{name}_ms"), route);
        self.measured.metric(&format!("best_{name}_ms"), best);
        let excess = format!("{name}_excess_ms");
        self.measured.metric(&excess, route - best);
        Ok(())
    }
}

/// Whether the change is that of the first transit's EPE route.
fn is_route(on: bool, table: u32, what: What) -> bool {
    let first = SHAPE.peers().next().map(Peer::server_table);
    first == Some(table)
        && match what {
            What::Route { prefix, .. } => on && prefix == CLIENT,
            What::NoRoute { prefix } => !on && prefix == CLIENT,
            What::Rule | What::NoRule => false,
        }
}

/// Whether the best path is the expected one.
fn is_best(on: bool, what: What) -> bool {
    let border = if on { Border(1) } else { Border(2) };
    let want = What::Route {
        prefix: CLIENT,
        gateway: Some(border.address()),
    };
    what == want
}
