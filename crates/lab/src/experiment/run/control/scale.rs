//! Full tables from four peers. It measures their loading times and costs, the move away from a
//! lost peer's path, and the rate of changes that the agents follow.

mod churn;

use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::super::error::{Attempt, RunError};
use super::super::measured::Measured;
use super::bed::{Bed, Setup};
use super::clock;
use super::daemon::Maker;
use super::feed::{Done, Feed};
use super::net::{Peer, Shape};
use super::packets::{Route, Sender, Sink};
use super::watch::{Change, Watch, What};
use super::{Place, Sessions, ms};
use crate::experiment::spec::Control;
use churn::Latencies;

/// One border, which has all the work.
const SHAPE: Shape = Shape {
    borders: 1,
    transits: 4,
    isp: false,
};

/// First of the prefixes; all transits have the same.
const FIRST: Ipv6Addr = Ipv6Addr::new(0x3fff, 0x100, 0, 0, 0, 0, 0, 0);
/// Time between two packets on the path that is lost.
const GAP: Duration = Duration::from_micros(250);
/// Silence after which no more changes come.
const QUIET: Duration = Duration::from_secs(3);

/// Measures the sessions of a run, each in a network of its own. Returns `None` if a signal to stop
/// came first.
pub(super) fn measure(
    place: &Place<'_>,
    maker: Maker,
    control: &Control,
    sessions: &mut Sessions<'_>,
) -> Result<Option<()>, RunError> {
    let setup = Setup {
        shape: SHAPE,
        reflector: maker,
        best_paths: false,
        best_path_at_server: false,
    };
    while let Some(mut session) = sessions.next() {
        let bed = Bed::start(setup, place)?;
        let mut scale = Scale {
            bed,
            feeds: Vec::new(),
            control,
            measured: &mut session.measured,
            limit: place.timeout,
            log: place.directory.join("churn"),
        };
        let steps = [
            Scale::connect,
            Scale::load,
            Scale::lose_peer,
            Scale::take_back,
        ];
        for step in steps {
            if !step(&mut scale)? {
                return Ok(None);
            }
        }
        scale.churn(sessions.duration())?;
        drop(scale);
        sessions.end(session);
    }
    Ok(Some(()))
}

/// One session.
struct Scale<'a> {
    bed: Bed,
    feeds: Vec<Feed>,
    control: &'a Control,
    measured: &'a mut Measured,
    limit: Duration,
    log: PathBuf,
}

/// The peer that is lost.
fn lost() -> Peer {
    Peer {
        number: SHAPE.transits,
        border: super::net::Border(1),
        local: SHAPE.transits,
    }
}

