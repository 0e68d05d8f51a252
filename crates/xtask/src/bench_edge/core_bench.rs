//! The core's own benchmarks: the time of a decision, and the memory of clients.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::process::{self, Stop};
use super::server::Workspace;

/// The result of `cargo bench -p hikyaku-core --bench decide`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Decision {
    pub(super) median_ns: f64,
    pub(super) p99_ns: f64,
    /// The mean time of looking a client up.
    pub(super) view_ns: f64,
}

/// A case of `cargo run --release -p hikyaku-core --example memory`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Estimates {
    pub(super) case: String,
    pub(super) clients: u64,
    pub(super) records: u64,
    pub(super) bytes_per_client: f64,
    pub(super) peak_bytes_per_client: f64,
}

pub(super) fn decision(workspace: &Workspace, stop: &Stop) -> Result<Decision> {
    let said = cargo(
        workspace,
        "bench --quiet --locked -p hikyaku-core --bench decide",
        stop,
    )?;
    let found = said
        .lines()
        .find_map(|line| serde_json::from_str(line).ok());
    found.with_context(|| format!("the decision benchmark reported `{said}`"))
}

pub(super) fn estimates(workspace: &Workspace, stop: &Stop) -> Result<Vec<Estimates>> {
    let said = cargo(
        workspace,
        "run --quiet --release --locked -p hikyaku-core --example memory",
        stop,
    )?;
    let cases: serde_json::Result<_> = said.lines().map(serde_json::from_str).collect();
    cases.with_context(|| format!("the memory benchmark reported `{said}`"))
}

fn cargo(workspace: &Workspace, arguments: &str, stop: &Stop) -> Result<String> {
    let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
    let (cpu, directory) = (workspace.server_cpu, workspace.path());
    process::output(Path::new("cargo"), cpu, directory, &arguments, stop)
}
