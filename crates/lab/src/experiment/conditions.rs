//! The conditions of a measurement.

use std::fs;
use std::path::Path;
use std::process::Command;

use sha2::{Digest, Sha256};

use super::record::Conditions;
use super::run::{Attempt, RunError};

/// The model that is built into the server of the same sources.
const MODEL: &str = include_str!("../../../../models/default.json");

impl Conditions {
    /// Those of this machine and `binary`, for any experiment.
    ///
    /// # Errors
    /// If the binary or what the kernel says of itself cannot be read.
    pub fn collect(binary: &Path) -> Result<Self, RunError> {
        let executable =
            fs::read(binary).attempt(|| format!("reading the binary {}", binary.display()))?;
        let read = |path: &str| fs::read_to_string(path).attempt(|| format!("reading {path}"));
        Ok(Self {
            commit: commit().unwrap_or_default(),
            binary_sha256: sha256(&executable),
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            cpu: cpu(&read("/proc/cpuinfo")?),
            model_sha256: sha256(MODEL.as_bytes()),
            ..Self::default()
        })
    }
}

/// `2 x Name of the CPU`.
fn cpu(cpuinfo: &str) -> String {
    let models: Vec<&str> = cpuinfo
        .lines()
        .filter_map(|line| Some(line.strip_prefix("model name")?.split_once(": ")?.1))
        .collect();
    format!(
        "{} x {}",
        models.len(),
        models.first().unwrap_or(&"unknown")
    )
}

/// Commit of the working tree, with `-dirty` if it was changed; `None` outside of one.
fn commit() -> Option<String> {
    let mut git = Command::new("git");
    git.args([
        "describe",
        "--always",
        "--abbrev=40",
        "--dirty",
        "--exclude=*",
    ]);
    let output = git.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// SHA-256 in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
