//! Requests and responses that are seldom seen, or malformed, over HTTP/1.1, 2 and 3, and
//! what becomes of them on their way to an upstream and back.
#![allow(clippy::unwrap_used)]

mod raw;
mod requests;
mod responses;
