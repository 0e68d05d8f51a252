//! Messages as field sections (RFC 9113 §8).

mod request;
mod response;
#[cfg(test)]
mod tests;

pub use request::RequestHead;
pub(crate) use request::{Parsed, parse, parse_trailers};
pub use response::Prepared;
