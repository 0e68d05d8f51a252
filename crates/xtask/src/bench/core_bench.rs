//! The core's own benchmarks: the time of a decision, and the memory of clients.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::process::{self, Stop};

/// All of them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Core {
    pub(super) decision: Decision,
    pub(super) estimates: Vec<Estimates>,
}

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

/// Measures decisions and the client table on `cpu`.
pub(super) fn measure(directory: &Path, cpu: usize, stop: &Stop) -> Result<Core> {
    let run = |arguments: &str| {
        let mut command = Command::new("cargo");
        command.args(arguments.split(' '));
        process::output(command, cpu, directory, stop)
    };
    let said = run("bench --quiet --locked -p hikyaku-core --bench decide")?;
    let mut lines = said.lines();
    let found = lines.find_map(|line| serde_json::from_str(line).ok());
    let decision = found.with_context(|| format!("the decision benchmark reported `{said}`"))?;
    let said = run("run --quiet --release --locked -p hikyaku-core --example memory")?;
    let cases: serde_json::Result<_> = said.lines().map(serde_json::from_str).collect();
    let estimates = cases.with_context(|| format!("the memory benchmark reported `{said}`"))?;
    Ok(Core {
        decision,
        estimates,
    })
}
