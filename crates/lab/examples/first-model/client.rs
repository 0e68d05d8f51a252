//! One run of `hikyaku get`.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hikyaku_core::arm::Version;
use hikyaku_lab::link::Topology;
use serde::Deserialize;

/// What the client reports of its request (`docs/get.md`), as far as it matters
/// here.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Request {
    pub(crate) local: Option<SocketAddr>,
    pub(crate) connect_us: u64,
    pub(crate) tls_us: u64,
    pub(crate) send_us: u64,
    pub(crate) wait_us: u64,
    pub(crate) receive_us: u64,
    pub(crate) total_us: u64,
    pub(crate) body_bytes: u64,
    pub(crate) timed_out: bool,
    pub(crate) error: Option<Failure>,
}

/// Why a request failed.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Failure {
    pub(crate) message: String,
}

/// A line of the client's output.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line {
    Request(Request),
    #[serde(other)]
    Other,
}

/// What came of a download.
#[derive(Debug)]
pub(crate) struct Download {
    pub(crate) request: Request,
    /// Bytes that the link delivered to the client, over time since the start.
    pub(crate) progress: Progress,
}

/// Cumulated bytes at ascending times.
#[derive(Debug, Default)]
pub(crate) struct Progress(Vec<(Duration, u64)>);

/// How often the client is looked after.
const TICK: Duration = Duration::from_millis(10);

/// Fetches `url` in the client's namespace, on a fresh connection.
///
/// # Errors
/// If the client cannot be started or does not report. A download that fails is
/// in its report.
pub(crate) fn fetch(topology: &Topology, mut command: Command) -> Result<Download> {
    let began = Instant::now();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = topology
        .client()
        .spawn(&mut command)?
        .context("starting `hikyaku get`")?;
    let progress = watch(&mut child, topology, began)?;
    let output = child
        .wait_with_output()
        .context("reading the output of `hikyaku get`")?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let request = stdout
        .lines()
        .find_map(|line| match serde_json::from_str(line) {
            Ok(Line::Request(request)) => Some(request),
            _ => None,
        });
    let request = request.with_context(|| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        format!(
            "`hikyaku get` ended with {} and no report: {}{}",
            output.status,
            stdout.trim(),
            stderr.trim()
        )
    })?;
    Ok(Download { request, progress })
}

fn watch(child: &mut Child, topology: &Topology, began: Instant) -> Result<Progress> {
    let mut progress = Progress::default();
    while child
        .try_wait()
        .context("waiting for `hikyaku get`")?
        .is_none()
    {
        thread::sleep(TICK);
        let [_, down] = topology.delivered_bytes();
        progress.0.push((began.elapsed(), down));
    }
    Ok(progress)
}

/// Arguments of `get` for one version.
pub(crate) fn arguments(version: Version, timeout: Duration, url: &str) -> Vec<String> {
    let http = match version {
        Version::H1 => "1.1",
        Version::H2 => "2",
        Version::H3 => "3",
    };
    let timeout = format!("{}ms", timeout.as_millis());
    [
        "get",
        url,
        "--http",
        http,
        "--insecure",
        "--json",
        "--threads",
        "1",
        "--timeout",
        &timeout,
    ]
    .map(str::to_owned)
    .into()
}

impl Request {
    /// From the request's first byte to the response's last. The server sees the
    /// same time from the request's arrival to the last acknowledgement, half a
    /// round trip later.
    pub(crate) fn since_request_us(&self) -> u64 {
        self.send_us + self.wait_us + self.receive_us
    }
}

impl Progress {
    /// Bytes per second over the second half of the time; `None` if nothing came
    /// in it.
    pub(crate) fn late_rate(&self) -> Option<f64> {
        let &(end, last) = self.0.last()?;
        let &(middle, before) = self.0.iter().find(|(at, _)| *at >= end / 2)?;
        let seconds = (end - middle).as_secs_f64();
        (last > before && seconds > 0.0).then(|| (last - before) as f64 / seconds)
    }

    /// All bytes.
    pub(crate) fn total(&self) -> u64 {
        self.0.last().map_or(0, |&(_, bytes)| bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_late_rate_is_that_of_the_second_half() {
        let seconds = Duration::from_secs;
        let cases = [
            ("nothing", vec![], None),
            (
                "slow, then fast",
                vec![(1, 10), (5, 50), (10, 1_050)],
                Some(200.0),
            ),
            (
                "fast, then nothing",
                vec![(1, 1_000), (5, 1_050), (10, 1_050)],
                None,
            ),
            ("one look", vec![(10, 1_000)], None),
        ];
        for (name, looks, want) in cases {
            let progress = Progress(
                looks
                    .into_iter()
                    .map(|(at, bytes)| (seconds(at), bytes))
                    .collect(),
            );
            assert_eq!(progress.late_rate(), want, "{name}");
        }
    }

    #[test]
    fn the_report_is_found_among_other_lines() {
        let text = r#"{"type":"request","local":"10.0.0.1:4711","connect_us":1,"tls_us":2,"send_us":3,"wait_us":4,"receive_us":5,"total_us":15,"body_bytes":10,"timed_out":true,"error":{"kind":"timeout","message":"timed out","hint":null}}"#;
        let Ok(Line::Request(request)) = serde_json::from_str(text) else {
            panic!("no request")
        };
        assert_eq!(request.since_request_us(), 12);
        assert_eq!(request.local.map(|local| local.port()), Some(4711));
        assert!(matches!(
            serde_json::from_str(r#"{"type":"summary"}"#),
            Ok(Line::Other)
        ));
    }
}
