//! Compression on the fly, of files and of an upstream's responses.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "of the socket, which these tests do not need")]
#[path = "../common/mod.rs"]
mod common;
mod files;
mod proxy;
mod shelf;
mod support;
