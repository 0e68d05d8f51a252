//! Errors of running experiments.

use std::io;

use crate::experiment::{RecordError, SpecError};
use hikyaku_emulator::link::LinkError;

/// The reason why experiments could not be run. A failed session is a record instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An experiment cannot be used.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Records of an earlier run cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Options are inconsistent, or invalid for these experiments.
    #[error("{0}")]
    Arguments(String),
    /// A namespace or link failed, or the privileges for them are missing.
    #[error("measuring over emulated links")]
    Link(#[from] LinkError),
    /// The system refused an operation.
    #[error("{what}")]
    Io {
        /// The attempted operation.
        what: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A server could not be started or ended by itself.
    #[error("the server of arm `{arm}` {what}: {said}")]
    Server {
        /// The arm.
        arm: String,
        /// The problem.
        what: String,
        /// The end of its standard error.
        said: String,
    },
    /// Daemons or agents of a test bed did not come up, or ended by themselves.
    #[error("the test bed: {what}: {said}")]
    TestBed {
        /// The missing part.
        what: String,
        /// The end of the logs.
        said: String,
    },
    /// A client or server reported an impossible value.
    #[error("reading the report of {program}: {why}")]
    Report {
        /// The program.
        program: &'static str,
        /// The value.
        why: String,
    },
}

/// Adds the attempted operation to an error.
pub(crate) trait Attempt<T> {
    fn attempt(self, what: impl FnOnce() -> String) -> Result<T, RunError>;
}

impl<T> Attempt<T> for io::Result<T> {
    fn attempt(self, what: impl FnOnce() -> String) -> Result<T, RunError> {
        self.map_err(|source| RunError::Io {
            what: what(),
            source,
        })
    }
}
