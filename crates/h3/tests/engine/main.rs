//! The engine from outside: streams built byte by byte, and both sides against each other.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]

mod control;
mod floods;
mod pair;
mod properties;
mod requests;
mod responses;
mod wire;
mod writing;
