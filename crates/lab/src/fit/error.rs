//! Errors of fitting a model.

use std::io;
use std::path::PathBuf;

use hikyaku_core::model::ModelError;

use crate::experiment::{RecordError, SpecError};

/// The reason why a model could not be fitted or checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// A file could not be read.
    #[error("reading {}: a directory of `hikyaku lab run` holds experiment.toml and runs.jsonl", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// An experiment's file is wrong.
    #[error("reading an experiment")]
    Spec(#[from] SpecError),
    /// An experiment's records could not be read.
    #[error("reading an experiment's records")]
    Record(#[from] RecordError),
    /// No record fits the model.
    #[error(
        "no usable record in {}{}: the model needs sessions of arms with policy.version pinned to h2 or h3, and their `response_ms`",
        list(directories),
        reasons(passed_over)
    )]
    NoData {
        /// The searched directories.
        directories: Vec<PathBuf>,
        /// The records found instead; may be empty.
        passed_over: String,
    },
    /// No arm has another one to compare with.
    #[error(
        "no response was measured by both versions over the same path, with the same size and congestion control (found: {found})"
    )]
    OneArm {
        /// The arms that were measured.
        found: String,
    },
    /// The model to check could not be opened.
    #[error("reading the model {}", path.display())]
    Open {
        /// File of the model.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The file to check is not a model.
    #[error("reading the model {}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// The mistake.
        #[source]
        source: ModelError,
    },
    /// The fit gave an invalid model.
    #[error("checking the fitted model")]
    Fitted(#[source] ModelError),
    /// A result could not be written.
    #[error("writing {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The table could not be printed.
    #[error("printing the check")]
    Print(#[source] io::Error),
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(", ")
}

fn reasons(passed_over: &str) -> String {
    match passed_over {
        "" => String::new(),
        reasons => format!(" ({reasons})"),
    }
}
