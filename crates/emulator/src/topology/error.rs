//! Errors of descriptions.

use std::io;
use std::path::PathBuf;

/// The reason why a topology could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The name is neither a file nor a shipped topology.
    #[error(
        "reading topology `{name}`: no file has this name, and the shipped topologies are {shipped}"
    )]
    Unknown {
        /// The requested name.
        name: String,
        /// Names of the shipped topologies.
        shipped: String,
    },
    /// The file could not be read.
    #[error("reading topology `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The text is not TOML, or a key or value is not one of a topology.
    #[error("reading topology `{name}`")]
    Parse {
        /// File or shipped name.
        name: String,
        /// The position and the mistake.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// The parts are inconsistent.
    #[error("reading topology `{name}`")]
    Invalid {
        /// File or shipped name.
        name: String,
        /// The position and the mistake.
        #[source]
        source: SpecProblem,
    },
}

/// An inconsistency of a description, with its place and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct SpecProblem {
    /// The part, as a path through the description: `links.bottleneck.a`.
    pub place: String,
    /// The mistake.
    pub problem: String,
}
