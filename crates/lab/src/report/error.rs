//! Errors of making a report.

use std::io;
use std::path::PathBuf;

use super::figure::FigureError;
use crate::experiment::{RecordError, SpecError};

/// The reason why a report could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The directory has no experiment.
    #[error(
        "reading {}: a report is made from a directory that `hikyaku lab run` or `lab sim` wrote",
        path.display()
    )]
    Experiment {
        /// The missing file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The experiment's file is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The records are wrong.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// The records have no session.
    #[error("{} holds no session: run the experiment first", path.display())]
    Empty {
        /// The records.
        path: PathBuf,
    },
    /// A figure is wrong.
    #[error("in the experiment `{name}`")]
    Figure {
        /// Name of the experiment.
        name: String,
        /// The mistake.
        #[source]
        source: FigureError,
    },
    /// `--figures` is for one experiment.
    #[error("`--figures` is for a single directory, not for several")]
    FiguresOfSeveral,
    /// The page could not be written.
    #[error("writing {}", path.display())]
    Write {
        /// The page.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The command's own output could not be written.
    #[error("writing the output")]
    Output(#[source] io::Error),
}
