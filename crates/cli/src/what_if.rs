//! `hikyaku what-if`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use hikyaku_core::transport::State;
use hikyaku_core::what_if::{Response, WhatIf};
use hikyaku_edge::{Config, load_model};
use hikyaku_units::arm::Version;
use serde::Deserialize;

/// Options of `hikyaku what-if`.
#[derive(Debug, clap::Args)]
pub(crate) struct WhatIfArgs {
    /// Access logs in JSON, the oldest first; `-` is standard input.
    #[arg(value_name = "LOG", required = true)]
    logs: Vec<PathBuf>,
    /// A setting to judge, such as `policy.min_gain=0.1`.
    #[arg(long, value_name = "KEY=VALUE", required = true)]
    set: Vec<String>,
    /// Configuration that was in force while the log was written. Default: that of `hikyaku config`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A setting that was in force besides, such as an option `--set` of `hikyaku serve`.
    #[arg(long, value_name = "KEY=VALUE")]
    was: Vec<String>,
}

/// The fields of a line that count.
#[derive(Debug, Deserialize)]
struct Line {
    client: IpAddr,
    via: Option<IpAddr>,
    method: String,
    version: Version,
    status: Option<u16>,
    bytes: u64,
    complete: bool,
    duration_us: u64,
    probability: Option<f64>,
    state: Option<String>,
}

/// Lines that do not count, by the cause.
#[derive(Debug, Default)]
struct LeftOut {
    /// No JSON of a response.
    foreign: u64,
    /// Without a state, or with that of another release.
    stateless: u64,
    /// Not complete, through a balancer or proxy, or of a WebSocket.
    others: u64,
}

/// Prints what other settings would have given. Fails where the log cannot say that.
pub(crate) fn run(args: &WhatIfArgs) -> anyhow::Result<ExitCode> {
    for assignment in &args.set {
        check_key(assignment)?;
    }
    let logged = Config::load(args.config.as_deref(), &args.was)?;
    let both: Vec<_> = args.was.iter().chain(&args.set).cloned().collect();
    let other = Config::load(args.config.as_deref(), &both)?;
    logged.policy.validate()?;
    other.policy.validate()?;
    let model = load_model(&logged)?;
    let mut what_if = WhatIf::new(&model, &logged.policy, &other.policy);
    let mut left_out = LeftOut::default();
    for log in &args.logs {
        read(log, &mut what_if, &mut left_out)
            .with_context(|| format!("reading the log {}", log.display()))?;
    }
    let report = what_if.report();
    let mut out = io::stdout().lock();
    writeln!(out, "{:14}{}", "what if", args.set.join(" "))?;
    write!(out, "{report}")?;
    left_out.print(&mut out)?;
    Ok(match report.answer {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// Refuses settings that no log can judge: those that decide nothing about arms, or that change the
/// estimates.
fn check_key(assignment: &str) -> anyhow::Result<()> {
    let key = assignment.split('=').next().unwrap_or_default().trim();
    let judged = JUDGED
        .iter()
        .any(|known| key.strip_prefix("policy.") == Some(*known));
    if !judged {
        bail!(
            "a log cannot judge `{key}`, only policy.{}",
            JUDGED.join(", policy.")
        );
    }
    Ok(())
}

fn read(log: &Path, what_if: &mut WhatIf<'_>, left_out: &mut LeftOut) -> io::Result<()> {
    let mut input: Box<dyn BufRead> = match log.as_os_str() == "-" {
        true => Box::new(io::stdin().lock()),
        false => Box::new(BufReader::new(File::open(log)?)),
    };
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        match serde_json::from_slice(&line) {
            Ok(line) => {
                if let Some(response) = left_out.filter(&line) {
                    what_if.add(&response);
                }
            }
            Err(_) => left_out.foreign += 1,
        }
        line.clear();
    }
    Ok(())
}

impl LeftOut {
    /// The response of a line, if it counts.
    fn filter(&mut self, line: &Line) -> Option<Response> {
        let is_tunnel = line.method == "CONNECT" || line.status == Some(101);
        if !line.complete || line.via.is_some() || line.duration_us == 0 || is_tunnel {
            self.others += 1;
            return None;
        }
        let state = line.state.as_deref();
        let state = state.and_then(|state| State::parse(line.client, state).ok());
        let Some((state, probability)) = state.zip(line.probability) else {
            self.stateless += 1;
            return None;
        };
        Some(Response {
            client: line.client,
            state,
            probability,
            transport: line.version.transport(),
            bytes: line.bytes,
            time: Duration::from_micros(line.duration_us),
        })
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let causes = [
            (self.foreign, "are no lines of a JSON access log"),
            (self.stateless, "have no `state` of this release"),
            (
                self.others,
                "are incomplete, of WebSockets, or came through a balancer or proxy",
            ),
        ];
        for (lines, cause) in causes.into_iter().filter(|(lines, _)| *lines > 0) {
            writeln!(out, "{:14}{lines} lines {cause}", "left out")?;
        }
        Ok(())
    }
}

/// Keys of `policy` that decide about arms, by the estimate of a client.
const JUDGED: [&str; 12] = [
    "version",
    "congestion",
    "min_cwnd",
    "unknown",
    "min_samples",
    "exploration",
    "trials",
    "holdback",
    "plain.version",
    "plain.congestion",
    "min_gain",
    "min_gain_bbr",
];
