//! Content over HTTP/1.1, 2 and 3, from the real binary: files, reverse proxy, TLS, pins.
#![allow(clippy::unwrap_used)]

mod access;
mod cache;
mod cleartext;
mod compression;
mod documentation;
mod examples;
mod fields;
mod files;
mod groups;
mod in_clear;
mod listen;
mod ocsp;
mod pins;
mod proxy;
mod routes;
mod sites;

/// The start page of all sites.
const PAGE: &[u8] = b"<!doctype html><title>start</title>";
