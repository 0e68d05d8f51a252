//! From experiments' records to responses over paths.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use hikyaku_units::Rate;
use hikyaku_units::arm::{Arm, Version};
use sha2::{Digest, Sha256};

use super::error::FitError;
use crate::experiment::{self, Axis, Client, Http, Kind, Outcome, Run, Server, Spec};

/// A measured response: the model's subject, and the server's measurements of the path meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Response {
    /// Arm that sent it.
    pub(super) arm: Arm,
    /// Size of its body in bytes.
    pub(super) size: u64,
    /// Time from the request's arrival to the last byte's acknowledgement, in seconds.
    pub(super) load: f64,
    /// Whether it was given up, and `load` extrapolated.
    pub(super) censored: bool,
    /// The server's measurements; `None` if it logged no response.
    pub(super) measured: Option<Measured>,
}

/// The server's account of a connection at its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    /// Packets sent.
    pub(super) sent: u32,
    /// Packets lost, spurious losses taken out.
    pub(super) lost: u32,
    /// Smallest RTT in seconds.
    pub(super) min_rtt: f64,
    /// Newest delivery rate.
    pub(super) rate: Option<Rate>,
    /// Whether the application may have limited that rate.
    pub(super) app_limited: bool,
}

/// The measured links, each with its responses.
#[derive(Clone, Debug, Default)]
pub(super) struct Data {
    /// Responses by the link's description.
    pub(super) paths: BTreeMap<String, Vec<Response>>,
    /// Counts of records that do not fit the model, by reason.
    pub(super) passed_over: BTreeMap<&'static str, usize>,
    /// Origin of the records.
    pub(super) origin: Origin,
}

/// The origin of data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin {
    /// SHA-256 of all `runs.jsonl`, in the given order.
    pub(super) sha256: String,
    /// Commit of the last record.
    pub(super) commit: String,
    /// Day of the last record, `2026-11-21`.
    pub(super) date: String,
}

/// Reason for skipping earlier records of a directory.
pub(super) const OTHER_CONDITIONS: &str = "of another binary, experiment or seed than the last";

impl Data {
    /// Reads the experiments in `directories`.
    ///
    /// # Errors
    /// If a directory has no readable experiment, or none of them has a usable record.
    pub(super) fn read(directories: &[PathBuf]) -> Result<Self, FitError> {
        let mut data = Self::default();
        let mut hash = Sha256::new();
        let mut last = String::new();
        for directory in directories {
            let spec = read_spec(directory)?;
            let runs_path = directory.join("runs.jsonl");
            let runs = experiment::read(&runs_path)?;
            hash.update(fs::read(&runs_path).map_err(|source| FitError::Read {
                path: runs_path,
                source,
            })?);
            let all = runs.len();
            let runs = experiment::latest(runs);
            data.pass_over(OTHER_CONDITIONS, all - runs.len());
            for run in experiment::counted(runs) {
                if run.began > last {
                    last.clone_from(&run.began);
                    data.origin.commit.clone_from(&run.conditions.commit);
                }
                data.add(&spec, &run);
            }
        }
        data.origin.sha256 = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
        data.origin.date = last.get(..10).unwrap_or_default().to_owned();
        if data.paths.is_empty() {
            return Err(FitError::NoData {
                directories: directories.to_vec(),
                passed_over: data.passed_over(),
            });
        }
        Ok(data)
    }

    fn add(&mut self, spec: &Spec, run: &Run) {
        match response(spec, run) {
            Ok(response) => {
                let path = serde_json::to_string(&run.link).unwrap_or_default();
                self.paths.entry(path).or_default().push(response);
            }
            Err(reason) => self.pass_over(reason, 1),
        }
    }

    fn pass_over(&mut self, reason: &'static str, count: usize) {
        if count > 0 {
            *self.passed_over.entry(reason).or_default() += count;
        }
    }

    /// Returns all responses.
    pub(super) fn responses(&self) -> impl Iterator<Item = &Response> {
        self.paths.values().flatten()
    }

    /// Summarises the data in a sentence.
    pub(super) fn summary(&self) -> String {
        let (responses, paths) = (self.responses().count(), self.paths.len());
        let censored = self
            .responses()
            .filter(|response| response.censored)
            .count();
        let passed_over = match self.passed_over().as_str() {
            "" => String::new(),
            reasons => format!(" Passed over: {reasons}."),
        };
        format!(
            "{responses} responses over {paths} paths, {censored} of them given up and extrapolated.{passed_over}"
        )
    }

    /// Returns the measured arms, for people.
    pub(super) fn arms(&self) -> String {
        let arms: BTreeSet<String> = self
            .responses()
            .map(|response| response.arm.to_string())
            .collect();
        arms.into_iter().collect::<Vec<_>>().join(", ")
    }

