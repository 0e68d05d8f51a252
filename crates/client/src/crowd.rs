//! Many clients at once, each from an address of its own: one process and one runtime.
//!
//! Each client loads the URLs one after the other, over and over. It shares nothing with the
//! others: its connections, its Alt-Svc cache and its TLS are its own. With a pause between them,
//! its loads are visits, each over connections of its own.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Deserialize;
use tokio::time::{Instant, sleep, sleep_until};

use super::ExitStatus;
use super::args::{GetArgs, HttpChoice};
use super::error::{FetchError, GetError};
use super::exchange::Sink;
use super::progress::{Progress, Unit};
use super::record::{ClientRecord, ErrorRecord, Record, goodput};
use super::report::Report;
use super::session::{Client, Order, Session};
use super::units::us;

/// The content of the file of `--crowd`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Crowd {
    /// Time for which each client loads.
    duration_us: u64,
    /// Time between two visits of a client. Without it a client keeps its connections.
    pause_us: Option<u64>,
    clients: Vec<Member>,
}

/// One client.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Member {
    name: String,
    /// Local address of the client's connections.
    local: IpAddr,
    /// HTTP version, as in `--http`.
    #[serde(deserialize_with = "http_choice")]
    http: HttpChoice,
    /// Time at which the client begins.
    start_us: u64,
}

fn http_choice<'de, D: serde::Deserializer<'de>>(from: D) -> Result<HttpChoice, D::Error> {
    let text = String::deserialize(from)?;
    HttpChoice::from_str(&text, false).map_err(|_| {
        let why = format!("`http` is `{text}`, expected `1.1`, `2`, `3` or `auto`");
        serde::de::Error::custom(why)
    })
}

impl Crowd {
    fn read(path: &Path) -> Result<Self, GetError> {
        let text = std::fs::read_to_string(path);
        let crowd = text.and_then(|text| serde_json::from_str(&text).map_err(io::Error::from));
        crowd.map_err(|source| GetError::File {
            doing: "reading the clients of --crowd from",
            path: path.to_owned(),
            source,
        })
    }
}

/// Runs the clients of the file `path` to their ends, and writes a line for each.
pub(super) async fn run(
    args: &GetArgs,
    path: &Path,
    out: &mut dyn Write,
) -> Result<ExitStatus, GetError> {
    let crowd = Crowd::read(path)?;
    allow_sockets();
    // Before any client begins, since each takes a while.
    let clients = crowd.clients.into_iter().map(|member| {
        let args = GetArgs {
            local: Some(member.local),
            http: member.http,
            // A response without the file would count as a very fast one.
            fail: true,
            ..args.clone()
        };
        Client::new(&args, Progress::new(Unit::Bytes, 0, false)).map(|client| (member, client))
    });
    let clients = clients.collect::<Result<Vec<_>, _>>()?;
    let begin = Instant::now();
    let duration = Duration::from_micros(crowd.duration_us);
    let pause = crowd.pause_us.map(Duration::from_micros);
    let mut records: FuturesUnordered<_> = clients
        .into_iter()
        .map(|(member, client)| member.run(client, begin, duration, pause))
        .collect();
    let mut report = Report::new(out, args.json, false);
    let mut status = ExitStatus::Success;
    while let Some(record) = records.next().await {
        if record.error.is_some() {
            status = ExitStatus::Failed;
        }
        report.record(&Record::Client(Box::new(record)))?;
    }
    Ok(status)
}

/// Raises the limit on open sockets as far as the system allows. If that is too few, connections
/// fail with an error.
fn allow_sockets() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let _ = setrlimit(Resource::Nofile, raised);
}

/// A client's results so far.
#[derive(Debug, Default)]
struct Got {
    bytes: Arc<AtomicU64>,
    requests: Cell<u64>,
    /// HTTP version of the latest response.
    http: Cell<Option<&'static str>>,
    /// Time of each visit that was complete.
    visits: RefCell<Vec<Duration>>,
}

impl Member {
    async fn run(
        self,
        client: Client,
        begin: Instant,
        duration: Duration,
        pause: Option<Duration>,
    ) -> ClientRecord {
        sleep_until(begin + Duration::from_micros(self.start_us)).await;
        let client = Arc::new(client);
        let got = Got::default();
        let (measured, error) = match pause {
            Some(pause) => within(duration, &got.bytes, visit(&client, pause, &got)).await,
            None => {
                let session = Session::new(client.clone());
                let load = async {
                    loop {
                        if let Err(error) = load(&client, &session, true, &got).await {
                            return error;
                        }
                    }
                };
                let ended = within(duration, &got.bytes, load).await;
                session.close();
                ended
            }
        };
        client.closed().await;
        let visits = got.visits.take().into_iter().map(us).collect();
        ClientRecord {
            visits_us: pause.map(|_| visits),
            name: self.name,
            local: self.local.to_string(),
            http: got.http.get(),
            requests: got.requests.get(),
            body_bytes: measured.map(|(bytes, _)| bytes),
            measured_us: measured.map(|(_, time)| us(time)),
            goodput_bps: measured.and_then(|(bytes, time)| goodput(bytes, time)),
            error: error.as_ref().map(ErrorRecord::new),
        }
    }
}

