//! Why there is no model.

use std::io;
use std::path::PathBuf;

use hikyaku_core::model::ModelError;

use crate::experiment::{RecordError, SpecError};

/// Why a model could not be fitted or checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// A file could not be read.
    #[error("reading {}: a directory of `hikyaku lab run` holds experiment.toml and runs.jsonl", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// An experiment's file is wrong.
    #[error("reading an experiment")]
    Spec(#[from] SpecError),
    /// An experiment's records could not be read.
    #[error("reading an experiment's records")]
    Record(#[from] RecordError),
    /// No record tells anything of the model.
    #[error(
        "no usable record in {}{}: the model needs sessions of arms with policy.version pinned to h2 or h3, and their `response_ms`",
        list(directories),
        reasons(passed_over)
    )]
    NoData {
        /// Where they were looked for.
        directories: Vec<PathBuf>,
        /// What was there instead; may be empty.
        passed_over: String,
    },
    /// There is nothing to compare an arm with.
    #[error(
        "no response was measured by both versions over the same path, with the same size and congestion control (found: {found})"
    )]
    OneArm {
        /// The arms that were measured.
        found: String,
    },
    /// The model that is to be checked could not be opened.
    #[error("reading the model {}", path.display())]
    Open {
        /// Its file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The model that is to be checked is none.
    #[error("reading the model {}", path.display())]
    Model {
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: ModelError,
    },
    /// What was fitted is no valid model.
    #[error("checking the fitted model")]
    Fitted(#[source] ModelError),
    /// A result could not be written.
    #[error("writing {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
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
