//! The network lab of hikyaku: everything that measures.

pub mod clean;
pub mod client;
pub mod experiment;
pub mod fit;
pub mod interrupt;
pub mod link;
pub mod report;
pub mod selftest;
pub mod shell;
pub mod sim;
pub mod topology;

#[cfg(test)]
#[path = "../tests/skipped/mod.rs"]
mod skipped;
