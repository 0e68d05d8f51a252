//! Errors of an experiment's file.

use std::io;
use std::path::PathBuf;

/// The reason why an experiment cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The file could not be read.
    #[error("reading the experiment {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The name is neither a shipped experiment nor a file.
    #[error(
        "there is no experiment `{name}`: `hikyaku lab list` shows those that there are, and a file's name ends in `.toml`"
    )]
    Unknown {
        /// The requested name.
        name: String,
    },
    /// A key or value is wrong. The text shows the line and the expected value.
    #[error("in the experiment `{name}`:\n{why}")]
    Parse {
        /// Name of the experiment.
        name: String,
        /// Line, caret and the expected value.
        why: String,
    },
    /// Keys are inconsistent, or an axis does not take a value.
    #[error("in the experiment `{name}`: {place}: {why}")]
    Invalid {
        /// Name of the experiment.
        name: String,
        /// The key, as a path.
        place: String,
        /// The mistake, and the correct form.
        why: String,
    },
}

/// A place in the file and its mistake, before the file's name is known.
pub(super) type Fault = (String, String);

pub(super) fn fault(place: impl Into<String>, why: impl Into<String>) -> Fault {
    (place.into(), why.into())
}
