//! The network lab of hikyaku: all experiments and measurements.

pub mod all;
pub mod experiment;
pub mod fit;
pub mod report;
pub mod sim;
mod table;

/// The example of the README, as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
