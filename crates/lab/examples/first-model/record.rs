//! The data file: one JSON line a run.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use hikyaku_core::model::Source;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use crate::plan::Job;

/// What all runs have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Conditions {
    /// Seed of the whole measurement.
    pub(crate) seed: u64,
    /// Commit of the working tree, with `-dirty` if it was changed.
    pub(crate) commit: String,
    /// SHA-256 of the measured binary.
    pub(crate) binary_sha256: String,
    /// Release of the running kernel.
    pub(crate) kernel: String,
    /// Model of the CPU, and how many of them.
    pub(crate) cpu: String,
}

/// One download and what became of it. Durations in µs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    #[serde(flatten)]
    pub(crate) job: Job,
    #[serde(flatten)]
    pub(crate) conditions: Conditions,
    /// When the run began, RFC 3339.
    pub(crate) began: String,
    /// From the request's arrival at the server to the acknowledgement of the
    /// last byte, as far as `server_us` and `client_us` tell; extrapolated when
    /// `censored`. `None` when the run failed.
    pub(crate) load_us: Option<u64>,
    /// That time as the access log has it; `None` without a complete response.
    pub(crate) server_us: Option<u64>,
    /// From the request's first byte to the response's last, as the client saw it.
    pub(crate) client_us: Option<u64>,
    /// The download was given up; see `load_us`.
    pub(crate) censored: bool,
    /// Why the run failed.
    pub(crate) error: Option<String>,
    /// Connecting and TLS, as the client saw them.
    pub(crate) handshake_us: Option<u64>,
    /// Connecting, TLS and the response, as the client saw them.
    pub(crate) client_total_us: Option<u64>,
    /// Body bytes that the client got.
    pub(crate) body_bytes: Option<u64>,
    /// What the server measured of the path.
    pub(crate) server: Option<ServerView>,
    /// What the emulator did.
    pub(crate) link: LinkView,
    /// The emulator was late, refused a packet, or lost its CPU to another
    /// machine: the run is repeated, if it was not the last attempt.
    pub(crate) disturbed: bool,
}

/// The transport's figures at the end of the response, from the access log.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct ServerView {
    pub(crate) packets_sent: u64,
    /// Spurious ones taken out.
    pub(crate) packets_lost: u64,
    pub(crate) min_rtt_us: u64,
    pub(crate) srtt_us: u64,
    pub(crate) delivery_rate_bps: Option<u64>,
}

/// The emulated link over one run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct LinkView {
    /// Packets from server to client.
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
    pub(crate) dropped: u64,
    pub(crate) lateness_mean_us: u64,
    pub(crate) lateness_p99_us: u64,
    pub(crate) lateness_max_us: u64,
    pub(crate) faults: u64,
    pub(crate) realtime: bool,
    /// Share of the machine's CPU time that its hypervisor gave to others.
    pub(crate) steal: f64,
}

impl Run {
    /// Packets lost and sent from server to client: as the server measured them,
    /// or, where it did not log the response, as the emulator counted them.
    pub(crate) fn packets(&self) -> (u64, u64) {
        let LinkView {
            delivered,
            lost,
            dropped,
            ..
        } = self.link;
        let emulated = (lost + dropped, delivered + lost + dropped);
        self.server.map_or(emulated, |server| {
            (server.packets_lost, server.packets_sent)
        })
    }
}

impl Conditions {
    pub(crate) fn collect(binary: &Path, seed: u64) -> Result<Self> {
        let executable = fs::read(binary).with_context(|| {
            let path = binary.display();
            format!("reading the binary to be measured, {path} (make it with `cargo build --release -p hikyaku`)")
        })?;
        let read = |path: &str| fs::read_to_string(path).with_context(|| format!("reading {path}"));
        let cpuinfo = read("/proc/cpuinfo")?;
        let models: Vec<&str> = cpuinfo
            .lines()
            .filter_map(|line| {
                line.strip_prefix("model name")?
                    .split_once(": ")
                    .map(|(_, model)| model)
            })
            .collect();
        Ok(Self {
            seed,
            commit: commit()?,
            binary_sha256: hex(&Sha256::digest(&executable)),
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            cpu: format!(
                "{} x {}",
                models.len(),
                models.first().unwrap_or(&"unknown")
            ),
        })
    }
}

