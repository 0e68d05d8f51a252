//! Emulated networks between network namespaces: links with rate, delay, loss and queue, and
//! topologies of several nodes. It also has a shell within them, a self-test of their accuracy, and
//! the removal of a killed process's remains in the kernel.

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
