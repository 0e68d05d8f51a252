#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod arm;
mod decimal;
pub mod duration;
pub mod human;
mod loss;
pub mod mix;
mod network;
mod one_or_many;
mod rate;
mod saved_path;
mod secs;
mod size;
mod text;
mod timestamp;

pub use decimal::{ParseUnitError, Problem};
pub use loss::LossRate;
pub use network::{Network, ParseNetworkError};
pub use one_or_many::one_or_many;
pub use rate::Rate;
pub use saved_path::SavedPath;
pub use secs::Secs;
pub use size::ByteSize;
pub use timestamp::Timestamp;

#[cfg(test)]
mod tests;
