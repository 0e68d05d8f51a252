//! Child processes that never outlive the benchmark.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

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
    /// Starts `program` on one CPU, with its standard error in a file of `directory`.
    ///
    /// It gets its own process group, so that Ctrl-C on a terminal reaches the benchmark alone. The
    /// benchmark then ends its processes in order.
    pub(super) fn start(
        program: &Path,
        cpu: usize,
        directory: &Path,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Self> {
        let name = program.file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let log = directory.join(format!("{name}.stderr"));
        let file = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        // taskset replaces itself by the program, so that the process is the program's.
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu.to_string()]).arg(program);
        prepare(&mut command);
        let child = command
            .stderr(file)
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
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

/// Runs `program` on one CPU to its end and returns its standard output.
pub(super) fn output(
    program: &Path,
    cpu: usize,
    directory: &Path,
    arguments: &[String],
    stop: &Stop,
) -> Result<String> {
    let mut process = Process::start(program, cpu, directory, |command| {
        command.args(arguments).stdout(Stdio::piped());
    })?;
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
        "{} {} ended with {status}: {} {}",
        process.name,
        arguments.join(" "),
        text.trim(),
        process.last_words()
    );
    Ok(text)
}