fn commit() -> Result<String> {
    let output = Command::new("git")
        .args([
            "describe",
            "--always",
            "--abbrev=40",
            "--dirty",
            "--exclude=*",
        ])
        .output()
        .context("running `git describe`")?;
    ensure!(
        output.status.success(),
        "running `git describe`: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The file and what it holds of the present binary and seed.
#[derive(Debug)]
pub(crate) struct Data {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    runs: Vec<Run>,
    best: HashMap<Job, Outcome>,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    attempts: u32,
    good: bool,
    censored: bool,
}

/// Attempts at a run that fails or is disturbed.
const ATTEMPTS: u32 = 3;

impl Data {
    /// Opens the file, or makes it. Lines of other binaries or seeds are left alone.
    pub(crate) fn open(path: &Path, conditions: &Conditions) -> Result<Self> {
        let what = || format!("opening the data file {}", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(what)?;
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .with_context(what)?;
        let text = fs::read_to_string(path).with_context(what)?;
        let mut state = State {
            file,
            runs: Vec::new(),
            best: HashMap::new(),
        };
        if !text.is_empty() && !text.ends_with('\n') {
            // A killed run left half a line.
            state.file.write_all(b"\n").with_context(what)?;
        }
        for line in text.lines() {
            let Ok(run) = serde_json::from_str::<Run>(line) else {
                continue;
            };
            let same = run.conditions.binary_sha256 == conditions.binary_sha256
                && run.conditions.seed == conditions.seed;
            if same {
                state.note(run);
            }
        }
        Ok(Self {
            path: path.to_owned(),
            state: Mutex::new(state),
        })
    }

    /// Appends a run.
    pub(crate) fn add(&self, run: Run) -> Result<()> {
        let mut line = serde_json::to_string(&run)?;
        line.push('\n');
        let mut state = self.lock();
        let written = state.file.write_all(line.as_bytes());
        written.with_context(|| format!("appending to {}", self.path.display()))?;
        state.note(run);
        Ok(())
    }

    /// Whether a job need not be run (again). One download that was given up
    /// stands for all its repeats.
    pub(crate) fn is_done(&self, job: &Job) -> bool {
        let state = self.lock();
        let done = |outcome: &Outcome| outcome.good || outcome.attempts >= ATTEMPTS;
        state.best.get(job).is_some_and(done)
            || (0..job.repeat).any(|repeat| {
                state
                    .best
                    .get(&Job { repeat, ..*job })
                    .is_some_and(|outcome| outcome.censored)
            })
    }

    /// All runs so far.
    pub(crate) fn runs(&self) -> Vec<Run> {
        self.lock().runs.clone()
    }

    /// Where a model made from this file comes from.
    pub(crate) fn source(&self, conditions: &Conditions) -> Result<Source> {
        let bytes =
            fs::read(&self.path).with_context(|| format!("reading {}", self.path.display()))?;
        let runs = self.lock();
        let measured = runs.runs.first().map_or(conditions, |run| &run.conditions);
        Ok(Source {
            data_sha256: hex(&Sha256::digest(&bytes)),
            command: "make first-model".to_owned(),
            commit: measured.commit.clone(),
            date: OffsetDateTime::now_utc().date().to_string(),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl State {
    fn note(&mut self, run: Run) {
        let outcome = self.best.entry(run.job).or_default();
        outcome.attempts += 1;
        outcome.good |= run.load_us.is_some() && !run.disturbed;
        outcome.censored |= run.censored && !run.disturbed;
        self.runs.push(run);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
