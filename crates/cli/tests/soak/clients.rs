//! Clients of every version: honest, slow, stalled, and those that leave.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::ledger::End;
use crate::seed::Seed;
use crate::side::Side;
use hikyaku_testkit::{Server, Site, binary, noise, plain_http};

/// The number of simultaneous clients, each with its own address.
const CLIENTS: u64 = 6;
/// Sizes of files and of uploads, in bytes.
const SIZES: [usize; 5] = [0, 700, 50_000, 1_000_000, 6_000_000];
/// Bytes per second of a slow client, at most.
const SLOW: &str = "400k";
/// The time for which a stalled client reads nothing.
const STALL: Duration = Duration::from_secs(1);
/// The length of a stall, on a busy machine, after which the server may have ended the connection.
const LONGEST_STALL: Duration = Duration::from_secs(2);

/// Files of every size.
pub(crate) fn site() -> Site {
    let site = Site::new(&[]);
    for size in SIZES {
        site.write(&format!("{size}.bin"), &noise(size));
    }
    site
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    H1,
    H2,
    H3,
}

#[derive(Clone, Copy, Debug)]
enum Manner {
    Plain,
    /// Reads a few hundred kB a second.
    Slow,
    /// Reads nothing for a while after this time.
    Stalled(Duration),
    /// Closes its connection after this time.
    Leaves(Duration),
    /// Is killed after this time.
    Dies(Duration),
}

/// All clients of the servers.
pub(crate) struct Crowd<'a> {
    site: &'a Site,
    directory: TempDir,
    requests: AtomicU64,
}

impl<'a> Crowd<'a> {
    pub(crate) fn new(site: &'a Site) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            site,
            directory,
            requests: AtomicU64::new(0),
        }
    }

    /// Requests each file once.
    pub(crate) fn ask_for_every_file(&self, files: &Side) {
        for size in SIZES {
            let id = self.requests.fetch_add(1, Ordering::Relaxed);
            self.plain(1, id, Version::H1, size).send(files);
        }
    }

    /// Makes requests of both servers until `stop`, and records the results in their ledgers.
    pub(crate) fn load(&self, sides: &[Side; 2], stop: &AtomicBool, seed: u64) {
        thread::scope(|scope| {
            for client in 1..=CLIENTS {
                scope.spawn(move || {
                    let mut seed = Seed::new(seed * 100 + client);
                    while !stop.load(Ordering::Relaxed) {
                        let id = self.requests.fetch_add(1, Ordering::Relaxed);
                        let side = &sides[seed.below(2)];
                        self.request(client, id, &mut seed).send(side);
                    }
                });
            }
        });
    }

    fn request(&self, client: u64, id: u64, seed: &mut Seed) -> Request {
        let soon = Duration::from_millis(150);
        let manner = match seed.below(12) {
            0 => Manner::Slow,
            1 => Manner::Stalled(seed.time(soon)),
            2 => Manner::Leaves(seed.time(soon)),
            3 => Manner::Dies(seed.time(soon)),
            _ => Manner::Plain,
        };
        let size = match manner {
            Manner::Plain => seed.one_of(&SIZES),
            Manner::Slow => 1_000_000,
            _ => 6_000_000,
        };
        let version = seed.one_of(&[Version::H1, Version::H2, Version::H3]);
        Request {
            manner,
            ..self.plain(client, id, version, size)
        }
    }

    fn plain(&self, client: u64, id: u64, version: Version, size: usize) -> Request {
        Request {
            id,
            version,
            manner: Manner::Plain,
            size,
            from: address(client),
            content: Path::new(self.site.path()).join(format!("{size}.bin")),
            into: self.directory.path().join(format!("{client}.out")),
        }
    }

    /// The clients of which the server has an estimate by their addresses.
    pub(crate) fn known(&self, server: &Server) -> BTreeSet<String> {
        let is_known = |client: &String| {
            let path = format!("/v1/clients/{client}");
            let (status, body) = plain_http(server.admin, "GET", &path, "", "");
            let own = serde_json::from_str::<Value>(&body).unwrap()["levels"][0].clone();
            status == 200 && own["key"] == **client && own["samples"].as_f64() > Some(0.0)
        };
        (1..=CLIENTS).map(address).filter(is_known).collect()
    }
}

fn address(client: u64) -> String {
    format!("127.0.9.{client}")
}

/// One request by a client program, on its own connection.
struct Request {
    id: u64,
    version: Version,
    manner: Manner,
    size: usize,
    from: String,
    /// The content that the answer must have; for an upstream, the upload that it returns.
    content: PathBuf,
    into: PathBuf,
}

