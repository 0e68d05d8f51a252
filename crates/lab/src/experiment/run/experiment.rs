//! An experiment that is being run.

use std::path::{Path, PathBuf};

use super::error::RunError;
use crate::experiment::axis::{Axis, Cell};
use crate::experiment::data::Data;
use crate::experiment::record::Conditions;
use crate::experiment::spec::{Arm, Spec};

/// An experiment with its records and the files that it serves.
#[derive(Debug)]
pub(super) struct Experiment {
    pub(super) name: String,
    pub(super) spec: Spec,
    pub(super) cells: Vec<Cell>,
    pub(super) conditions: Conditions,
    pub(super) data: Data,
    /// Where records go.
    pub(super) out: PathBuf,
    /// Directory that is served.
    pub(super) root: PathBuf,
    /// Arms to be run; all if empty.
    pub(super) arms: Vec<String>,
}

impl Experiment {
    /// Whether an arm was asked for.
    pub(super) fn is_wanted(&self, arm: &Arm) -> bool {
        self.arms.is_empty() || self.arms.contains(&arm.name)
    }

    /// What the server of an arm is set to in a cell, as `KEY=VALUE`.
    pub(super) fn settings(&self, cell: &Cell, arm: &Arm) -> Vec<String> {
        let mut settings = arm.set.clone();
        for (axis, key) in [
            (Axis::Congestion, "policy.congestion"),
            (Axis::MinCwnd, "policy.min_cwnd"),
        ] {
            if let Some(value) = cell.get(axis) {
                settings.insert(key.to_owned(), value.to_owned());
            }
        }
        settings
            .into_iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect()
    }

    /// Writes the files of all cells.
    pub(super) fn prepare(&self) -> Result<(), RunError> {
        self.spec.write_files(&self.cells, Path::new(&self.root))
    }
}
