//! The resources of a server at rest.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_testkit::{PATIENCE, Server};

/// The memory in KiB by which the last third of a life may exceed the middle one. In a long life
/// the allocator's fragments differ by some MiB.
const NOISE: u64 = 8 * 1024;
/// The memory in KiB by which it may grow if a third has fewer than three rests. Buffers for files,
/// up to 16 MiB, are then still being made, as many as were ever in use at once.
const EARLY_NOISE: u64 = 24 * 1024;
/// The time in which descriptors and tasks of the start are seen.
const SETTLED: Duration = Duration::from_secs(2);

/// The resources of a server at rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle {
    descriptors: usize,
    tasks: usize,
    /// Anonymous memory in KiB.
    memory: u64,
}

impl Idle {
    /// Measures a server that has had no client yet.
    pub(crate) fn new(server: &Server) -> Self {
        let begun = Instant::now();
        let mut least = Self::now(server);
        while begun.elapsed() < SETTLED {
            thread::sleep(Duration::from_millis(100));
            let now = Self::now(server);
            least.descriptors = least.descriptors.min(now.descriptors);
            least.tasks = least.tasks.min(now.tasks);
        }
        least
    }

    /// Waits until the server holds no more than at first.
    #[track_caller]
    pub(crate) fn again(&self, server: &Server) -> Self {
        let begun = Instant::now();
        loop {
            let now = Self::now(server);
            if open(server) == 0 && now.descriptors <= self.descriptors && now.tasks <= self.tasks {
                return now;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{} connections are open; left is {now:?} after {self:?}: {:#?}",
                open(server),
                descriptors(server)
            );
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn now(server: &Server) -> Self {
        let tasks = server.metric("hikyaku_tasks") as usize;
        Self {
            descriptors: descriptors(server).len(),
            tasks,
            memory: server.memory() / 1024,
        }
    }
}

/// Fails if the last third of a life took more memory than the one before it.
#[track_caller]
pub(crate) fn expect_no_growth(name: &str, life: &[Idle]) {
    let mut memory: Vec<u64> = life.iter().map(|idle| idle.memory).collect();
    let last = life.last().unwrap();
    println!(
        "  {name} at rest: {} descriptors, {} tasks, memory in KiB {memory:?}",
        last.descriptors, last.tasks
    );
    let third = memory.len() / 3;
    let end = memory.len();
    let late = median(&mut memory[end - third..]);
    let middle = median(&mut memory[end - 2 * third..end - third]);
    let noise = if third < 3 { EARLY_NOISE } else { NOISE };
    assert!(
        late <= middle + noise,
        "{name} grew from {middle} to {late} KiB: {life:#?}"
    );
}

fn median(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// The number of client connections.
fn open(server: &Server) -> u64 {
    let of = |version| server.metric(&format!("hikyaku_connections{{version=\"{version}\"}}"));
    ["h1", "h2", "h3"].map(of).iter().sum::<f64>() as u64
}

/// The targets of the open descriptors.
fn descriptors(server: &Server) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
    let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.map(|link| link.display().to_string()).collect()
}
