//! Load mode: as many requests as the server can answer.
//!
//! A fixed number of workers each send one request after the other. A request has no task of its
//! own, and only its latency is recorded. So the client's share of the machine stays small.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::ExitStatus;
use super::args::GetArgs;
use super::connection::{Connection, HttpVersion};
use super::error::{FetchError, GetError};
use super::exchange::{self, Sink};
use super::pool::Checkout;
use super::progress::{Progress, Unit};
use super::record::{ErrorRecord, LatencyRecord, LoadRecord, Tally, goodput};
use super::report::Report;
use super::session::{Client, Session};
use super::stats::{mean, percentile};
use super::target::Target;
use super::timeline::Timeline;
use super::units::us;

/// Sends `requests` requests as `args` say and writes the result to `out`.
pub(super) async fn run(
    args: &GetArgs,
    requests: u64,
    show_progress: bool,
    out: &mut dyn Write,
) -> Result<ExitStatus, GetError> {
    let progress = Progress::new(Unit::Requests, requests, show_progress);
    let client = Arc::new(Client::new(args, progress)?);
    let session = Arc::new(Session::new(client.clone()));
    let load = Arc::new(Load {
        remaining: AtomicU64::new(requests),
        target: client.settings.targets[0].clone(),
        client,
        session,
    });
    let opened = load.open_all().await;
    let cpu = cpu_time();
    let start = Instant::now();
    let done = match opened {
        Ok(checkouts) => load.work(checkouts).await,
        Err(error) => Done::failed_before(requests, error),
    };
    let elapsed = start.elapsed();
    let client_cpu = cpu_time().saturating_sub(cpu);
    load.client.progress.finish();
    let failed = done.tally.failed > 0;
    let record = load.record(args, done, elapsed, client_cpu);
    Report::new(out, args.json, true).load(record)?;
    load.session.close();
    load.client.closed().await;
    Ok(if failed {
        ExitStatus::Failed
    } else {
        ExitStatus::Success
    })
}

struct Load {
    client: Arc<Client>,
    session: Arc<Session>,
    target: Target,
    /// Requests that no worker has taken yet.
    remaining: AtomicU64,
}

/// The results of one worker, or of all together.
#[derive(Default)]
struct Done {
    tally: Tally,
    /// Latencies of requests that were answered or timed out, in µs.
    latencies: Vec<u32>,
    first_error: Option<FetchError>,
}

impl Load {
    /// Opens all connections before the clock starts: one checkout for each worker.
    async fn open_all(&self) -> Result<Vec<Checkout>, FetchError> {
        let settings = &self.client.settings;
        let origin = &self.target.origin;
        let first = self.session.checkout(origin, None).await?;
        let workers = match first.connection.version {
            HttpVersion::Http1 => settings.connections_http1,
            _ => settings.connections * settings.parallel,
        };
        let mut checkouts = vec![first];
        while checkouts.len() < workers {
            checkouts.push(self.session.checkout(origin, None).await?);
        }
        Ok(checkouts)
    }

    async fn work(self: &Arc<Self>, checkouts: Vec<Checkout>) -> Done {
        let mut workers = JoinSet::new();
        for checkout in checkouts {
            let load = self.clone();
            workers.spawn(async move { load.worker(checkout).await });
        }
        let mut all = Done::default();
        while let Some(done) = workers.join_next().await {
            if let Ok(done) = done {
                all.add(done);
            }
        }
        all
    }

    async fn worker(&self, checkout: Checkout) -> Done {
        let mut checkout = checkout;
        let mut sender = checkout.connection.sender.clone();
        let mut done = Done::default();
        while self.take_one() {
            let outcome = self
                .request(&checkout.connection, &mut sender, &mut done)
                .await;
            self.client.progress.advance(Unit::Requests, 1);
            if let Err(error) = outcome {
                if error.breaks_connection() {
                    checkout.connection.retire();
                }
                done.first_error.get_or_insert(error);
                if checkout.connection.is_usable() {
                    continue;
                }
                // A failure to reconnect counts as the next request's.
                let origin = &self.target.origin;
                drop(checkout);
                match self.session.checkout(origin, None).await {
                    Ok(again) => checkout = again,
                    Err(_) => {
                        done.give_up(self.remaining.swap(0, Ordering::Relaxed));
                        return done;
                    }
                }
                sender = checkout.connection.sender.clone();
            }
        }
        done
    }

