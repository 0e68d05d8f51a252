//! Emulated networks between network namespaces: links with rate, delay, loss and queue, topologies
//! of several nodes, a shell within them, a self-test of how exact they are, and the removal of
//! what a killed process left in the kernel.

pub mod clean;
pub mod interrupt;
pub mod link;
pub mod selftest;
pub mod shell;
pub mod topology;

/// The example of the README, as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
