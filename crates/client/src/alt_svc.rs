//! Alternative services (RFC 7838): the server's advertisements and the client's memory of them.

pub(super) mod cache;
pub(super) mod field;
mod parse;

pub use parse::{AltSvc, Alternative, ParseError, parse};
