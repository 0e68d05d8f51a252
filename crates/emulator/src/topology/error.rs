//! What can be wrong with a description.

use std::io;
use std::path::PathBuf;

/// Why a topology could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// Neither a file nor a shipped topology.
    #[error("reading topology `{name}`: there is no such file, and shipped are only {shipped}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Names of the shipped ones.
        shipped: String,
    },
    /// The file could not be read.
    #[error("reading topology `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The text is not TOML, or a key or value is not one of a topology.
    #[error("reading topology `{name}`")]
    Parse {
        /// File or shipped name.
        name: String,
        /// Where, and what.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// The parts do not fit together.
    #[error("reading topology `{name}`")]
    Invalid {
        /// File or shipped name.
        name: String,
        /// Where, and what.
        #[source]
        source: SpecProblem,
    },
}

/// What does not fit in a description, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct SpecProblem {
    /// The part, as a path through the description: `links.bottleneck.a`.
    pub place: String,
    /// What is wrong with it.
    pub problem: String,
}
