//! Messages as field sections (RFC 9113 §8).

mod request;
mod response;
mod target;
#[cfg(test)]
mod tests;

pub use request::RequestHead;
pub(crate) use request::{Parsed, parse, parse_trailers};
pub use response::Prepared;
pub(crate) use response::{content_length, is_sent, length_of};
