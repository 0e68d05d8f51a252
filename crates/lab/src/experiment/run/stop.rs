//! Ctrl-C, SIGTERM and a closed terminal, so that namespaces and servers are removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::error::{Attempt, RunError};
use hikyaku_emulator::interrupt::{self, Interrupt};

/// Whether to stop, and with which exit status.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicU8>);

impl Stop {
    /// Returns a flag that the first SIGINT, SIGTERM or SIGHUP sets. With a second one the process
    /// cleans up, and ends at once.
    ///
    /// # Errors
    /// If the signals cannot be caught.
    pub(crate) fn on_signal() -> Result<Self, RunError> {
        let stop = Self::default();
        let asked = stop.clone();
        let handle = move |Interrupt { signal, .. }| {
            // Signals that can be caught have numbers below 65.
            let code = 128 + signal.as_raw() as u8;
            if asked.0.swap(code, Ordering::Relaxed) >= 128 {
                interrupt::end(signal);
            }
        };
        interrupt::handle(handle).attempt(|| "catching SIGINT, SIGTERM and SIGHUP".to_owned())?;
        Ok(stop)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.code() != 0
    }

    /// Returns 128 and the signal's number, as shells do; 1 after an error of ours; 0 without a
    /// stop.
    pub(crate) fn code(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    /// Stops after an error.
    pub(crate) fn set(&self) {
        self.0.store(1, Ordering::Relaxed);
    }
}
