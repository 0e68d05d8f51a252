//! Content over HTTP/1.1, 2 and 3, from the real binary: files, reverse proxy, TLS, pins.
#![allow(clippy::unwrap_used)]

mod files;
mod listen;
mod pins;
mod proxy;
mod routes;
mod sites;

/// The start page of all sites.
const PAGE: &[u8] = b"<!doctype html><title>start</title>";
