//! The decisions as they were, to compare with.
#![allow(dead_code, missing_docs, unreachable_pub)]

pub(crate) mod choice;
pub(crate) mod page;
pub(crate) mod tests;
pub(crate) mod transport;