    fn take_one(&self) -> bool {
        let take = |left: u64| left.checked_sub(1);
        self.remaining
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    /// Sends one request and counts it in `done`.
    async fn request(
        &self,
        connection: &Connection,
        sender: &mut super::connection::Sender,
        done: &mut Done,
    ) -> Result<(), FetchError> {
        let settings = &self.client.settings;
        let mut timeline = Timeline::new(Instant::now());
        let mut status = None;
        let mut body = 0;
        let exchange = async {
            let response =
                exchange::send(sender, &settings.template, &self.target, &mut timeline).await?;
            status = Some(response.status.as_u16());
            let progress = &self.client.progress;
            response.read(&mut Sink::Discard, &mut body, progress).await
        };
        let outcome = match timeout(settings.timeout, exchange).await {
            Err(_) => Err(FetchError::Timeout(settings.timeout)),
            Ok(Ok(())) => match status.filter(|status| settings.fail && *status >= 400) {
                Some(status) => Err(FetchError::Status(status)),
                None => Ok(()),
            },
            Ok(Err(error)) => Err(error),
        };
        let timed_out = outcome.as_ref().is_err_and(FetchError::is_timeout);
        let tally = &mut done.tally;
        tally.requests += 1;
        tally.failed += u64::from(outcome.is_err());
        tally.timed_out += u64::from(timed_out);
        tally.body_bytes += body;
        if status.is_some() {
            *tally.http.entry(connection.version.name()).or_default() += 1;
        }
        if outcome.is_ok() || timed_out {
            let latency = us(timeline.start.elapsed());
            done.latencies
                .push(u32::try_from(latency).unwrap_or(u32::MAX));
        }
        outcome
    }

    fn record(
        &self,
        args: &GetArgs,
        mut done: Done,
        elapsed: Duration,
        client_cpu: Duration,
    ) -> LoadRecord {
        let connections = self.session.connections().len();
        let answered = (done.tally.requests - done.tally.failed) as f64;
        let body_bytes = done.tally.body_bytes;
        let latency_us = done.latency();
        let takes_turns = done.tally.http.contains_key(HttpVersion::Http1.name());
        LoadRecord {
            url: self.target.url.to_string(),
            connections,
            parallel: if takes_turns {
                1
            } else {
                self.client.settings.parallel
            },
            threads: super::threads(args),
            elapsed_us: us(elapsed),
            requests_per_sec: answered / elapsed.as_secs_f64().max(f64::MIN_POSITIVE),
            goodput_bps: goodput(body_bytes, elapsed),
            latency_us,
            client_cpu_us: us(client_cpu),
            error: done.first_error.as_ref().map(ErrorRecord::new),
            tally: done.tally,
        }
    }
}

impl Done {
    /// The result after a failed connection: all requests failed.
    fn failed_before(requests: u64, error: FetchError) -> Self {
        let mut done = Self::default();
        done.give_up(requests);
        done.first_error = Some(error);
        done
    }

    /// Counts unsent requests as failed.
    fn give_up(&mut self, requests: u64) {
        self.tally.requests += requests;
        self.tally.failed += requests;
    }

    fn add(&mut self, other: Self) {
        let (tally, more) = (&mut self.tally, other.tally);
        tally.requests += more.requests;
        tally.failed += more.failed;
        tally.timed_out += more.timed_out;
        tally.body_bytes += more.body_bytes;
        for (version, count) in more.http {
            *tally.http.entry(version).or_default() += count;
        }
        self.latencies.extend(other.latencies);
        self.first_error = self.first_error.take().or(other.first_error);
    }

    fn latency(&mut self) -> LatencyRecord {
        self.latencies.sort_unstable();
        let sorted: Vec<u64> = self.latencies.iter().map(|us| u64::from(*us)).collect();
        LatencyRecord {
            min: sorted.first().copied(),
            mean: mean(&sorted),
            p50: percentile(&sorted, 50.0),
            p90: percentile(&sorted, 90.0),
            p95: percentile(&sorted, 95.0),
            p99: percentile(&sorted, 99.0),
            p99_9: percentile(&sorted, 99.9),
            max: sorted.last().copied(),
        }
    }
}

/// CPU time of all threads of the client so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
