//! The migration guides, proved: each original runs on its own server, and the migrated configuration
//! on hikyaku. Both get the same requests, and must give the same answers, but for what the guide
//! says.
#![allow(clippy::unwrap_used, reason = "tests")]

mod answer;
mod caddy;
mod compare;
mod nginx;
mod requests;
mod upstream;

use std::fs::{self, File};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, SystemTime};

use hikyaku_testkit::daemon::Daemon;
use hikyaku_testkit::machine::Machine;
use hikyaku_testkit::{Server, eventually};

/// The addresses of one of both servers.
#[derive(Clone, Copy)]
struct Addresses {
    https: SocketAddr,
    http: SocketAddr,
}

/// An original and what it became, on the same files and upstreams.
struct Pair {
    machine: Machine,
    _original: Daemon,
    theirs: Addresses,
    server: Server,
}

impl Pair {
    fn ours(&self) -> Addresses {
        Addresses {
            https: self.server.address(),
            http: self.server.cleartext[0],
        }
    }

    /// Sends all requests of a list to both. A difference has to be one that the list names, and the
    /// guide explains.
    #[track_caller]
    fn compare(&self, requests: &str, guide: &str) {
        compare::compare(&self.machine, [self.theirs, self.ours()], requests, guide);
    }

    /// Checks that both access logs have the path `logged`, and none of those `without`. `theirs` is the
    /// original's.
    #[track_caller]
    fn compare_logs(&self, theirs: &str, logged: &str, without: &[&str]) {
        let theirs = self.machine.path(&format!("log/{theirs}"));
        let original = || fs::read_to_string(&theirs).unwrap_or_default();
        let ours = || self.server.access_lines().join("\n");
        for (name, read) in [
            ("theirs", &original as &dyn Fn() -> String),
            ("ours", &ours),
        ] {
            let text = eventually(&format!("`{logged}` in {name}"), || {
                let text = read();
                text.contains(logged).then_some(text)
            });
            for path in without {
                assert!(!text.contains(path), "{path} in {name}: {text}");
            }
        }
    }
}

/// The time of all files: 2026-11-27 10:00:00 UTC.
const CHANGED: Duration = Duration::from_secs(1_795_773_600);

/// Makes a machine whose files are all of the same time.
fn machine(files: &[(&str, &[u8])]) -> Machine {
    let machine = Machine::new(files);
    for (name, _) in files {
        let file = File::options().append(true).open(machine.path(name));
        let changed = SystemTime::UNIX_EPOCH + CHANGED;
        file.unwrap().set_modified(changed).unwrap();
    }
    machine
}

/// An address on which nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().to_string()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}
