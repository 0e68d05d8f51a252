//! Monitoring of the real binary by the tools that operators have: Prometheus, its rules, Grafana's dashboards,
//! and readers of logs.
#![allow(clippy::unwrap_used)]

mod counts;
mod dashboards;
mod logs;
mod prometheus;
mod traces;

use std::fs;

/// The text of a file of the repository.
fn read(path: &str) -> String {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}
