//! Peers announce and withdraw overlapping prefixes at random, while the content server sends to
//! all of them by every route. The measurement counts packets to a peer that does not advertise
//! their prefix.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::thread;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::super::error::RunError;
use super::super::measured::Measured;
use super::bed::{Bed, Setup};
use super::daemon::Maker;
use super::feed::Feed;
use super::history::{Announcement, Fact, Times};
use super::net::{Peer, Shape};
use super::packets::{Arrival, Route, Sender, Sink};
use super::watch::{Change, Prefix, Watch, What};
use super::{MAIN, Place, Sessions, ms, quantile};

const SHAPE: Shape = Shape {
    borders: 2,
    transits: 2,
    isp: false,
};

/// Time between two changes.
const STEP: Duration = Duration::from_millis(4);
/// Time in which one packet goes by each route to each target.
const ROUND: Duration = Duration::from_millis(20);
/// Time after the last change until everything has followed.
const SETTLE: Duration = Duration::from_secs(2);

/// Measures the sessions of a run; `None` if a signal to stop came first.
pub(super) fn measure(
    place: &Place<'_>,
    maker: Maker,
    sessions: &mut Sessions<'_>,
) -> Result<Option<()>, RunError> {
    let setup = Setup {
        shape: SHAPE,
        reflector: maker,
        best_paths: true,
        best_path_at_server: false,
    };
    let duration = sessions.duration();
    let mut bed = Bed::start(setup, place)?;
    if !bed.wait_for_reflector()? {
        return Ok(None);
    }
    let peers: Vec<Peer> = SHAPE.peers().collect();
    let mut feeds = Vec::new();
    for peer in &peers {
        let mut feed = bed.feed_of(*peer)?;
        feed.execute("wait")?;
        feeds.push(feed);
    }
    while let Some(mut session) = sessions.next() {
        let mut fuzz = Fuzz::start(&bed, &peers, place.seed)?;
        if !fuzz.run(&bed, &mut feeds, duration)? {
            return Ok(None);
        }
        fuzz.end()?.measure(&mut session.measured);
        sessions.end(session);
    }
    Ok(Some(()))
}

/// Returns the prefixes, of three lengths that contain each other. No length is longer than a
/// border takes.
fn prefixes() -> Vec<Prefix> {
    let prefix = |second: u16, third: u16, length: u8| {
        (Ipv6Addr::new(0x3fff, second, third, 0, 0, 0, 0, 0), length)
    };
    let mut all = Vec::new();
    for second in [0x10, 0x11] {
        all.push(prefix(second, 0, 32));
        for third in [0x100, 0x200] {
            all.push(prefix(second, third, 40));
            all.extend((1..=3).map(|last| prefix(second, third + last, 48)));
        }
    }
    all
}

/// Returns an address for which this prefix is the longest.
fn target((address, length): Prefix) -> Ipv6Addr {
    // Beyond the addresses of the longer prefixes within it.
    let beyond = match length {
        32 => 0xff00_u128 << 80,
        40 => 0xff_u128 << 80,
        _ => 0,
    };
    Ipv6Addr::from_bits(address.to_bits() | beyond | 1)
}

fn covers((address, length): Prefix, target: Ipv6Addr) -> bool {
    (address.to_bits() ^ target.to_bits()) >> (128 - u32::from(length)) == 0
}

/// All parts that run at once.
struct Fuzz {
    peers: Vec<Peer>,
    prefixes: Vec<Prefix>,
    targets: Vec<Ipv6Addr>,
    routes: Vec<Route>,
    server: Watch,
    borders: Vec<Watch>,
    sinks: Vec<Sink>,
    sender: Sender,
    random: ChaCha8Rng,
    /// The announcements and withdrawals of each peer for each prefix.
    announcements: BTreeMap<(usize, usize), Vec<Announcement>>,
}

