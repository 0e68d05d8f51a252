//! Tests of samples and of reports.

mod calibration;
mod compared;
mod merged;
mod simulated;
