//! The network lab of hikyaku: all experiments and measurements.

pub mod experiment;
pub mod fit;
pub mod report;
pub mod sim;