impl Fuzz {
    fn start(bed: &Bed, peers: &[Peer], seed: u64) -> Result<Self, RunError> {
        let prefixes = prefixes();
        let targets: Vec<Ipv6Addr> = prefixes.iter().copied().map(target).collect();
        let mut routes = vec![Route::Plain];
        routes.extend(peers.iter().map(|peer| Route::From(*peer)));
        routes.extend(peers.iter().map(|peer| Route::Marked(*peer)));
        let node = |name: &str| bed.node(name);
        let watch = |border: super::net::Border| Watch::start(node(&border.node())?);
        let borders = SHAPE.borders().map(watch).collect::<Result<_, _>>()?;
        let sink = |peer: &Peer| Sink::start(node(&peer.node())?);
        let sinks = peers.iter().map(sink).collect::<Result<_, _>>()?;
        Ok(Self {
            server: Watch::start(node("server")?)?,
            borders,
            sinks,
            sender: Sender::start(node("server")?, &routes, &targets, ROUND)?,
            peers: peers.to_vec(),
            prefixes,
            targets,
            routes,
            random: ChaCha8Rng::seed_from_u64(seed),
            announcements: BTreeMap::new(),
        })
    }

    /// Makes one change after another. Returns false if a signal to stop came first.
    fn run(&mut self, bed: &Bed, feeds: &mut [Feed], duration: Duration) -> Result<bool, RunError> {
        let began = Instant::now();
        let mut due = began;
        while began.elapsed() < duration {
            if bed.is_stopped() {
                return Ok(false);
            }
            self.change(feeds)?;
            due += STEP;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        // In the end no peer advertises anything, as the next session expects.
        for (peer, feed) in feeds.iter_mut().enumerate() {
            for prefix in 0..self.prefixes.len() {
                if self.is_announced(peer, prefix) {
                    self.say(feed, peer, prefix, false)?;
                }
            }
        }
        thread::sleep(SETTLE);
        Ok(true)
    }

    fn change(&mut self, feeds: &mut [Feed]) -> Result<(), RunError> {
        let mut below = |count: usize| self.random.next_u64() as usize % count;
        let (peer, prefix) = (below(feeds.len()), below(self.prefixes.len()));
        let announce = !self.is_announced(peer, prefix);
        self.say(&mut feeds[peer], peer, prefix, announce)
    }

    fn is_announced(&self, peer: usize, prefix: usize) -> bool {
        let announcements = self.announcements.get(&(peer, prefix));
        announcements
            .and_then(|all| all.last())
            .is_some_and(|last| last.announced)
    }

    fn say(
        &mut self,
        feed: &mut Feed,
        peer: usize,
        prefix: usize,
        announced: bool,
    ) -> Result<(), RunError> {
        let word = if announced { "announce" } else { "withdraw" };
        let (address, length) = self.prefixes[prefix];
        let at = feed.execute(&format!("{word} {address}/{length}"))?.began;
        let announcements = self.announcements.entry((peer, prefix)).or_default();
        announcements.push(Announcement { at, announced });
        Ok(())
    }

    fn end(self) -> Result<Outcome, RunError> {
        let sent = self.sender.sent();
        drop(self.sender);
        let watches = || self.borders.iter().chain([&self.server]);
        if watches().any(Watch::has_lost) {
            return Err(RunError::TestBed {
                what: "the kernel sent more notifications of routes than were read".to_owned(),
                said: "its buffer was full".to_owned(),
            });
        }
        Ok(Outcome {
            borders: self.borders.iter().map(Watch::take).collect(),
            server: self.server.take(),
            arrivals: self.sinks.into_iter().map(Sink::end).collect(),
            peers: self.peers,
            prefixes: self.prefixes,
            targets: self.targets,
            routes: self.routes,
            announcements: self.announcements,
            sent,
        })
    }
}

/// All observations.
struct Outcome {
    peers: Vec<Peer>,
    prefixes: Vec<Prefix>,
    targets: Vec<Ipv6Addr>,
    routes: Vec<Route>,
    announcements: BTreeMap<(usize, usize), Vec<Announcement>>,
    borders: Vec<Vec<Change>>,
    server: Vec<Change>,
    arrivals: Vec<Vec<Arrival>>,
    sent: u64,
}

impl Outcome {
    fn measure(&self, measured: &mut Measured) {
        let border = self.times(|peer, prefix| self.at_border(peer, prefix));
        let server = self.times(|peer, prefix| self.at_server(peer, prefix));
        let (mut wrong, mut late, mut strayed) = (0_u32, 0_u32, 0_u32);
        for (peer, arrivals) in self.arrivals.iter().enumerate() {
            for arrival in arrivals {
                wrong += u32::from(!self.is_right(&border, peer, arrival));
                if let Some(Route::From(of)) = self.routes.get(usize::from(arrival.route)) {
                    strayed += u32::from(*of != self.peers[peer]);
                    late += u32::from(!self.is_right(&server, peer, arrival));
                }
            }
        }
        let arrived: usize = self.arrivals.iter().map(Vec::len).sum();
        let announcements: usize = self.announcements.values().map(Vec::len).sum();
        measured.metric("changes", announcements as f64);
        measured.metric("packets_sent", self.sent as f64);
        measured.metric("packets_arrived", arrived as f64);
        measured.metric("wrong_peer", f64::from(wrong));
        measured.metric("wrong_after_server", f64::from(late));
        measured.metric("wrong_path", f64::from(strayed));
        let left = border.values().chain(server.values());
        let left = left.filter(|times| times.is_open).count();
        measured.metric("routes_left", left as f64);
        for (name, times) in [("border", border), ("server", server)] {
            let delays: Vec<f64> = times
                .values()
                .flat_map(|times| &times.delays)
                .map(ms)
                .collect();
            for (label, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
                let value = quantile(&delays, share);
                measured.metric(&format!("withdraw_{name}_{label}_ms"), value);
            }
        }
    }

