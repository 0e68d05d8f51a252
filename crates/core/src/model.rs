//! How long a response takes by each arm, as measured on a grid of paths and interpolated between.
//!
//! The file format is described in `docs/model.md` and by [`ModelFile`]. A load time is that of one
//! response alone on a fresh but established connection, from the request's arrival until its last byte
//! is acknowledged: the quantity that [`Outcome`](crate::client::sample::Outcome)s report. Handshakes are left
//! out, because a browser that is handed over connects in the background and waits for nothing.
//!
//! Between grid points the logarithm of the load time is interpolated linearly in coordinates in which
//! it is nearly straight: logarithms of rate and size, `ln(rtt + 1 ms)` and `ln(loss + 0.0001)`, which
//! hold 0. Outside of the grid RTT, loss and rate are taken to its edge at a loss of certainty; a
//! response beyond the largest size goes on at the marginal rate of the last two sizes.

mod error;
mod file;
mod grid;

use std::time::Duration;

use grid::{Axes, Grid, Place, Spot};
use hikyaku_units::arm::{ARMS, Arm, Congestion};
use hikyaku_units::{LossRate, Rate};

pub use error::{AxisProblem, ModelError};
pub use file::{ArmTable, AxesFile, FORMAT, ModelFile, Source};
pub use grid::{loss_coordinate, rtt_coordinate};

/// A fitted model. Made by [`Model::from_json`] or [`Model::new`].
#[derive(Debug, Clone)]
pub struct Model {
    file: ModelFile,
    axes: Axes,
    /// By [`Arm::index`].
    grids: [Option<Grid>; ARMS],
}

/// What a response is expected to take by one arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// From the request's arrival until the last byte is acknowledged.
    pub load_time: Duration,
    /// Relative standard error of `load_time`: that of the measurement, and more outside of the grid.
    pub rel_sd: f32,
}

impl Model {
    /// Checks a model and prepares it for prediction.
    ///
    /// # Errors
    /// When the file is of another format, or its axes and tables do not fit together.
    pub fn new(file: ModelFile) -> Result<Self, ModelError> {
        let (axes, grids) = file.check()?;
        Ok(Self { file, axes, grids })
    }

    /// Reads a model from JSON.
    ///
    /// # Errors
    /// When it is not JSON of the documented structure, or [`Model::new`] refuses it.
    pub fn from_json(json: &str) -> Result<Self, ModelError> {
        Self::new(serde_json::from_str(json).map_err(ModelError::Json)?)
    }

    /// The model as JSON; [`Model::from_json`] reads it back.
    #[must_use]
    pub fn to_json(&self) -> String {
        // A checked file holds only finite numbers and text, which JSON can always hold.
        serde_json::to_string(&self.file).unwrap_or_default()
    }

    /// What the model was made from.
    #[must_use]
    pub const fn file(&self) -> &ModelFile {
        &self.file
    }

    /// Whether the arm was measured.
    #[must_use]
    pub fn has(&self, arm: Arm) -> bool {
        self.grids[arm.index()].is_some()
    }

    /// Expected load time of `size` bytes; `None` when the model lacks the arm. For a floor that it lacks
    /// the faster of CUBIC and BBR stands in.
    ///
    /// `loss` is what the arm's own transport measures, where that is known. Takes 16 look-ups at most
    /// and allocates nothing.
    #[must_use]
    pub fn predict(
        &self,
        arm: Arm,
        min_rtt: Duration,
        loss: LossRate,
        rate: Rate,
        size: u64,
    ) -> Option<Prediction> {
        let log_load = self.at(min_rtt, rate, size).log_load(arm, loss)?;
        Some(Prediction {
            load_time: log_load.load_time(),
            rel_sd: log_load.rel_sd,
        })
    }

    /// The part of a prediction that hangs neither on the arm nor on its loss.
    pub(crate) fn at(&self, min_rtt: Duration, rate: Rate, size: u64) -> Point<'_> {
        Point {
            model: self,
            place: self.axes.place(min_rtt, rate, size),
        }
    }
}

/// A path and a response size, found in the grid.
pub(crate) struct Point<'a> {
    model: &'a Model,
    place: Place,
}

impl Point<'_> {
    pub(crate) fn log_load(&self, arm: Arm, loss: LossRate) -> Option<LogLoad> {
        Some(self.log_loads(arm, &self.model.span(loss, loss))?.0)
    }

    /// The load time at the first end of `losses`, and its logarithm at the second.
    pub(crate) fn log_loads(&self, arm: Arm, losses: &LossSpan) -> Option<(LogLoad, f32)> {
        let at = |arm: Arm| {
            let grid = self.model.grids[arm.index()].as_ref()?;
            Some(grid.log_loads(&self.model.axes, &self.place, losses.0))
        };
        let measured = at(arm);
        if measured.is_some() || arm.congestion != Congestion::Floor {
            return measured;
        }
        let others = [Congestion::Cubic, Congestion::Bbr]
            .map(|congestion| at(Arm::new(arm.version, congestion)));
        let faster = |a: (LogLoad, f32), b: (LogLoad, f32)| {
            if b.0.ln_secs < a.0.ln_secs { b } else { a }
        };
        let (mut load, high) = others.into_iter().flatten().reduce(faster)?;
        load.rel_sd = load.rel_sd.hypot(STAND_IN_SD);
        Some((load, high))
    }
}

impl Model {
    /// Two losses, found in the grid.
    pub(crate) fn span(&self, from: LossRate, to: LossRate) -> LossSpan {
        LossSpan([from, to].map(|loss| self.axes.loss(loss)))
    }
}

/// Two losses, found in the grid.
pub(crate) struct LossSpan([Spot; 2]);

/// The logarithm of a load time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogLoad {
    /// Natural logarithm of the load time in seconds.
    pub(crate) ln_secs: f32,
    /// Its standard error.
    pub(crate) rel_sd: f32,
    /// Standard deviation of a single response's.
    pub(crate) scatter: f32,
}

impl LogLoad {
    pub(crate) fn load_time(self) -> Duration {
        load_time(self.ln_secs)
    }
}

/// The duration of `ln_secs`, limited to what a `Duration` holds.
pub(crate) fn load_time(ln_secs: f32) -> Duration {
    Duration::try_from_secs_f32(ln_secs.exp()).unwrap_or(Duration::MAX)
}

/// How far the arm that stands in for an unmeasured floor may be off.
const STAND_IN_SD: f32 = 0.2;

#[cfg(test)]
pub(crate) mod tests;
