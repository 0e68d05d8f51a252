//! Rare or malformed requests and responses over HTTP/1.1, 2 and 3, and their way to an upstream
//! and back.
#![allow(clippy::unwrap_used)]

mod hints;
mod raw;
mod requests;
mod responses;
