//! Ctrl-C, SIGTERM and a closed terminal, so that namespaces and servers are removed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

use super::error::{Attempt, RunError};

/// Whether to stop, and with which exit status.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicU8>);

impl Stop {
    /// Set by the first SIGINT, SIGTERM or SIGHUP; a second one ends the process as usual.
    ///
    /// # Errors
    /// If the signals cannot be caught.
    pub(crate) fn on_signal() -> Result<Self, RunError> {
        let stop = Self::default();
        stop.watch()
            .attempt(|| "catching SIGINT, SIGTERM and SIGHUP".to_owned())?;
        Ok(stop)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.code() != 0
    }

    /// 128 and the signal's number, as shells give it; 1 after an error of ours; 0 as long as nothing
    /// is to stop.
    pub(crate) fn code(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    /// After an error.
    pub(crate) fn set(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    fn watch(&self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        // Registered before this returns: no signal finds the default action.
        let (mut interrupt, mut terminate, mut hangup) = {
            let _context = runtime.enter();
            (
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
                signal(SignalKind::hangup())?,
            )
        };
        let stop = self.clone();
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                let mut next = || {
                    runtime.block_on(async {
                        tokio::select! {
                            _ = interrupt.recv() => 130,
                            _ = terminate.recv() => 143,
                            _ = hangup.recv() => 129,
                        }
                    })
                };
                stop.0.store(next(), Ordering::Relaxed);
                // The impatient: what is left behind, `lab clean` removes.
                std::process::exit(next().into());
            })?;
        Ok(())
    }
}
