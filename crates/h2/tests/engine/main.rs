//! The engine from outside: frames built byte by byte, and the client of the crate `h2` against it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]

mod floods;
mod foreign;
mod frames;
mod limits;
mod properties;
mod rules;
mod sending;
mod wire;
