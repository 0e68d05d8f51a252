//! The pump: one thread that carries packets between two TUN interfaces.

mod journal;
mod lines;
mod shared;
mod worker;

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hikyaku_netsim::{Change, LinkConfig};
use hikyaku_units::Timestamp;
use rustix::event::Timespec;
use rustix::thread::ClockId;
use rustix::time::clock_gettime;
use serde::{Deserialize, Serialize};

use super::error::LinkError;
use super::packet_log::PacketLog;
use super::report::{Report, Sample};
use super::tun::Tun;
use shared::{Command, Shared};
use worker::Worker;

/// Both directions of an emulated link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkPair {
    /// Direction from the first end to the second: client to server.
    pub up: LinkConfig,
    /// Direction from the second end to the first: server to client.
    pub down: LinkConfig,
}

impl LinkPair {
    /// Makes a link that is the same in both directions.
    pub fn symmetric(config: LinkConfig) -> Self {
        Self {
            up: config.clone(),
            down: config,
        }
    }
}

/// The links between the same two ends. A packet takes the link of its client's address, which is
/// the address at the first end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkSet {
    /// The link of clients that have none of their own.
    pub common: LinkPair,
    /// Links of single clients.
    pub own: Vec<(IpAddr, LinkPair)>,
}

/// All clients share one link.
impl From<LinkPair> for LinkSet {
    fn from(common: LinkPair) -> Self {
        Self {
            common,
            own: Vec::new(),
        }
    }
}

/// Changes of both directions of a link. Their times count from a start that is given when they
/// begin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChangePair {
    /// Changes of the direction from the first end to the second.
    pub up: Vec<Change>,
    /// Changes of the direction from the second end to the first.
    pub down: Vec<Change>,
}

/// A running pump; stops on drop.
#[derive(Debug)]
pub(super) struct Pump {
    shared: Arc<Shared>,
    commands: Sender<Command>,
    thread: Option<JoinHandle<io::Result<Report>>>,
}

/// The two interfaces that a pump joins.
#[derive(Debug)]
pub(super) struct Tuns {
    pub(super) a: Tun,
    pub(super) b: Tun,
}

impl Pump {
    /// Starts to carry packets; those that wait in the interfaces are dropped. With a path, a file
    /// there gets a line for each packet.
    pub(super) fn start(
        tuns: Arc<Tuns>,
        links: LinkSet,
        seed: u64,
        packet_log: Option<&Path>,
    ) -> Result<Self, LinkError> {
        let log = packet_log.map(|path| {
            PacketLog::create(path).map_err(|source| LinkError::PacketLog {
                path: path.to_owned(),
                source,
            })
        });
        let log = log.transpose()?;
        let start = || -> io::Result<Self> {
            // Before this returns, since it would drop the caller's first packets.
            let mut buffer = frame_buffer();
            for tun in [&tuns.a, &tuns.b] {
                while tun.read(&mut buffer)?.is_some() {}
            }
            let shared = Arc::new(Shared::new()?);
            let (commands, receiver) = std::sync::mpsc::channel();
            let seen = Arc::clone(&shared);
            let thread = thread::Builder::new()
                .name("link".to_owned())
                .spawn(move || Worker::new(&tuns, &links, seed, &seen, log)?.run(&receiver))?;
            Ok(Self {
                shared,
                commands,
                thread: Some(thread),
            })
        };
        start().map_err(LinkError::StartPump)
    }

    /// The state at the pump's last wake-up.
    pub(super) fn sample(&self) -> Sample {
        self.shared.sample()
    }

    /// Begins changes whose times count from now.
    pub(super) fn begin_changes(&self, changes: ChangePair) -> Result<(), LinkError> {
        let start = timestamp(clock(ClockId::Monotonic));
        self.command(Command::Change { start, changes })
            .map_err(LinkError::Pump)
    }

    /// Begins changes whose times count from the next TCP or UDP packet up.
    pub(super) fn begin_changes_at_first_packet(
        &self,
        changes: ChangePair,
    ) -> Result<(), LinkError> {
        self.command(Command::ChangeAfterFirstPacket(changes))
            .map_err(LinkError::Pump)
    }

    /// Stops and returns the report.
    pub(super) fn stop(mut self) -> Result<Report, LinkError> {
        self.join().map_err(LinkError::Pump)
    }

    fn command(&self, command: Command) -> io::Result<()> {
        let sent = self.commands.send(command);
        sent.map_err(|_| io::Error::other("the pump has ended by itself"))?;
        self.shared.wake()
    }

    fn join(&mut self) -> io::Result<Report> {
        let Some(thread) = self.thread.take() else {
            return Err(io::Error::other("stopped before"));
        };
        // It may have ended by itself; then its result has the reason.
        let _ = self.command(Command::Stop);
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        if self.thread.is_some() && !thread::panicking() {
            // The report is not wanted, so its error is not, either.
            let _ = self.join();
        }
    }
}

fn frame_buffer() -> Box<[u8]> {
    vec![0; Tun::MAX_FRAME].into()
}

fn clock(id: ClockId) -> Duration {
    // Neither clock runs before its zero.
    Duration::try_from(clock_gettime(id)).unwrap_or_default()
}

fn timestamp(since_boot: Duration) -> Timestamp {
    Timestamp::from_micros(u64::try_from(since_boot.as_micros()).unwrap_or(u64::MAX))
}

fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).unwrap_or(Timespec {
        tv_sec: i64::MAX,
        tv_nsec: 0,
    })
}
