//! Ctrl-C and SIGTERM, so that namespaces and servers are removed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

use super::error::{Attempt, RunError};

/// Whether to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Set by the first SIGINT or SIGTERM; a second one ends the process as usual.
    ///
    /// # Errors
    /// If the signals cannot be caught.
    pub(crate) fn on_signal() -> Result<Self, RunError> {
        let stop = Self::default();
        stop.watch()
            .attempt(|| "catching SIGINT and SIGTERM".to_owned())?;
        Ok(stop)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn watch(&self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        // Registered before this returns: no signal finds the default action.
        let (mut interrupt, mut terminate) = {
            let _context = runtime.enter();
            (
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
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
                        }
                    })
                };
                next();
                stop.set();
                // The impatient: what is left behind, `lab clean` removes.
                std::process::exit(next());
            })?;
        Ok(())
    }
}
