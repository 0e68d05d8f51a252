//! The network lab of hikyaku: everything that measures.

pub mod experiment;
pub mod fit;
pub mod report;
pub mod sim;
