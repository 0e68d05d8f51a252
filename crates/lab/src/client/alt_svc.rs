//! Alternative services (RFC 7838): what a server announces, and what is remembered of it.

pub mod parse;

pub(super) mod cache;
pub(super) mod field;

pub use parse::{AltSvc, Alternative, ParseError, parse};
