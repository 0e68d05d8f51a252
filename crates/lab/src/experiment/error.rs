//! What can be wrong with an experiment's file.

use std::io;
use std::path::PathBuf;

/// Why an experiment cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The file could not be read.
    #[error("reading the experiment {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Neither a shipped experiment nor a file.
    #[error(
        "there is no experiment `{name}`: `hikyaku lab list` shows those that there are, and a file's name ends in `.toml`"
    )]
    Unknown {
        /// As it was asked for.
        name: String,
    },
    /// A key or value is wrong; the text shows the line and what was expected.
    #[error("in the experiment `{name}`:\n{why}")]
    Parse {
        /// Name of the experiment.
        name: String,
        /// Line, caret and what was expected.
        why: String,
    },
    /// Keys that do not fit together, or a value that its axis does not take.
    #[error("in the experiment `{name}`: {place}: {why}")]
    Invalid {
        /// Name of the experiment.
        name: String,
        /// The key, as a path.
        place: String,
        /// What is wrong, and what to write instead.
        why: String,
    },
}

/// A place in the file and what is wrong there, before the file's name is known.
pub(super) type Fault = (String, String);

pub(super) fn fault(place: impl Into<String>, why: impl Into<String>) -> Fault {
    (place.into(), why.into())
}
