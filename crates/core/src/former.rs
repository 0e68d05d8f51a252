//! The decisions as they were before `choice`, kept until both have given the same for as many random
//! views as it takes.
#![allow(dead_code, unused_imports, unreachable_pub, missing_docs, clippy::all)]

mod connections;
mod route;
mod version;

mod tests;
