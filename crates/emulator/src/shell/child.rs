//! The command, and requests to end while it runs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::interrupt::{self, Interrupt};
use crate::link::owner;

/// Time that the command may take to end after SIGTERM or SIGHUP.
const PATIENCE: Duration = Duration::from_secs(2);

/// The process that a request ends: the command while it runs, before and after that this process.
pub(super) struct Child {
    running: Arc<Mutex<Option<Arc<OwnedFd>>>>,
}

impl Child {
    /// Takes over the requests to end.
    pub(super) fn prepare() -> io::Result<Self> {
        let running = Arc::new(Mutex::new(None));
        let child = Arc::clone(&running);
        interrupt::handle(move |interrupt| {
            let process: Option<Arc<OwnedFd>> = child.lock().clone();
            match process {
                Some(process) => pass_on(interrupt, &process),
                None => interrupt::end(interrupt.signal),
            }
        })?;
        Ok(Self { running })
    }

    /// Runs the command to its end; returns its exit status.
    pub(super) fn run(&self, command: &mut Command) -> io::Result<u8> {
        let mut child = {
            let mut running = self.running.lock();
            let _present = owner::hold();
            let child = command.spawn()?;
            let pid = Pid::from_child(&child);
            *running = Some(Arc::new(pidfd_open(pid, PidfdFlags::empty())?));
            child
        };
        let status = child.wait();
        *self.running.lock() = None;
        let status = status?;
        let code = status
            .code()
            .or_else(|| status.signal().map(|signal| 128 + signal));
        Ok(code
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(u8::MAX))
    }
}

fn pass_on(
    Interrupt {
        signal,
        from_terminal,
    }: Interrupt,
    process: &Arc<OwnedFd>,
) {
    // A signal fails only if the process has ended by itself.
    if signal == Signal::INT {
        // The terminal sends it to the command as well, and the command may stay.
        if !from_terminal {
            let _ = pidfd_send_signal(process.as_fd(), signal);
        }
        return;
    }
    let _ = pidfd_send_signal(process.as_fd(), signal);
    let process = Arc::clone(process);
    let kill = move || {
        thread::sleep(PATIENCE);
        let _ = pidfd_send_signal(process.as_fd(), Signal::KILL);
    };
    let _ = thread::Builder::new().name("kill".to_owned()).spawn(kill);
}
