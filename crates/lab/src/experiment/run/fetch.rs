//! One session of `hikyaku get`.

use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::error::{Attempt, RunError};
use super::process::Process;
use super::stop::Stop;
use crate::experiment::spec::{AltSvc, Arm, Http};
use hikyaku_emulator::link::Netns;

/// The fields of the client's report of a request (`docs/get.md`) that matter here.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Request {
    pub(super) url: String,
    /// Repeat of the measurement, from 0.
    #[serde(default)]
    pub(super) run: u32,
    pub(super) http: Option<String>,
    pub(super) status: Option<u16>,
    pub(super) local: Option<SocketAddr>,
    #[serde(default)]
    pub(super) connection: Option<u64>,
    pub(super) start_us: u64,
    pub(super) connect_us: u64,
    pub(super) tls_us: u64,
    pub(super) send_us: u64,
    pub(super) wait_us: u64,
    pub(super) receive_us: u64,
    pub(super) first_byte_us: Option<u64>,
    pub(super) total_us: u64,
    pub(super) body_bytes: u64,
    pub(super) alt_svc: Option<String>,
    pub(super) timed_out: bool,
    pub(super) error: Option<Failure>,
}

/// The reason why a request failed.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Failure {
    pub(super) message: String,
}

/// A line of the client's output.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line {
    Request(Box<Request>),
    #[serde(other)]
    Other,
}

/// The result of a session.
#[derive(Debug)]
pub(super) struct Fetched {
    /// Requests in the order of their starts.
    pub(super) requests: Vec<Request>,
    pub(super) client: Ended,
    /// The reason why there is no result.
    pub(super) error: Option<String>,
}

/// A client that has ended.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Standard output of the client.
    pub(super) text: String,
    /// Exit status of the client, with its last message.
    pub(super) how: String,
    /// Bytes that the link delivered to the client, over time since the start.
    pub(super) progress: Progress,
    /// CPU time that it used, time that it waited for a CPU, and its duration.
    pub(super) used: Duration,
    pub(super) waited: Duration,
    pub(super) took: Duration,
}

/// Cumulated bytes at ascending times.
#[derive(Debug, Default)]
pub(super) struct Progress(Vec<(Duration, u64)>);

/// Returns the arguments of `get` for a session.
pub(super) fn command(
    binary: &Path,
    arm: &Arm,
    connections: Option<u16>,
    urls: &[String],
    timeout: Duration,
) -> Command {
    let timeout = format!("{}ms", timeout.as_millis());
    let http = version(arm.http);
    let mut command = Command::new(binary);
    command
        .arg("get")
        .args(urls)
        .args(["--http", http, "--insecure", "--json", "--threads", "1"])
        .args(["--timeout", &timeout, "--connect-timeout", &timeout]);
    if arm.http == Http::Auto {
        command.args(["--alt-svc", alt_svc(arm.alt_svc)]);
    }
    if let Some(connections) = connections {
        command.args(["--connections", &connections.to_string()]);
    }
    command
}

/// Returns the value of `get --http`.
pub(super) fn version(http: Http) -> &'static str {
    match http {
        Http::Http1 => "1.1",
        Http::Http2 => "2",
        Http::Http3 => "3",
        Http::Auto => "auto",
    }
}

/// Returns the value of `get --alt-svc`.
pub(super) fn alt_svc(mode: AltSvc) -> &'static str {
    match mode {
        AltSvc::Follow => "follow",
        AltSvc::Race => "race",
        AltSvc::Ignore => "ignore",
    }
}

/// Whether progress is needed often, and the bytes that links have delivered so far.
pub(super) type Watch<'a> = (bool, &'a dyn Fn() -> u64);

/// Runs the client as [`run`] does, and parses its report of requests.
pub(super) fn fetch(
    netns: &Netns,
    command: Command,
    stderr: &Path,
    limit: Duration,
    watch: Watch<'_>,
    stop: &Stop,
) -> Result<Option<Fetched>, RunError> {
    let ended = run(netns, command, stderr, limit, watch, stop)?;
    Ok(ended.map(|client| {
        let requests = requests(&client.text);
        Fetched {
            error: requests.is_empty().then(|| client.how.clone()),
            requests,
            client,
        }
    }))
}

