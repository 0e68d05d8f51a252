//! The model's file format and its checks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::ModelError;
use super::grid::{Axes, Grid};
use hikyaku_units::arm::{ARMS, Arm, Congestion, Version};

/// The format number that this release reads and writes.
pub const FORMAT: u32 = 1;

/// A model as it lies in its file. See `docs/model.md`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// [`FORMAT`].
    pub format: u32,
    /// A description of the measurement, for people.
    pub description: String,
    /// Where the numbers come from.
    pub source: Source,
    /// The grid.
    pub axes: AxesFile,
    /// Load times by arm, such as `h2-cubic`.
    pub arms: BTreeMap<String, ArmTable>,
}

/// Where a model's numbers come from: enough to make them again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// SHA-256 of the measured data, in hexadecimal digits.
    pub data_sha256: String,
    /// The command that fitted the model.
    pub command: String,
    /// The commit of hikyaku that was measured.
    pub commit: String,
    /// The day, as `2026-11-21`.
    pub date: String,
}

/// The points of the grid, each axis ascending. All quantities as the server measures them, not as the
/// lab configured them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxesFile {
    /// Smallest round-trip time in ms, from 0.
    pub rtt_ms: Vec<f64>,
    /// Lost share of the packets, from 0 to 1.
    pub loss: Vec<f64>,
    /// Delivery rate in Mbit/s (10^6 bit/s), above 0.
    pub rate_mbps: Vec<f64>,
    /// Response size in bytes, from 1.
    pub size_bytes: Vec<f64>,
}

/// One arm's measurements, a value for each point of the grid: `rtt_ms` changes slowest, then `loss`,
/// `rate_mbps`, and `size_bytes` fastest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArmTable {
    /// Load time in ms, above 0.
    pub load_ms: Vec<f64>,
    /// Its relative standard error as far as both versions do not share it, from 0.
    pub spread: Vec<f64>,
    /// Relative standard deviation of single responses around it, from 0.
    pub scatter: Vec<f64>,
}

impl ModelFile {
    pub(super) fn check(&self) -> Result<(Axes, [Option<Grid>; ARMS]), ModelError> {
        if self.format != FORMAT {
            return Err(ModelError::Format { found: self.format });
        }
        let axes = Axes::new(&self.axes)?;
        let mut grids = [const { None }; ARMS];
        for (name, table) in &self.arms {
            let unknown = |source| ModelError::UnknownArm {
                name: name.clone(),
                source,
            };
            let arm: Arm = name.parse().map_err(|error| unknown(Some(error)))?;
            if arm.version == Version::H1 {
                return Err(unknown(None));
            }
            grids[arm.index()] = Some(table.check(arm, axes.points())?);
        }
        self.check_pairs(&grids)?;
        Ok((axes, grids))
    }

    /// Versions are compared under any congestion control: each arm needs its counterpart.
    fn check_pairs(&self, grids: &[Option<Grid>; ARMS]) -> Result<(), ModelError> {
        let has = |arm: Arm| grids[arm.index()].is_some();
        let any = grids.iter().any(Option::is_some);
        for congestion in Congestion::ALL {
            let [h2, h3] = [Version::H2, Version::H3].map(|version| Arm::new(version, congestion));
            let needed = has(h2) || has(h3) || !any;
            if let Some(arm) = [h2, h3].into_iter().find(|&arm| needed && !has(arm)) {
                return Err(ModelError::MissingArm { arm });
            }
        }
        Ok(())
    }
}

impl ArmTable {
    fn check(&self, arm: Arm, expected: usize) -> Result<Grid, ModelError> {
        let fields = [
            ("load_ms", &self.load_ms),
            ("spread", &self.spread),
            ("scatter", &self.scatter),
        ];
        for (field, values) in fields {
            if values.len() != expected {
                let found = values.len();
                return Err(ModelError::Count {
                    arm,
                    field,
                    found,
                    expected,
                });
            }
        }
        let load = (
            &self.load_ms,
            "load_ms",
            1e-6..=1e9,
            "a time in ms from 1e-6 to 1e9",
        );
        let share = |values, field| (values, field, 0.0..=10.0, "a share from 0 to 10");
        let spread = share(&self.spread, "spread");
        let scatter = share(&self.scatter, "scatter");
        for (values, field, range, expected) in [load, spread, scatter] {
            if let Some(index) = values.iter().position(|value| !range.contains(value)) {
                let value = values[index];
                return Err(ModelError::Value {
                    arm,
                    field,
                    index,
                    value,
                    expected,
                });
            }
        }
        Ok(Grid::new(self))
    }
}