impl Scale<'_> {
    /// Brings the sessions up. Like all steps it returns false if a signal to stop came first.
    fn connect(&mut self) -> Result<bool, RunError> {
        if !self.bed.wait_for_reflector()? {
            return Ok(false);
        }
        for peer in SHAPE.peers() {
            let mut feed = self.bed.feed_of(peer)?;
            feed.execute("wait")?;
            self.feeds.push(feed);
        }
        Ok(true)
    }

    /// All transits announce their tables at once.
    fn load(&mut self) -> Result<bool, RunError> {
        let slab = slab();
        let used = self.bed.used();
        let began = clock::now();
        self.announce()?;
        if !self.wait_for_all()? {
            return Ok(false);
        }
        let took = clock::now() - began;
        self.measured.metric("load_ms", ms(&took));
        for (name, time) in self.used_since(used) {
            self.measured
                .metric(&format!("load_{name}_cpu_ms"), ms(&time));
        }
        self.memory(slab);
        Ok(true)
    }

    fn announce(&mut self) -> Result<(), RunError> {
        let command = format!("load {FIRST}/48 {}", self.control.routes);
        for feed in &mut self.feeds {
            feed.begin(&command)?;
        }
        for feed in &mut self.feeds {
            feed.done()?;
        }
        Ok(())
    }

    /// Waits until the server's kernel has all routes of all paths.
    fn wait_for_all(&mut self) -> Result<bool, RunError> {
        let routes = u64::from(self.control.routes);
        let last = self.last();
        let tables: Vec<u32> = SHAPE.peers().map(Peer::server_table).collect();
        self.bed.until("all routes", |bed| {
            // The agent knows a route before its kernel does. The last route of a table means that
            // the whole table is installed.
            let reached = bed.reached()?.iter().all(|count| *count >= routes);
            tables.iter().try_fold(reached, |all, table| {
                Ok(all && bed.has_route(*table, last, None)?)
            })
        })
    }

    /// CPU time of each program since an earlier reading.
    fn used_since(
        &self,
        before: [Duration; 3],
    ) -> impl Iterator<Item = (&'static str, Duration)> + use<> {
        let used = self.bed.used().into_iter().zip(before);
        let used = used.map(|(now, before)| now.saturating_sub(before));
        ["reflector", "border", "server"].into_iter().zip(used)
    }

    /// The last prefix of each table.
    fn last(&self) -> (Ipv6Addr, u8) {
        let step = 1_u128 << 80;
        let bits = FIRST.to_bits() + step * u128::from(self.control.routes - 1);
        (bits.into(), 48)
    }

    fn memory(&mut self, slab_before: u64) {
        let border = self
            .bed
            .borders
            .iter_mut()
            .map(super::agent::Agent::memory)
            .next();
        let agents = [
            ("border", border.unwrap_or_default()),
            ("server", self.bed.server.memory()),
        ];
        let mut sum = 0;
        for (name, memory) in agents {
            self.measured
                .metric(&format!("{name}_memory_bytes"), memory.now as f64);
            self.measured
                .metric(&format!("{name}_memory_peak_bytes"), memory.peak as f64);
            sum += memory.now;
        }
        self.measured.metric("agents_memory_bytes", sum as f64);
        let kernel = slab().saturating_sub(slab_before);
        self.measured.metric("kernel_memory_bytes", kernel as f64);
    }

    /// Ends one transit without notice, while packets are sent to it.
    fn lose_peer(&mut self) -> Result<bool, RunError> {
        let lost = lost();
        let server = self.bed.node("server")?;
        let watch = Watch::start(server)?;
        let at_border = Watch::start(self.bed.node(&lost.border.node())?)?;
        let sink = Sink::start(self.bed.node(&lost.node())?)?;
        let target = Ipv6Addr::from_bits(FIRST.to_bits() | 1);
        let sender = Sender::start(server, &[Route::From(lost)], &[target], GAP)?;
        if !self
            .bed
            .until("a packet on the path", |_| Ok(sink.last().is_some()))?
        {
            return Ok(false);
        }
        let Some(feed) = self.feeds.last_mut() else {
            return Ok(false);
        };
        let began = feed.execute("close")?.began;
        let server = changes_of(&watch, lost.server_table(), self.limit);
        let border = changes_of(&at_border, lost.border_table(), self.limit);
        let is_route = |what| matches!(what, What::NoRoute { .. });
        let left = last_of(&server, |what| what == What::NoRule);
        let cleared = last_of(&server, is_route);
        let border = last_of(&border, is_route);
        let last = sink.last();
        drop(sender);
        for (name, at) in [
            ("last_packet_ms", last),
            ("left_ms", left),
            ("server_cleared_ms", cleared),
            ("border_cleared_ms", border),
        ] {
            if let Some(at) = at {
                self.measured.metric(name, ms(&at.saturating_sub(began)));
            }
        }
        Ok(true)
    }

    /// Brings the lost transit back.
    fn take_back(&mut self) -> Result<bool, RunError> {
        let Some(feed) = self.feeds.last_mut() else {
            return Ok(false);
        };
        let began = clock::now();
        feed.execute("open")?;
        feed.execute("wait")?;
        feed.execute(&format!("load {FIRST}/48 {}", self.control.routes))?;
        if !self.wait_for_all()? {
            return Ok(false);
        }
        let took = clock::now() - began;
        self.measured.metric("back_ms", ms(&took));
        Ok(true)
    }

    /// All transits withdraw and announce one route after the other.
    fn churn(&mut self, duration: Duration) -> Result<(), RunError> {
        let watch = Watch::start(self.bed.node("server")?)?;
        let used = self.bed.used();
        let began = Instant::now();
        let fed = self.change_routes(duration)?;
        let mut changes = Vec::new();
        while let Some(change) = watch.next(Instant::now() + QUIET) {
            changes.push(change);
        }
        let took = began.elapsed().saturating_sub(QUIET);
        for (name, time) in self.used_since(used) {
            let share = 100.0 * time.div_duration_f64(took);
            self.measured
                .metric(&format!("churn_{name}_cpu_percent"), share);
        }
        let mut latencies = Latencies::default();
        for (i, peer) in SHAPE.peers().enumerate() {
            let path = format!("{}-{i}", self.log.display());
            let log = std::fs::read_to_string(&path).attempt(|| format!("reading {path}"))?;
            latencies.add(&log, peer.server_table(), &changes);
        }
        latencies.measure(fed, self.measured);
        if watch.has_lost() {
            self.measured.label("watch", "lost");
        }
        Ok(())
    }

    /// Makes all transits change routes at the same time, and returns the time that this took.
    fn change_routes(&mut self, duration: Duration) -> Result<Duration, RunError> {
        let rate = self.control.updates / u32::from(SHAPE.transits);
        for (i, feed) in self.feeds.iter_mut().enumerate() {
            feed.begin(&format!(
                "churn {FIRST}/48 {} {rate} {}ms {}-{i}",
                self.control.routes,
                duration.as_millis(),
                self.log.display()
            ))?;
        }
        let done: Result<Vec<Done>, RunError> = self.feeds.iter_mut().map(Feed::done).collect();
        let times = done?.into_iter().map(|done| done.ended - done.began);
        Ok(times.max().unwrap_or_default())
    }
}

/// Returns the changes of a table until no more come; none if none begins within the limit.
fn changes_of(watch: &Watch, table: u32, limit: Duration) -> Vec<Change> {
    let end = Instant::now() + limit;
    let mut changes: Vec<Change> = Vec::new();
    loop {
        let quiet = Instant::now() + QUIET;
        let deadline = if changes.is_empty() { end } else { quiet };
        match watch.next(deadline.min(end)) {
            Some(change) if change.table == table => changes.push(change),
            Some(_) => {}
            None => return changes,
        }
    }
}

/// Returns the time of the last change that `is_it` accepts.
fn last_of(changes: &[Change], is_it: impl Fn(What) -> bool) -> Option<Duration> {
    let found = changes.iter().rev().find(|change| is_it(change.what));
    found.map(|change| change.at)
}

/// Returns the kernel's memory for its own objects, such as routes, in bytes.
fn slab() -> u64 {
    // Freed memory must not count.
    thread::sleep(Duration::from_millis(200));
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Slab:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}