/// Runs the client to its end, or kills it at the `limit`. Returns `None` if a signal to stop came
/// first.
///
/// # Errors
/// If the client cannot be started. A failed session is in the report.
pub(super) fn run(
    netns: &Netns,
    mut command: Command,
    stderr: &Path,
    limit: Duration,
    (series, delivered): Watch<'_>,
    stop: &Stop,
) -> Result<Option<Ended>, RunError> {
    let began = Instant::now();
    command.stdout(Stdio::piped());
    let mut client = Process::start(netns, &mut command, stderr)?;
    let Some(mut stdout) = client.child().stdout.take() else {
        unreachable!("standard output is piped");
    };
    // A page's report may be longer than a pipe holds.
    let reader = thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let mut progress = Progress::default();
    let (mut used, mut waited) = (Duration::ZERO, Duration::ZERO);
    let status = loop {
        // Before its end is known, when nothing remains of it.
        used = client.used().max(used);
        waited = client.waited().max(waited);
        let ended = client
            .ended()
            .attempt(|| "waiting for `hikyaku get`".to_owned())?;
        let elapsed = began.elapsed();
        progress.0.push((elapsed, delivered()));
        if let Some(status) = ended {
            break status.to_string();
        }
        if stop.is_set() {
            return Ok(None);
        }
        if elapsed > limit {
            break "was killed".to_owned();
        }
        thread::sleep(tick(elapsed, series));
    };
    let took = began.elapsed();
    let how = format!("`hikyaku get`: {status}: {}", client.said());
    drop(client);
    let text = reader
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        .attempt(|| "reading the output of `hikyaku get`".to_owned())?;
    Ok(Some(Ended {
        text,
        how,
        progress,
        used,
        waited,
        took,
    }))
}

/// Returns the time until the next look at the client. It grows with the duration, since a look
/// takes CPU time from the links.
fn tick(elapsed: Duration, series: bool) -> Duration {
    let max = Duration::from_millis(if series { 20 } else { 100 });
    (elapsed / 50).clamp(Duration::from_millis(5), max)
}

fn requests(text: &str) -> Vec<Request> {
    let mut requests: Vec<Request> = text
        .lines()
        .filter_map(|line| match serde_json::from_str(line) {
            Ok(Line::Request(request)) => Some(*request),
            _ => None,
        })
        .collect();
    requests.sort_by_key(|request| request.start_us);
    requests
}

impl Request {
    /// Time from the request's first byte to the response's last. The server sees the same time
    /// from the request's arrival to the last acknowledgement, half a round trip later.
    pub(super) fn since_request_us(&self) -> u64 {
        self.send_us + self.wait_us + self.receive_us
    }

    /// Name of the file: the end of the URL.
    pub(super) fn file(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or_default()
    }

    pub(super) fn end_us(&self) -> u64 {
        self.start_us + self.total_us
    }
}

impl Progress {
    /// Returns the bytes per second over the second half of the time; `None` if nothing came in it.
    pub(super) fn late_rate(&self) -> Option<f64> {
        let &(end, last) = self.0.last()?;
        let &(middle, before) = self.0.iter().find(|(at, _)| *at >= end / 2)?;
        let seconds = (end - middle).as_secs_f64();
        (last > before && seconds > 0.0).then(|| (last - before) as f64 / seconds)
    }

    /// Number of all bytes.
    pub(super) fn total(&self) -> u64 {
        self.0.last().map_or(0, |&(_, bytes)| bytes)
    }

    /// Returns the rate in Mbit/s over each 100 ms, at their ends.
    pub(super) fn rates(&self) -> Vec<(f64, f64)> {
        const STEP: f64 = 0.1;
        let mut rates = Vec::new();
        let (mut from, mut bytes_before) = (0.0, 0);
        for &(at, bytes) in &self.0 {
            let at = at.as_secs_f64();
            if at - from >= STEP {
                let mbps = (bytes - bytes_before) as f64 * 8e-6 / (at - from);
                rates.push(((at * 1e3).round() / 1e3, (mbps * 1e3).round() / 1e3));
                (from, bytes_before) = (at, bytes);
            }
        }
        rates
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
            let looks = looks.into_iter().map(|(at, bytes)| (seconds(at), bytes));
            assert_eq!(Progress(looks.collect()).late_rate(), want, "{name}");
        }
    }

    #[test]
    fn rates_are_of_at_least_100_ms() {
        let ms = Duration::from_millis;
        let looks = vec![
            (ms(0), 0),
            (ms(50), 1_000),
            (ms(100), 25_000),
            (ms(300), 50_000),
        ];
        assert_eq!(Progress(looks).rates(), [(0.1, 2.0), (0.3, 1.0)]);
    }

    #[test]
    fn reports_are_found_among_other_lines() {
        let text = r#"{"type":"request","url":"https://a/","http":"2","status":200,"local":"10.0.0.1:4711","start_us":7,"connect_us":1,"tls_us":2,"send_us":3,"wait_us":4,"receive_us":5,"first_byte_us":9,"total_us":15,"body_bytes":10,"alt_svc":null,"timed_out":true,"error":{"kind":"timeout","message":"timed out","hint":null}}
{"type":"summary"}
"#;
        let found = requests(text);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].since_request_us(), 12);
        assert_eq!(found[0].local.map(|local| local.port()), Some(4711));
    }
}
