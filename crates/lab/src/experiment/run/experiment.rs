//! A running experiment.

use std::path::{Path, PathBuf};

use super::error::RunError;
use super::server::Kind;
use crate::experiment::axis::{Axis, Cell};
use crate::experiment::data::Data;
use crate::experiment::record::{Conditions, Links};
use crate::experiment::spec::{Arm, Server, Spec};

/// An experiment with its records and served files.
#[derive(Debug)]
pub(super) struct Experiment {
    pub(super) name: String,
    pub(super) spec: Spec,
    pub(super) cells: Vec<Cell>,
    pub(super) conditions: Conditions,
    pub(super) data: Data,
    /// Directory of the records.
    pub(super) out: PathBuf,
    /// The served directory.
    pub(super) root: PathBuf,
    /// Arms to run.
    pub(super) arms: Vec<String>,
    /// Arms that cannot be run here, with the reasons.
    pub(super) left_out: Vec<String>,
}

impl Experiment {
    /// Returns the server of an arm in a cell.
    pub(super) fn server(&self, cell: &Cell, arm: &Arm) -> Kind {
        let congestion = cell.get(Axis::Congestion).or(arm.congestion.as_deref());
        let congestion = congestion.unwrap_or("cubic");
        let hikyaku = arm.server == Server::Hikyaku;
        Kind {
            program: arm.server,
            settings: if hikyaku {
                settings(cell, arm)
            } else {
                Vec::new()
            },
            config: arm.config.clone(),
            shards: arm.shards,
            root: self.root.clone(),
            tcp: if hikyaku { "cubic" } else { congestion }.to_owned(),
            learns: self.spec.learns(arm),
            upstream: None,
        }
    }

    /// Returns the link of a cell.
    pub(super) fn links(&self, cell: &Cell) -> Result<Links, RunError> {
        self.spec.links(cell).map_err(RunError::Arguments)
    }

    /// Writes the files of all cells.
    pub(super) fn prepare(&self) -> Result<(), RunError> {
        self.spec.write_files(&self.cells, Path::new(&self.root))
    }
}

impl Experiment {
    pub(super) fn introduction(&self) -> String {
        let Self {
            name, out, cells, ..
        } = self;
        let arms = self.arms.len();
        let mut text = format!(
            "{name}: {} cells, {arms} arms, records in {}",
            cells.len(),
            out.display()
        );
        let foreign = self.data.foreign();
        if foreign > 0 {
            text += &format!(
                "; {foreign} records there are of another binary, experiment or seed and stay as they are"
            );
        }
        text
    }

    pub(super) fn conclusion(&self) -> String {
        let tally = self.data.tally();
        let mut text = format!("{}: {} sessions complete", self.name, tally.complete);
        for (count, what) in [
            (tally.timed_out, "timed out"),
            (tally.failed, "failed"),
            (tally.disturbed, "disturbed in every attempt"),
        ] {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        if tally.failed_before > 0 {
            text += &format!("; failed, then repeated: {}", tally.failed_before);
        }
        text + &format!(
            "; see them with `hikyaku lab report {}`",
            self.out.display()
        )
    }
}

/// Returns the settings of hikyaku's server for an arm in a cell, as `KEY=VALUE`.
pub(super) fn settings(cell: &Cell, arm: &Arm) -> Vec<String> {
    let mut settings = arm.set.clone();
    for (axis, key) in [
        (Axis::Congestion, "policy.congestion"),
        (Axis::MinCwnd, "policy.min_cwnd"),
    ] {
        if let Some(value) = cell.get(axis) {
            settings.insert(key.to_owned(), value.to_owned());
        }
    }
    let settings = settings.into_iter();
    settings
        .map(|(key, value)| format!("{key}={value}"))
        .collect()
}
