//! Alternative services (RFC 7838): what a server announces, and what is remembered of it.

pub(super) mod cache;
pub(super) mod field;
mod parse;

pub use parse::{AltSvc, Alternative, ParseError, parse};