impl Request {
    fn send(&self, side: &Side) {
        let _ = fs::remove_file(&self.into);
        let sent = Instant::now();
        let end = self.run(&mut self.command(side));
        let manner = match self.manner {
            Manner::Slow => " slowly",
            Manner::Stalled(_) => " with a stall",
            Manner::Plain | Manner::Leaves(_) | Manner::Dies(_) => "",
        };
        side.ledger.note(
            format!("{:?}{manner}", self.version),
            self.id,
            self.size,
            sent,
            end,
        );
    }

    fn command(&self, side: &Side) -> Command {
        let mut command = match self.version {
            Version::H1 => self.curl("--http1.1"),
            Version::H2 => self.curl("--http2"),
            Version::H3 => self.get(),
        };
        if side.echoes {
            let body = format!("@{}", self.content.display());
            let option = match self.version {
                Version::H3 => "--data",
                _ => "--data-binary",
            };
            command.args([option, &body]);
            command.args(["-H", "content-type: application/octet-stream"]);
            command.arg(side.url(&format!("/echo?soak={}", self.id)));
        } else {
            command.arg(side.url(&format!("/{}.bin?soak={}", self.size, self.id)));
        }
        command
    }

    fn curl(&self, version: &str) -> Command {
        let mut command = Command::new("curl");
        command.args([version, "--silent", "--show-error", "--fail", "--insecure"]);
        command
            .args(["--interface", &self.from, "--output"])
            .arg(&self.into);
        let time = match self.manner {
            Manner::Leaves(after) => after,
            _ => Duration::from_secs(120),
        };
        command.args([
            "--max-time",
            &format!("{:.3}", time.as_secs_f64().max(0.001)),
        ]);
        if matches!(self.manner, Manner::Slow) {
            command.args(["--limit-rate", SLOW]);
        }
        command
    }

    fn get(&self) -> Command {
        let mut command = Command::new(binary());
        command.args([
            "get",
            "--http",
            "3",
            "--fail",
            "--insecure",
            "--threads",
            "1",
            "--json",
        ]);
        command
            .args(["--local", &self.from, "--output"])
            .arg(&self.into);
        let time = match self.manner {
            Manner::Leaves(after) => after,
            _ => Duration::from_secs(120),
        };
        command.args(["--timeout", &format!("{}ms", time.as_millis().max(1))]);
        command
    }

    fn run(&self, command: &mut Command) -> End {
        let said = self.into.with_extension("said");
        let file = fs::File::create(&said).unwrap();
        command
            .stdin(Stdio::null())
            .stderr(file.try_clone().unwrap())
            .stdout(file);
        let mut client = Client(command.spawn().unwrap());
        let mut stalled = Duration::ZERO;
        match self.manner {
            Manner::Dies(after) => {
                thread::sleep(after);
                return End::GivenUp;
            }
            Manner::Stalled(after) => {
                thread::sleep(after);
                stalled = client.stall();
            }
            // `hikyaku get` has no limit of its rate.
            Manner::Slow if self.version == Version::H3 => {
                for _ in 0..5 {
                    thread::sleep(Duration::from_millis(20));
                    stalled = stalled.max(client.stall_for(STALL / 4));
                }
            }
            Manner::Plain | Manner::Slow | Manner::Leaves(_) => {}
        }
        let success = client.0.wait().unwrap().success();
        if matches!(self.manner, Manner::Leaves(_)) || stalled > LONGEST_STALL {
            return End::GivenUp;
        }
        let came = fs::read(&self.into).unwrap_or_default();
        let want = fs::read(&self.content).unwrap();
        if success && came == want {
            return End::Whole;
        }
        let (came, want) = (came.len(), want.len());
        let said = fs::read_to_string(said).unwrap();
        End::Lost(format!(
            "{came} of {want} bytes came, {:?}: {said}",
            self.manner
        ))
    }
}

/// A client program; killed when dropped.
struct Client(Child);

impl Client {
    fn stall(&self) -> Duration {
        self.stall_for(STALL)
    }

    /// Stops reading for a while. Returns how long it was.
    fn stall_for(&self, time: Duration) -> Duration {
        let begun = Instant::now();
        let process = Pid::from_child(&self.0);
        kill_process(process, Signal::STOP).unwrap();
        thread::sleep(time);
        kill_process(process, Signal::CONT).unwrap();
        begun.elapsed()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
