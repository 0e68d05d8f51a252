//! Quantities with their units, as types and as text.
//!
//! Every quantity is an integer inside and is made by a named constructor or from a text that names
//! its unit: `20Mbps`, `0.5%`, `64KiB`, `15s`. What a type prints, it also reads.

mod decimal;
pub mod duration;
mod loss;
mod rate;
mod secs;
mod size;
mod text;
mod timestamp;

pub use decimal::{ParseUnitError, Problem};
pub use loss::LossRate;
pub use rate::Rate;
pub use secs::Secs;
pub use size::ByteSize;
pub(crate) use text::serde_as_text;
pub use timestamp::Timestamp;

#[cfg(test)]
mod tests;