    /// Returns the skipped records and the reasons, for people; empty if none were skipped.
    pub(super) fn passed_over(&self) -> String {
        let reasons: Vec<String> = self
            .passed_over
            .iter()
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        reasons.join(", ")
    }
}

fn read_spec(directory: &Path) -> Result<Spec, FitError> {
    let path = directory.join("experiment.toml");
    let text = fs::read_to_string(&path).map_err(|source| FitError::Read {
        path: path.clone(),
        source,
    })?;
    // --quick reduces cells and repeats, which do not matter here.
    Ok(Spec::parse(&path.display().to_string(), &text, false)?)
}

/// Returns the response of a record, or the reason for skipping it. The model needs a single
/// response on a connection of one of its arms.
fn response(spec: &Spec, run: &Run) -> Result<Response, &'static str> {
    if run.outcome == Outcome::Failed {
        return Err("failed");
    }
    let workload = &spec.workload;
    if workload.kind != Kind::Load || workload.page || !workload.change.is_empty() {
        return Err("of several responses at once or over a changing link");
    }
    let udp_apart = |direction: &toml::Table| {
        direction
            .get("udp")
            .is_some_and(|udp| udp.as_str() != Some("same"))
    };
    if udp_apart(&run.link.up) || udp_apart(&run.link.down) {
        return Err("over a link that treats UDP in its own way");
    }
    let arm = arm(spec, run)?;
    let metric = |name| run.metric(name).filter(|value| *value > 0.0);
    let (Some(load_ms), Some(size)) = (metric("response_ms"), metric("size_bytes")) else {
        return Err("without a response");
    };
    Ok(Response {
        arm,
        size: size as u64,
        load: load_ms / 1e3,
        censored: run.label("censored") == Some("true"),
        measured: measured(run),
    })
}

/// Returns the arm of a session with pinned version and congestion control.
fn arm(spec: &Spec, run: &Run) -> Result<Arm, &'static str> {
    let Some(arm) = spec.arm(&run.arm) else {
        return Err("of an arm that the experiment's file does not have");
    };
    let plain = arm.server == Server::Hikyaku
        && arm.client == Client::Get
        && arm.connections.unwrap_or(1) == 1
        && arm.shards == 0
        && run.cell.get(Axis::Connections).unwrap_or("1") == "1";
    let set = |key: &str| arm.set.get(key).map(String::as_str);
    let floor = run.cell.get(Axis::MinCwnd).or(set("policy.min_cwnd"));
    if !plain || !matches!(floor, None | Some("off" | "adaptive")) {
        return Err("of another server or client, or with several connections or a fixed floor");
    }
    let pinned = matches!(set("policy.version"), Some("h2" | "h3")) || arm.http != Http::Auto;
    if !pinned {
        return Err("of a version that was not pinned");
    }
    // The version in use counts, since UDP may have failed.
    let version = match run.label("http") {
        Some("2") => Version::H2,
        Some("3") => Version::H3,
        _ => return Err("of another version"),
    };
    let pinned = run.cell.get(Axis::Congestion).or(set("policy.congestion"));
    if !matches!(pinned, Some("cubic" | "bbr")) {
        return Err("of a congestion control that was not pinned");
    }
    // The server reports the algorithm in use, since not every system has a floor.
    let used = run.label("congestion").or(pinned).map(str::parse);
    match used {
        Some(Ok(congestion)) => Ok(Arm::new(version, congestion)),
        _ => Err("of another congestion control"),
    }
}

/// Returns the server's log of the response. Without one it returns the counts that the server
/// would have made over the emulated link.
fn measured(run: &Run) -> Option<Measured> {
    let metric = |name| run.metric(name);
    let count = |packets: f64| packets as u32;
    if let Some(sent) = metric("server_packets_sent") {
        return Some(Measured {
            sent: count(sent),
            lost: count(metric("server_packets_lost")?),
            min_rtt: metric("server_min_rtt_ms")? / 1e3,
            // The path carries at least the rate that the response got.
            rate: metric("server_rate_mbps")
                .filter(|mbps| *mbps > 0.0)
                .map(|mbps| mbps.max(metric("goodput_mbps").unwrap_or_default()))
                .map(|mbps| Rate::from_bits_per_sec((mbps * 1e6) as u64)),
            app_limited: metric("server_app_limited").is_some_and(|flag| flag != 0.0),
        });
    }
    let emulator = run.emulator?;
    let lost = emulator.lost + emulator.dropped;
    Some(Measured {
        sent: count((emulator.delivered + lost) as f64),
        lost: count(lost as f64),
        min_rtt: run.link.rtt().as_secs_f64(),
        rate: None,
        app_limited: true,
    })
}
