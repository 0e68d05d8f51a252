//! A soak: clients of every version for a while, and all events in a server's life. These are
//! reloads, new certificates, upstreams that restart, and kills. Nothing grows, nothing is lost.
//!
//! `HIKYAKU_SOAK` is its time in seconds. The default is about a minute.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod clients;
mod growth;
mod ledger;
mod seed;
mod side;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use hikyaku_testkit::upstream::{Speaks, Stoppable};
use hikyaku_testkit::{Server, Site, has};

use clients::Crowd;
use growth::{Idle, expect_no_growth};
use seed::Seed;
use side::{Event, Side};

/// The seconds before a crash of which measurements and access log lines may be lost.
const MAY_BE_LOST: Duration = Duration::from_secs(5);
/// The time for which an upstream is away.
const AWAY: Duration = Duration::from_millis(700);
/// The approximate time of a round and a life without their load.
const ROUND_OVERHEAD: Duration = Duration::from_secs(5);
const LIFE_OVERHEAD: Duration = Duration::from_secs(12);

#[test]
fn nothing_grows_and_nothing_is_lost() {
    if !has("nothing_grows_and_nothing_is_lost", "curl") {
        return;
    }
    let plan = Plan::of(std::env::var("HIKYAKU_SOAK").ok());
    println!("{plan:?}");
    let site = clients::site();
    let soak = Soak::new(&site);
    let mut servers = soak.start();
    let before = servers.each_ref().map(Idle::new);
    let mut events = soak.events();
    for life in 1..=plan.lives {
        soak.live(&servers, &before, &plan, &mut events, life);
        if life < plan.lives {
            servers = soak.killed_under_load(servers, u64::from(life));
        }
    }
    for mut server in servers {
        server.signal(Signal::TERM);
        assert!(server.wait_exit().success());
        assert!(
            server.log().contains("every request was answered"),
            "{}",
            server.log()
        );
    }
}

#[track_caller]
fn expect_no_panic(server: &Server) {
    let log = server.log();
    assert!(!log.contains("panicked at"), "{log}");
}

/// The division of the time: lives of the servers, with rounds of load and of rest.
#[derive(Debug)]
struct Plan {
    lives: u32,
    rounds: u32,
    load: Duration,
}

impl Plan {
    fn of(seconds: Option<String>) -> Self {
        let total = Duration::from_secs(seconds.map_or(60, |text| text.parse().unwrap()));
        let lives = (total.as_secs() / 600).clamp(2, 6) as u32;
        let life = (total / lives).saturating_sub(LIFE_OVERHEAD);
        let rounds = (life.as_secs() / 30).max(3) as u32;
        let load = (life / rounds).saturating_sub(ROUND_OVERHEAD);
        Self {
            lives,
            rounds,
            load: load.max(Duration::from_secs(3)),
        }
    }
}

/// A server of files and one of an upstream, and their clients.
struct Soak<'a> {
    sides: [Side; 2],
    crowd: Crowd<'a>,
    upstream: Mutex<Option<Stoppable>>,
}

impl<'a> Soak<'a> {
    fn new(site: &'a Site) -> Self {
        let upstream = Stoppable::start(([127, 0, 0, 1], 0).into(), Speaks::Http1);
        let passes_on = format!("upstream = \"http://{}\"", upstream.address);
        let sides = [
            Side::new("files", format!("root = {:?}", site.path())),
            Side::new("proxy", passes_on),
        ];
        Self {
            sides,
            crowd: Crowd::new(site),
            upstream: Mutex::new(Some(upstream)),
        }
    }

    fn start(&self) -> [Server; 2] {
        let servers = self.sides.each_ref().map(Side::start);
        // Requested files stay open, up to `files.cache_entries`.
        self.crowd.ask_for_every_file(&self.sides[0]);
        servers
    }

    /// All events in turn, in an order by the seed.
    fn events(&self) -> impl Iterator<Item = Event> + use<> {
        let mut order = Event::ALL;
        Seed::new(0).shuffle(&mut order);
        order.into_iter().cycle()
    }

    /// Runs the rounds of a life. After each, all answers are right and logged, and all else is
    /// freed.
    fn live(
        &self,
        servers: &[Server; 2],
        before: &[Idle; 2],
        plan: &Plan,
        events: &mut impl Iterator<Item = Event>,
        life: u32,
    ) {
        let mut idle = [Vec::new(), Vec::new()];
        for round in 1..=plan.rounds {
            self.round(servers, plan, events, u64::from(life * 1000 + round));
            for (at, (side, server)) in self.sides.iter().zip(servers).enumerate() {
                idle[at].push(before[at].again(server));
                side.ledger.expect_whole(side.name, server);
                side.ledger.expect_logged(server, Instant::now());
                expect_no_panic(server);
            }
        }
        for (side, idle) in self.sides.iter().zip(&idle) {
            println!("life {life}, {}: {}", side.name, side.ledger.summary());
            expect_no_growth(side.name, idle);
        }
    }

    /// Runs load, with events in it.
    fn round(
        &self,
        servers: &[Server; 2],
        plan: &Plan,
        events: &mut impl Iterator<Item = Event>,
        seed: u64,
    ) {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let _stop = StopAtEnd(&stop);
            scope.spawn(|| self.crowd.load(&self.sides, &stop, seed));
            let begun = Instant::now();
            let mut seed = Seed::new(seed);
            while begun.elapsed() < plan.load {
                thread::sleep(plan.load / 8 + seed.time(plan.load / 4));
                self.happens(servers, events.next().unwrap());
            }
        });
    }

    fn happens(&self, servers: &[Server; 2], event: Event) {
        println!("  {event:?}");
        if event == Event::UpstreamRestart {
            let _outage = self.sides[1].ledger.outage();
            let mut upstream = self.upstream.lock().unwrap();
            let address = upstream.take().unwrap().address;
            thread::sleep(AWAY);
            *upstream = Some(Stoppable::start(address, Speaks::Http1));
            return;
        }
        for (side, server) in self.sides.iter().zip(servers) {
            side.happens(server, event);
        }
    }

    /// Kills the servers while they answer, and starts them again while clients go on.
    fn killed_under_load(&self, servers: [Server; 2], life: u64) -> [Server; 2] {
        let known = servers.each_ref().map(|server| self.crowd.known(server));
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let _stop = StopAtEnd(&stop);
            scope.spawn(|| self.crowd.load(&self.sides, &stop, life));
            thread::sleep(MAY_BE_LOST + Duration::from_secs(2));
            let outages = self.sides.each_ref().map(|side| side.ledger.outage());
            let killed = Instant::now();
            for (side, mut server) in self.sides.iter().zip(servers) {
                server.signal(Signal::KILL);
                server.wait_exit();
                side.ledger.expect_logged(&server, killed - MAY_BE_LOST);
                side.ledger.forget();
            }
            let servers = self.start();
            drop(outages);
            println!("killed, and started again");
            for (server, known) in servers.iter().zip(known) {
                let now = self.crowd.known(server);
                assert!(known.is_subset(&now), "{known:?} were known, {now:?} are");
            }
            thread::sleep(Duration::from_secs(1));
            stop.store(true, Ordering::Relaxed);
            servers
        })
    }
}

/// Ends the load however its scope ends.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
