//! Quantities with their units, as types and as text.
//!
//! Every quantity is an integer inside and is made by a named constructor or from a text that names
//! its unit: `20Mbps`, `0.5%`, `64KiB`, `15s`. What a type prints, it also reads. There is no clock,
//! socket, thread or file here.
#![forbid(unsafe_code)]

pub mod arm;
mod decimal;
pub mod duration;
pub mod human;
mod loss;
pub mod mix;
mod rate;
mod saved_path;
mod secs;
mod size;
mod text;
mod timestamp;

pub use decimal::{ParseUnitError, Problem};
pub use loss::LossRate;
pub use rate::Rate;
pub use saved_path::SavedPath;
pub use secs::Secs;
pub use size::ByteSize;
pub use timestamp::Timestamp;

#[cfg(test)]
mod tests;
