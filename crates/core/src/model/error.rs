//! The faults that a model can have.

use hikyaku_units::arm::{Arm, ParseArmError};

/// Why a model is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// It is not JSON, or not of the documented structure.
    #[error("reading a model")]
    Json(#[source] serde_json::Error),
    /// It is of another format.
    #[error("reading a model: format {found} instead of {}", super::FORMAT)]
    Format {
        /// The format found.
        found: u32,
    },
    /// An axis is wrong.
    #[error("checking a model: axis {axis}: {problem}")]
    Axis {
        /// Its name in the file.
        axis: &'static str,
        /// The fault.
        problem: AxisProblem,
    },
    /// A table is for something that is no arm.
    #[error("checking a model: unknown arm `{name}`")]
    UnknownArm {
        /// Its name in the file.
        name: String,
        /// Why, when it is not of an arm's form at all.
        #[source]
        source: Option<ParseArmError>,
    },
    /// There is nothing to compare an arm with.
    #[error("checking a model: arm {arm} is missing")]
    MissingArm {
        /// The missing arm.
        arm: Arm,
    },
    /// A table has another number of values than the axes have points.
    #[error("checking a model: arm {arm}: {found} values of {field} instead of {expected}")]
    Count {
        /// The arm.
        arm: Arm,
        /// `load_ms` or `spread`.
        field: &'static str,
        /// Values found.
        found: usize,
        /// Product of the axes' lengths.
        expected: usize,
    },
    /// A value is not finite or out of its range.
    #[error("checking a model: arm {arm}: {field}[{index}] is {value}, expected {expected}")]
    Value {
        /// The arm.
        arm: Arm,
        /// `load_ms` or `spread`.
        field: &'static str,
        /// Position of the value.
        index: usize,
        /// The value.
        value: f64,
        /// The permitted values.
        expected: &'static str,
    },
}

/// The faults that an axis can have.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AxisProblem {
    /// It has no points or too many.
    #[error("{len} points, expected 1 to {}", super::grid::MAX_POINTS)]
    Len {
        /// Its length.
        len: usize,
    },
    /// A point is not finite or out of range.
    #[error("point {index} is {value}, expected {expected}")]
    Value {
        /// Position of the point.
        index: usize,
        /// The point.
        value: f64,
        /// The permitted values.
        expected: &'static str,
    },
    /// A point is not above the one before.
    #[error("point {index} is not above the one before")]
    NotAscending {
        /// Position of the point.
        index: usize,
    },
}
