//! A visit of headless Chromium, driven by its DevTools protocol.

mod devtools;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::certificate::HOST;
use super::error::RunError;
use super::measured::Measured;
use super::process::Process;
use crate::experiment::record::Outcome;
use devtools::DevTools;
use hikyaku_emulator::link::Topology;
use hikyaku_emulator::link::privileges::is_program;

/// Names under which Chromium is installed; messages name the first.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Returns the browser's program: the first on PATH.
pub(super) fn program() -> &'static str {
    let found = PROGRAMS.into_iter().find(|name| is_program(name.as_ref()));
    found.unwrap_or(PROGRAMS[0])
}

/// Time that the browser may take to start, to answer, or to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// One page, loaded by a browser that is started for it.
#[derive(Debug)]
pub(super) struct Visit<'a> {
    pub(super) topology: &'a Topology,
    /// Address of the server.
    pub(super) address: SocketAddr,
    /// Path of the page, without the slash.
    pub(super) path: &'a str,
    /// Name of the last file.
    pub(super) last: &'a str,
    /// Public key hash of the server's certificate.
    pub(super) spki: &'a str,
    /// Directory of the browser's data.
    pub(super) profile: &'a Path,
    pub(super) log: &'a Path,
    /// Time limit of the page's load.
    pub(super) timeout: Duration,
}

/// A document or resource by `PerformanceResourceTiming`. Times are in ms since the navigation's
/// start.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Timing {
    name: String,
    next_hop_protocol: String,
    connect_start: f64,
    connect_end: f64,
    response_start: f64,
    response_end: f64,
    /// Load event; of the document alone.
    #[serde(default)]
    load_event_start: f64,
    encoded_body_size: u64,
}

/// A page's report on its load.
#[derive(Debug, Deserialize)]
struct Loaded {
    /// The document, and all its resources.
    timings: Vec<Timing>,
    /// The largest contentful paint, in ms since the navigation's start; `None` where nothing was painted.
    lcp: Option<f64>,
}

/// Script that returns [`Loaded`]. A paint is reported a little after the load event.
const LOADED: &str = "(async () => { \
    const lcp = await new Promise(resolve => { \
        new PerformanceObserver(list => resolve(list.getEntries().at(-1).startTime)) \
            .observe({ type: 'largest-contentful-paint', buffered: true }); \
        setTimeout(() => resolve(null), 1000); }); \
    const timings = ['navigation', 'resource'].flatMap(type => \
        performance.getEntriesByType(type)).map(entry => entry.toJSON()); \
    return JSON.stringify({ timings, lcp }); })()";

/// The extensions of a page's files whose last one's end is a metric.
const KINDS: [&str; 4] = ["css", "js", "png", "bmp"];

