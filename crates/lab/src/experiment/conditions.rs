//! The conditions of a measurement.

use std::fs;
use std::path::Path;
use std::process::Command;

use sha2::{Digest, Sha256};

use super::record::Conditions;
use super::run::{Attempt, RunError};

impl Conditions {
    /// Reads the conditions of this machine and `binary`, for any experiment.
    ///
    /// # Errors
    /// If the binary or the kernel's description of itself cannot be read.
    pub fn collect(binary: &Path) -> Result<Self, RunError> {
        let executable =
            fs::read(binary).attempt(|| format!("reading the binary {}", binary.display()))?;
        let read = |path: &str| fs::read_to_string(path).attempt(|| format!("reading {path}"));
        let Version {
            commit,
            model_sha256,
        } = Version::ask(binary);
        Ok(Self {
            commit,
            binary_sha256: sha256(&executable),
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            cpu: cpu(&read("/proc/cpuinfo")?),
            model_sha256,
            ..Self::default()
        })
    }
}

/// Returns [`Conditions::arguments`] of the options that `lab run` and `lab sim` share.
pub(crate) fn arguments(
    experiment: &str,
    repeats: Option<u32>,
    only: &[String],
    arms: &[String],
) -> Vec<String> {
    let mut arguments = vec![experiment.to_owned()];
    let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    if let Some(repeats) = repeats {
        option("--repeats", repeats.to_string());
    }
    only.iter().for_each(|only| option("--only", only.clone()));
    if !arms.is_empty() {
        option("--arms", arms.join(","));
    }
    arguments
}

/// Returns `2 x Name of the CPU`.
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

/// A program's version by `--version`; empty fields if it does not report them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Version {
    commit: String,
    model_sha256: String,
}

impl Version {
    fn ask(binary: &Path) -> Self {
        let output = Command::new(binary).arg("--version").output();
        output.map_or_else(
            |_| Self::default(),
            |output| Self::parse(&String::from_utf8_lossy(&output.stdout)),
        )
    }

    fn parse(text: &str) -> Self {
        let line = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name));
            value.unwrap_or_default().to_owned()
        };
        Self {
            commit: line("commit "),
            model_sha256: line("model "),
        }
    }
}

/// SHA-256 in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_reports_commit_and_model() {
        let version = |commit: &str, model: &str| Version {
            commit: commit.to_owned(),
            model_sha256: model.to_owned(),
        };
        let cases = [
            (
                "hikyaku 0.1.0 (c0)\ncommit c0ffee\nmodel ab12\n",
                version("c0ffee", "ab12"),
            ),
            ("hikyaku 0.1.0\n", version("", "")),
        ];
        for (text, want) in cases {
            assert_eq!(Version::parse(text), want);
        }
    }
}
