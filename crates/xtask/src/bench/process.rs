//! Child processes that never outlive the benchmark.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Set by Ctrl-C or SIGTERM. Waiting functions then return, and owners end their processes.
#[derive(Debug, Default)]
pub(super) struct Stop(AtomicBool);

impl Stop {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn check(&self) -> Result<()> {
        ensure!(!self.0.load(Ordering::Relaxed), "stopped by a signal");
        Ok(())
    }

    /// Sleeps. Returns early with an error if the benchmark is to stop.
    pub(super) fn sleep(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            self.check()?;
            thread::sleep(left.min(POLL));
        }
        self.check()
    }
}

/// On Ctrl-C and SIGTERM, ends processes and removes files in order.
pub(super) fn stop_on_signal() -> Result<Arc<Stop>> {
    use tokio::signal::unix::{SignalKind, signal};
    let stop = Arc::new(Stop::default());
    let stopped = Arc::clone(&stop);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    // Registered before this returns, so that no signal finds the default action.
    let (mut interrupt, mut terminate) = {
        let _context = runtime.enter();
        (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        )
    };
    thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        stopped.set();
    });
    Ok(stop)
}

/// Raises the limit of descriptors for this program and its children, as far as it may.
pub(super) fn raise_file_limit() {
    const WANTED: u64 = 100_000;
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: Some(WANTED),
        maximum: limit.maximum.map(|maximum| maximum.max(WANTED)),
    };
    let allowed = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if setrlimit(Resource::Nofile, all).is_err() {
        // A client or server that needs more says so.
        let _ = setrlimit(Resource::Nofile, allowed);
    }
}

/// A child process; ends with its owner.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    name: String,
    /// The file of its standard error.
    log: PathBuf,
}

const POLL: Duration = Duration::from_millis(10);

/// Time for an orderly end before the process is killed.
const GRACE: Duration = Duration::from_secs(5);

impl Process {
    /// Starts `command` on `cpus`, with its standard error in a file of `directory`.
    ///
    /// It gets its own process group, so that Ctrl-C on a terminal reaches the benchmark alone. The
    /// benchmark then ends its processes in order.
    pub(super) fn start(mut command: Command, cpus: &[usize], directory: &Path) -> Result<Self> {
        let name = Path::new(command.get_program())
            .file_name()
            .unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let log = directory.join(format!("{name}.stderr"));
        let file = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        command.stderr(file).process_group(0);
        let spawn = || command.spawn();
        let child = on_cpus(cpus, spawn)?.with_context(|| format!("starting {name}"))?;
        Ok(Self { child, name, log })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// # Errors
    /// If the process has ended.
    pub(super) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("{} ended with {status}: {}", self.name, self.last_words()),
            None => Ok(()),
        }
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.trim().lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let asked = match (self.child.try_wait(), pid) {
            (Ok(None), Some(pid)) => kill_process(pid, Signal::TERM).is_ok(),
            _ => false,
        };
        let end = Instant::now() + GRACE;
        while asked && Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(POLL);
        }
        // It may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls `spawn` on `cpus` alone, which the child inherits.
fn on_cpus<T>(cpus: &[usize], spawn: impl FnOnce() -> T) -> Result<T> {
    let before = sched_getaffinity(None).context("reading this program's CPUs")?;
    let mut chosen = CpuSet::new();
    for &cpu in cpus {
        chosen.set(cpu);
    }
    sched_setaffinity(None, &chosen).with_context(|| format!("choosing CPUs {cpus:?}"))?;
    let result = spawn();
    sched_setaffinity(None, &before).context("taking this program's CPUs again")?;
    Ok(result)
}

/// Runs `command` to its end on `cpu`, and returns its standard output.
pub(super) fn output(
    mut command: Command,
    cpu: usize,
    directory: &Path,
    stop: &Stop,
) -> Result<String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = Process::start(command, &[cpu], directory)?;
    let stdout = process.child.stdout.take();
    let mut stdout = stdout.context("it has no standard output")?;
    // A full pipe would halt the program.
    let reader = thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let status = loop {
        if let Some(status) = process.child.try_wait()? {
            break status;
        }
        stop.sleep(POLL)?;
    };
    let text = reader.join().ok().context("reading its output")??;
    ensure!(
        status.success(),
        "{} ended with {status}: {} {}",
        process.name,
        text.trim(),
        process.last_words()
    );
    Ok(text)
}
