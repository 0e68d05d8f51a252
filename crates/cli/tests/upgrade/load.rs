//! Upgrades while clients send requests, down- and upload, and talk over a WebSocket.

use std::io::Write;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use hikyaku_testkit::client::block_on;
use hikyaku_testkit::upstream::{self, Speaks};
use hikyaku_testkit::{Site, noise};

use super::clients::{self, PAGE, Tally};
use super::support::{Upgradable, write_config};
use super::transfers::{self, BIG};

/// How much clients do.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// Clients of each version that send small requests.
    pub(crate) clients: usize,
    /// Between two requests of one of them.
    pub(crate) pause: Duration,
}

/// The site that they use.
pub(crate) struct Ground {
    pub(crate) upgradable: Upgradable,
    _state: tempfile::TempDir,
    _site: Site,
    _config: tempfile::NamedTempFile,
}

impl Ground {
    #[track_caller]
    pub(crate) fn start() -> Self {
        let site = Site::new(&[("index.html", PAGE), ("big.bin", &noise(BIG))]);
        let (echo, socket) = (
            upstream::start(Speaks::Http1),
            upstream::start(Speaks::WebSocket),
        );
        let config = tempfile::NamedTempFile::new().unwrap();
        let (echo, socket) = (echo.to_string(), socket.to_string());
        let state = tempfile::tempdir().unwrap();
        write_config(config.path(), site.path(), state.path(), &echo, &socket);
        let upgradable = Upgradable::start(&["--config", config.path().to_str().unwrap()]);
        Self {
            upgradable,
            _state: state,
            _site: site,
            _config: config,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.upgradable.server.address()
    }
}

/// The requests of each kind of client.
pub(crate) type Tallies = [(&'static str, Tally); KINDS];
const KINDS: usize = 11;

/// Has clients at work while `act` runs.
pub(crate) fn under_load(address: SocketAddr, load: Load, act: impl FnOnce()) -> Tallies {
    let tallies = [
        "HTTP/1.1",
        "HTTP/1.1 anew",
        "HTTP/2",
        "HTTP/3",
        "download of HTTP/1.1",
        "download of HTTP/2",
        "download of HTTP/3",
        "upload of HTTP/1.1",
        "upload of HTTP/2",
        "upload of HTTP/3",
        "WebSocket",
    ]
    .map(|name| (name, Tally::default()));
    let Load { clients, pause } = load;
    thread::scope(|scope| {
        for (name, tally) in &tallies {
            let (at, count) = (address, 0..clients);
            let work = move || match *name {
                "HTTP/1.1" => drop(block_on(join_all(
                    count.map(|_| clients::h1(at, tally, pause)),
                ))),
                "HTTP/1.1 anew" => block_on(clients::h1_anew(at, tally, pause)),
                "HTTP/2" => drop(block_on(join_all(
                    count.map(|_| clients::h2(at, tally, pause)),
                ))),
                "HTTP/3" => drop(block_on(join_all(
                    count.map(|_| clients::h3(at, tally, pause)),
                ))),
                "download of HTTP/1.1" => block_on(transfers::download_h1(at, tally)),
                "download of HTTP/2" => block_on(transfers::download_h2(at, tally)),
                "download of HTTP/3" => block_on(transfers::download_h3(at, tally)),
                "upload of HTTP/1.1" => block_on(transfers::upload_h1(at, tally)),
                "upload of HTTP/2" => block_on(transfers::upload_h2(at, tally)),
                "upload of HTTP/3" => block_on(transfers::upload_h3(at, tally)),
                _ => block_on(transfers::socket(at, tally)),
            };
            scope.spawn(work);
        }
        // Also where `act` panics.
        let _end = Finish(&tallies);
        act();
    });
    tallies
}

struct Finish<'a>(&'a Tallies);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|(_, tally)| tally.finish());
    }
}

/// Checks that every client was answered, and none has lost anything.
#[track_caller]
pub(crate) fn assert_nothing_lost(tallies: &Tallies, log: &str) {
    let lost: Vec<_> = tallies.iter().flat_map(|(_, tally)| tally.lost()).collect();
    assert!(lost.is_empty(), "{} lost: {lost:#?}\n{log}", lost.len());
    assert!(!log.contains("can't be written"), "{log}");
    for (name, tally) in tallies {
        assert!(tally.answered() > 0, "{name}");
    }
}

#[test]
fn no_request_is_lost() {
    let load = Load {
        clients: 2,
        pause: Duration::from_millis(10),
    };
    upgrade_under_load(4, load, Duration::from_millis(500));
}

#[test]
#[ignore = "long: 20 upgrades, each with transfers that go on for seconds"]
fn no_request_is_lost_over_twenty_upgrades() {
    // About 1,000 requests a second of each version, where the machine can do them.
    let load = Load {
        clients: 10,
        pause: Duration::from_millis(9),
    };
    upgrade_under_load(20, load, Duration::from_secs(1));
}

fn upgrade_under_load(upgrades: usize, load: Load, between: Duration) {
    let ground = Ground::start();
    let upgradable = &ground.upgradable;
    let begun = Instant::now();
    let tallies = under_load(ground.address(), load, || {
        for _ in 0..upgrades {
            thread::sleep(between);
            upgradable.replaced();
        }
        // Each kind of client meets the last process, too.
        let answered = "hikyaku_requests_total{version=\"h3\",status=\"2xx\"}";
        upgradable.server.wait_metric(answered, 1.0);
    });
    let took = begun.elapsed();
    assert_nothing_lost(&tallies, &upgradable.server.log());
    for (name, tally) in &tallies {
        let rate = tally.answered() as f64 / took.as_secs_f64();
        let (answered, connections) = (tally.answered(), tally.connections());
        let line =
            format!("{name}: {answered} answered, {rate:.0} a second, {connections} connections");
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    assert_eq!(upgradable.successors().len(), upgrades);
}
