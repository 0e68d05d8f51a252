//! What can keep experiments from being measured.

use std::io;

use crate::experiment::{RecordError, SpecError};
use hikyaku_emulator::link::LinkError;

/// Why experiments could not be run. A session that fails is a record instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An experiment cannot be used.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Records of an earlier run cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Options that make no sense together or for these experiments.
    #[error("{0}")]
    Arguments(String),
    /// A namespace or link failed, or the privileges for them are missing.
    #[error("measuring over emulated links")]
    Link(#[from] LinkError),
    /// The system refused something.
    #[error("{what}")]
    Io {
        /// What was attempted.
        what: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A server could not be started or ended by itself.
    #[error("the server of arm `{arm}` {what}: {said}")]
    Server {
        /// The arm.
        arm: String,
        /// What became of it.
        what: String,
        /// The end of what it wrote to standard error.
        said: String,
    },
    /// Daemons or agents of a test bed did not come up, or ended by themselves.
    #[error("the test bed: {what}: {said}")]
    TestBed {
        /// What is missing.
        what: String,
        /// The end of what was written to the logs.
        said: String,
    },
    /// A client or server reported something that it never should.
    #[error("reading what {program} reports: {why}")]
    Report {
        /// The program.
        program: &'static str,
        /// What was found.
        why: String,
    },
}

/// Says what was attempted.
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