/// Lets a client load for `duration`. Returns the bytes that came in the middle half of it and that
/// half's length, or the reason why loading ended early.
async fn within(
    duration: Duration,
    bytes: &AtomicU64,
    load: impl Future<Output = FetchError>,
) -> (Option<(u64, Duration)>, Option<FetchError>) {
    let watch = async {
        sleep(duration / 4).await;
        let (begin, before) = (Instant::now(), bytes.load(Ordering::Relaxed));
        sleep(duration / 2).await;
        let measured = bytes.load(Ordering::Relaxed) - before;
        let time = begin.elapsed();
        sleep(duration / 4).await;
        (measured, time)
    };
    tokio::select! {
        measured = watch => (Some(measured), None),
        error = load => (None, Some(error)),
    }
}

/// Loads the URLs again and again, each time over new connections, until one fails. The client
/// keeps its Alt-Svc cache, as a browser that returns.
async fn visit(client: &Arc<Client>, pause: Duration, got: &Got) -> FetchError {
    loop {
        let session = Session::new(client.clone());
        let begin = Instant::now();
        let loaded = load(client, &session, false, got).await;
        let time = begin.elapsed();
        session.close();
        if let Err(error) = loaded {
            return error;
        }
        got.visits.borrow_mut().push(time);
        sleep(pause).await;
    }
}

/// Loads the URLs one after the other, until one fails.
async fn load(
    client: &Client,
    session: &Session,
    more_follow: bool,
    got: &Got,
) -> Result<(), FetchError> {
    let settings = &client.settings;
    let mut sink = Sink::Count(got.bytes.clone());
    for (place, target) in settings.targets.iter().enumerate() {
        let order = Order {
            target,
            template: &settings.template,
            more_follow: more_follow || place + 1 < settings.targets.len(),
        };
        let fetched = session.fetch(order, &mut sink).await;
        if let Some(error) = fetched.error {
            return Err(error);
        }
        got.requests.set(got.requests.get() + 1);
        let connection = fetched.connection.as_ref();
        got.http
            .set(connection.map(|connection| connection.version.name()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_middle_half_is_measured() {
        let bytes = AtomicU64::new(0);
        // Slow at first, steady then, fast at the end.
        let load = async {
            for second in 0..8_u32 {
                let rate = [1, 1, 10, 10, 10, 10, 99, 99][second as usize];
                for _ in 0..10 {
                    sleep(Duration::from_millis(100)).await;
                    bytes.fetch_add(rate, Ordering::Relaxed);
                }
            }
            FetchError::Status(0)
        };
        // A little after the load's own steps.
        let duration = Duration::from_millis(8_001);
        let (measured, _) = within(duration, &bytes, async {
            let error = load.await;
            sleep(Duration::from_secs(1)).await;
            error
        })
        .await;
        let (count, time) = measured.unwrap();
        assert_eq!(count, 400);
        assert!((4.0..4.01).contains(&time.as_secs_f64()), "{time:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_client_is_reported() {
        let load = async {
            sleep(Duration::from_secs(3)).await;
            FetchError::Status(404)
        };
        let (measured, error) = within(Duration::from_secs(4), &AtomicU64::new(0), load).await;
        assert_eq!(measured, None);
        assert_eq!(error.unwrap().kind(), "status");
    }

    #[test]
    fn the_file_says_what_is_wrong_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("crowd.json");
        let read = |clients: &str| {
            let text = format!("{{\"duration_us\":1000,\"clients\":[{clients}]}}");
            std::fs::write(&path, text).unwrap();
            Crowd::read(&path).map_err(|error| {
                let source = std::error::Error::source(&error).unwrap();
                format!("{error}: {source}")
            })
        };
        let good = r#"{"name":"a","local":"10.128.0.1","http":"3","start_us":5}"#;
        let crowd = read(good).unwrap();
        assert_eq!(crowd.clients[0].http, HttpChoice::Http3);
        for (from, to, want) in [
            ("\"3\"", "\"4\"", "`http` is `4`, expected `1.1`"),
            ("10.128.0.1", "10.128", "invalid IP address"),
            ("start_us", "start_ms", "unknown field `start_ms`"),
        ] {
            let error = read(&good.replace(from, to)).unwrap_err();
            assert!(error.contains(want) && error.contains("--crowd"), "{error}");
        }
    }
}