    fn times(&self, facts: impl Fn(usize, usize) -> Vec<Fact>) -> BTreeMap<(usize, usize), Times> {
        let times =
            |key: &(usize, usize)| Times::new(&self.announcements[key], &facts(key.0, key.1));
        self.announcements
            .keys()
            .map(|key| (*key, times(key)))
            .collect()
    }

    /// Whether the peer advertised a prefix of the packet's target while it was on its way.
    fn is_right(
        &self,
        times: &BTreeMap<(usize, usize), Times>,
        peer: usize,
        arrival: &Arrival,
    ) -> bool {
        let target = self.targets[usize::from(arrival.target)];
        let covering = (0..self.prefixes.len()).filter(|i| covers(self.prefixes[*i], target));
        covering
            .filter_map(|prefix| times.get(&(peer, prefix)))
            .any(|times| times.allow(arrival.sent, arrival.read))
    }

    /// Returns the times when the peer's border had a route to it, in its table or as the best
    /// path.
    fn at_border(&self, peer: usize, prefix: usize) -> Vec<Fact> {
        let (peer, prefix) = (self.peers[peer], self.prefixes[prefix]);
        let changes = &self.borders[usize::from(peer.border.0) - 1];
        let (mut in_table, mut is_best) = (false, false);
        let mut facts = Vec::new();
        for change in changes {
            match change.what {
                What::Route { prefix: of, .. }
                    if of == prefix && change.table == peer.border_table() =>
                {
                    in_table = true;
                }
                What::NoRoute { prefix: of }
                    if of == prefix && change.table == peer.border_table() =>
                {
                    in_table = false;
                }
                What::Route {
                    prefix: of,
                    gateway,
                } if of == prefix && change.table == MAIN => {
                    is_best = gateway == Some(peer.address());
                }
                What::NoRoute { prefix: of } if of == prefix && change.table == MAIN => {
                    is_best = false;
                }
                _ => continue,
            }
            facts.push(Fact {
                at: change.at,
                has: in_table || is_best,
            });
        }
        facts
    }

    /// Returns the times when the server had the route in the path's table.
    fn at_server(&self, peer: usize, prefix: usize) -> Vec<Fact> {
        let (peer, prefix) = (self.peers[peer], self.prefixes[prefix]);
        let of_table = self
            .server
            .iter()
            .filter(|change| change.table == peer.server_table());
        let fact = |change: &Change| {
            let has = match change.what {
                What::Route { prefix: of, .. } if of == prefix => true,
                What::NoRoute { prefix: of } if of == prefix => false,
                _ => return None,
            };
            Some(Fact { at: change.at, has })
        };
        of_table.filter_map(fact).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_its_prefix_for_the_longest() {
        let prefixes = prefixes();
        for prefix in &prefixes {
            let target = target(*prefix);
            let covering = prefixes.iter().filter(|other| covers(**other, target));
            let longest = covering.max_by_key(|(_, length)| length);
            assert_eq!(longest, Some(prefix), "{target}");
        }
    }
}
