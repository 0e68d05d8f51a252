//! Metrics of the process, under the names that Prometheus' client libraries give them, and its build.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use rustix::param::clock_ticks_per_second;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

static COMMIT: OnceLock<&str> = OnceLock::new();

/// Names the commit of the program's sources, for `hikyaku_build_info`. The first call counts.
pub fn set_commit(commit: &'static str) {
    let _ = COMMIT.set(commit);
}

/// Adds the build of the program.
pub(super) fn register_build(registry: &mut Registry) {
    let labels = vec![
        ("version", env!("CARGO_PKG_VERSION")),
        ("commit", COMMIT.get().copied().unwrap_or("unknown")),
    ];
    registry.register("build", "The program's build", Info::new(labels));
}

/// The state of the process, as far as the system reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Process {
    /// Seconds of all cores, in user and system mode.
    cpu: Option<f64>,
    /// Seconds since the Unix epoch.
    started: Option<f64>,
    virtual_bytes: Option<u64>,
    resident_bytes: Option<u64>,
    threads: Option<u64>,
    open_fds: Option<u64>,
    /// `None` where there is no limit, too.
    max_fds: Option<u64>,
    max_virtual_bytes: Option<u64>,
}

impl Process {
    /// Reads it from the system. Takes some microseconds, and longer before Linux 6.2, where it counts the
    /// descriptors one by one.
    pub(crate) fn read() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let status = read("/proc/self/status");
        let memory = |name| status_field(&status, name).map(|kibibytes| kibibytes * 1024);
        Self {
            cpu: Some(seconds_of_cpu()),
            started: started(&read("/proc/self/stat"), &read("/proc/stat")),
            virtual_bytes: memory("VmSize"),
            resident_bytes: memory("VmRSS"),
            threads: status_field(&status, "Threads"),
            open_fds: open_fds(Path::new("/proc/self/fd")),
            max_fds: getrlimit(Resource::Nofile).current,
            max_virtual_bytes: getrlimit(Resource::As).current,
        }
    }

    /// Adds it to a registry without a prefix.
    pub(crate) fn register(&self, registry: &mut Registry) {
        if let Some(cpu) = self.cpu {
            let counter = Counter::<f64, AtomicU64>::default();
            counter.inc_by(cpu);
            registry.register_with_unit(
                "process_cpu",
                "Total user and system CPU time spent in seconds",
                Unit::Seconds,
                counter,
            );
        }
        if let Some(started) = self.started {
            let gauge = Gauge::<f64, AtomicU64>::default();
            gauge.set(started);
            registry.register_with_unit(
                "process_start_time",
                "Start time of the process since the Unix epoch in seconds",
                Unit::Seconds,
                gauge,
            );
        }
        for (name, help, unit, value) in self.gauges() {
            let Some(value) = value else { continue };
            let gauge = Gauge::<i64>::default();
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            match unit {
                Some(unit) => registry.register_with_unit(name, help, unit, gauge),
                None => registry.register(name, help, gauge),
            }
        }
    }

    fn gauges(&self) -> [(&'static str, &'static str, Option<Unit>, Option<u64>); 6] {
        let bytes = || Some(Unit::Bytes);
        [
            (
                "process_resident_memory",
                "Resident memory size in bytes",
                bytes(),
                self.resident_bytes,
            ),
            (
                "process_virtual_memory",
                "Virtual memory size in bytes",
                bytes(),
                self.virtual_bytes,
            ),
            (
                "process_virtual_memory_max",
                "Maximum amount of virtual memory available in bytes",
                bytes(),
                self.max_virtual_bytes,
            ),
            (
                "process_open_fds",
                "Number of open file descriptors",
                None,
                self.open_fds,
            ),
            (
                "process_max_fds",
                "Maximum number of open file descriptors",
                None,
                self.max_fds,
            ),
            ("process_threads", "Number of threads", None, self.threads),
        ]
    }

    /// One with every figure, for tests.
    #[cfg(test)]
    pub(super) const fn example() -> Self {
        Self {
            cpu: Some(0.25),
            started: Some(1.5),
            virtual_bytes: Some(3),
            resident_bytes: Some(2),
            threads: Some(4),
            open_fds: Some(5),
            max_fds: Some(6),
            max_virtual_bytes: Some(7),
        }
    }
}

fn seconds_of_cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A number of `/proc/self/status`, without its unit.
fn status_field(status: &str, name: &str) -> Option<u64> {
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.split_whitespace().next()?.parse().ok()
}

/// The start in seconds since the epoch: field 22 of `/proc/self/stat`, in ticks since the system's start, which
/// is `btime` of `/proc/stat` (proc(5)).
fn started(own: &str, system: &str) -> Option<f64> {
    // The name of the program may have blanks and brackets; it is field 2.
    let (_, fields) = own.rsplit_once(')')?;
    let ticks: u64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    let mut lines = system.lines();
    let booted = lines.find_map(|line| line.strip_prefix("btime "))?;
    let booted: u64 = booted.trim().parse().ok()?;
    Some(booted as f64 + ticks as f64 / clock_ticks_per_second() as f64)
}

/// Open descriptors: since Linux 6.2 the size of the directory, before that its entries but for the one that is
/// open to read it.
fn open_fds(dir: &Path) -> Option<u64> {
    match fs::metadata(dir).ok()?.len() {
        0 => Some((fs::read_dir(dir).ok()?.count() as u64).saturating_sub(1)),
        count => Some(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_system_are_read() {
        let status = "Name:\thikyaku\nVmSize:\t  2048 kB\nVmRSS:\t 1024 kB\nThreads:\t7\n";
        assert_eq!(status_field(status, "VmSize"), Some(2048));
        assert_eq!(status_field(status, "Threads"), Some(7));
        assert_eq!(status_field(status, "Vm"), None);
        assert_eq!(status_field("", "Threads"), None);
        let ticks = clock_ticks_per_second() as f64;
        let own = "7 (a) b) (c) S 1 7 7 0 -1 4194304 1 0 0 0 1 2 0 0 20 0 4 0 250 4096 9";
        let begun = started(own, "cpu 1 2\nbtime 1000\nprocesses 5\n").unwrap();
        assert!((begun - (1000.0 + 250.0 / ticks)).abs() < 1e-9, "{begun}");
        // name, /proc/self/stat, /proc/stat
        let unreadable = [
            ("nothing", "", ""),
            ("no name", "7 8 9", "btime 1000\n"),
            ("too short", "7 (a) S 1", "btime 1000\n"),
            ("no start of the system", own, "cpu 1\n"),
        ];
        for (name, own, system) in unreadable {
            assert_eq!(started(own, system), None, "{name}");
        }
    }

    #[test]
    fn this_process_is_described() {
        let before = Process::read();
        let files: Vec<_> = (0..10)
            .map(|_| fs::File::open("/dev/null").unwrap())
            .collect();
        let process = Process::read();
        drop(files);
        assert!(process.open_fds >= Some(10), "{process:?}");
        assert!(process.cpu >= before.cpu);
        assert!(process.threads >= Some(1));
        assert!(process.resident_bytes > Some(100_000));
        assert!(process.virtual_bytes >= process.resident_bytes);
        let now = std::time::SystemTime::now();
        let now = now
            .duration_since(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
        let age = now.as_secs_f64() - process.started.unwrap();
        // `btime` is in whole seconds.
        assert!((-2.0..86_400.0).contains(&age), "{age}");
    }
}