impl Visit<'_> {
    /// Starts the browser, loads the page, and ends the browser so that it keeps its Alt-Svc cache.
    pub(super) fn run(&self, measured: &mut Measured) -> Result<(), RunError> {
        let port = self.profile.join("DevToolsActivePort");
        let _ = fs::remove_file(&port);
        let mut browser = Process::start(self.topology.client(), &mut self.command(), self.log)?;
        // On a thread in the client's namespace, since the browser listens on its loopback.
        let visited = self.topology.client().enter(|| self.visit(&port))?;
        match visited {
            Ok(loaded) => self.measure(&loaded, measured),
            Err(Failure::TimedOut) => {
                measured.metric("load_ms", self.timeout.as_secs_f64() * 1e3);
                measured.fail(
                    Outcome::TimedOut,
                    "the page's load event never came".to_owned(),
                );
            }
            Err(Failure::Broken(why)) => {
                measured.fail(
                    Outcome::Failed,
                    format!("Chromium: {why}: {}", browser.said()),
                );
            }
        }
        let asked = Instant::now();
        while matches!(browser.ended(), Ok(None)) && asked.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(program());
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--no-proxy-server",
            "--remote-debugging-port=0",
        ]);
        let server = self.address.ip();
        command
            .arg(format!(
                "--host-resolver-rules=MAP {HOST} {server},MAP * ~NOTFOUND,EXCLUDE 127.0.0.1"
            ))
            .arg(format!("--user-data-dir={}", self.profile.display()))
            .arg(format!(
                "--ignore-certificate-errors-spki-list={}",
                self.spki
            ))
            // Not forced, since the port is another. Without the option QUIC does not accept the
            // certificate.
            .arg(format!("--origin-to-force-quic-on={HOST}:1"))
            .arg("about:blank")
            .stdout(Stdio::null());
        command
    }

    fn visit(&self, port: &Path) -> Result<Loaded, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| Failure::Broken(error.to_string()))?;
        runtime.block_on(async {
            let mut tools = within(DevTools::connect(port)).await?;
            within(tools.open_page()).await?;
            let url = format!("https://{HOST}:{}/{}", self.address.port(), self.path);
            within(tools.command("Page.navigate", &serde_json::json!({ "url": url }))).await?;
            let loaded =
                tokio::time::timeout(self.timeout, tools.event("Page.loadEventFired")).await;
            let loaded = match loaded {
                Ok(loaded) => loaded.map_err(Failure::Broken),
                Err(_) => Err(Failure::TimedOut),
            };
            let loaded = match loaded {
                Ok(()) => within(tools.evaluate(LOADED)).await,
                Err(failure) => Err(failure),
            };
            // Closed in order, so that the Alt-Svc cache is written.
            let closed = within(tools.command("Browser.close", &serde_json::json!({}))).await;
            let loaded = loaded?;
            closed?;
            serde_json::from_str(&loaded)
                .map_err(|error| Failure::Broken(format!("{error}: {loaded}")))
        })
    }

    fn measure(&self, Loaded { timings, lcp }: &Loaded, measured: &mut Measured) {
        let [document, resources @ ..] = &timings[..] else {
            return measured.fail(Outcome::Failed, "Chromium reported no document".to_owned());
        };
        measured.metric("load_ms", document.load_event_start);
        measured.metric(
            "handshake_ms",
            document.connect_end - document.connect_start,
        );
        measured.metric("first_byte_ms", document.response_start);
        let bytes: u64 = timings.iter().map(|timing| timing.encoded_body_size).sum();
        measured.metric(
            "goodput_mbps",
            bytes as f64 * 8e-3 / document.load_event_start.max(0.001),
        );
        measured.label("http_first", version(&document.next_hop_protocol));
        let http3 = resources
            .iter()
            .filter(|resource| resource.next_hop_protocol == "h3")
            .count();
        measured.metric("h3_share", http3 as f64 / resources.len().max(1) as f64);
        if let Some(lcp) = lcp {
            measured.metric("lcp_ms", *lcp);
        }
        for kind in KINDS {
            let of = resources
                .iter()
                .filter(|it| it.name.ends_with(&format!(".{kind}")));
            if let Some(end) = of.map(|it| it.response_end).max_by(f64::total_cmp) {
                measured.metric(&format!("{kind}_ms"), end);
            }
        }
        let last = timings
            .iter()
            .rev()
            .find(|timing| timing.name.ends_with(self.last));
        match last {
            Some(last) => measured.label("http", version(&last.next_hop_protocol)),
            None => measured.fail(
                Outcome::Failed,
                format!("Chromium did not load `{}`", self.last),
            ),
        }
    }
}

/// The reason why a visit gave no result.
#[derive(Debug)]
enum Failure {
    TimedOut,
    Broken(String),
}

async fn within<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, Failure> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done.map_err(Failure::Broken),
        Err(_) => Err(Failure::Broken("it does not answer".to_owned())),
    }
}

/// Returns `1.1`, `2` or `3` for an ALPN name.
fn version(alpn: &str) -> &str {
    match alpn {
        "http/1.1" => "1.1",
        "h2" => "2",
        "h3" => "3",
        other => other,
    }
}
