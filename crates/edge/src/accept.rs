//! Waiting of acceptors while they can't accept: the process is out of descriptors, or of memory.

use std::io;
use std::time::Duration;

use crate::clock;
use crate::metrics::{Metrics, add};
use crate::seldom::Seldom;

/// Until accepting is tried again. Whoever connects meanwhile waits in the backlog.
const PAUSE: Duration = Duration::from_millis(100);

/// Failures of one acceptor.
#[derive(Debug)]
pub(crate) struct AcceptFailures {
    what: &'static str,
    reported: Seldom,
}

impl AcceptFailures {
    /// Of connections that are called `what`.
    pub(crate) fn of(what: &'static str) -> Self {
        Self {
            what,
            reported: Seldom::default(),
        }
    }

    /// Counts a failure, reports it if none was for a minute, and waits. A connection that died before
    /// it was accepted is none.
    pub(crate) async fn pause(&self, error: &io::Error, metrics: &Metrics) {
        if is_of_one_connection(error) {
            return;
        }
        add(&metrics.accept_failures, 1);
        if self.reported.is_due(clock::now()) {
            tracing::warn!(
                "accepting {} connections: {error}; they wait until others end",
                self.what
            );
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
