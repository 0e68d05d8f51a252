//! Child processes that end with their owner.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::cpu_wait;
use super::error::{Attempt, RunError};
use hikyaku_emulator::link::Netns;

/// A program that runs in a namespace, killed on drop. Its standard error goes to a file.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    stderr: PathBuf,
}

impl Process {
    /// Starts a program, out of reach of a terminal's Ctrl-C.
    pub(super) fn start(
        netns: &Netns,
        command: &mut Command,
        stderr: &Path,
    ) -> Result<Self, RunError> {
        let log = File::create(stderr).attempt(|| format!("creating {}", stderr.display()))?;
        command.stdin(Stdio::null()).stderr(log).process_group(0);
        let program = command.get_program().to_owned();
        let child = netns
            .spawn(command)?
            .attempt(|| format!("starting {}", program.display()))?;
        Ok(Self {
            child,
            stderr: stderr.to_owned(),
        })
    }

    /// Returns its exit status, if it has ended.
    pub(super) fn ended(&mut self) -> io::Result<Option<std::process::ExitStatus>> {
        self.child.try_wait()
    }

    /// Sends it a signal.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), RunError> {
        kill_process(Pid::from_child(&self.child), signal)
            .map_err(io::Error::from)
            .attempt(|| format!("sending a signal to process {}", self.child.id()))
    }

    /// Kills it, and waits for its end.
    pub(super) fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Asks it to end, by SIGTERM. Returns whether it has ended within the `limit`.
    pub(super) fn end(&mut self, limit: Duration) -> Result<bool, RunError> {
        self.signal(Signal::TERM)?;
        let began = Instant::now();
        loop {
            let ended = self
                .ended()
                .attempt(|| "waiting for a program".to_owned())?;
            if ended.is_some() {
                return Ok(true);
            }
            if began.elapsed() > limit {
                return Ok(false);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Time that it has waited for a CPU.
    pub(super) fn waited(&self) -> Duration {
        cpu_wait::waited(self.child.id())
    }

    /// CPU time that it has used.
    pub(super) fn used(&self) -> Duration {
        cpu_wait::used(self.child.id())
    }

    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The end of its standard error.
    pub(super) fn said(&self) -> String {
        const LINES: usize = 5;
        let text = fs::read(&self.stderr).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.trim().lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("; ")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
