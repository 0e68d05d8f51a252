//! Runs of the measurement, one after the other.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use tokio::time::sleep;

use super::args::GetArgs;
use super::error::GetError;
use super::exchange::Sink;
use super::progress::{Progress, Unit};
use super::record::{ConnectionRecord, Record, RequestRecord, RunRecord, SummaryRecord};
use super::report::Report;
use super::session::{Client, Order, Session};
use super::{ExitStatus, page};

/// A measurement under way.
struct Measurement<'a> {
    args: &'a GetArgs,
    client: Arc<Client>,
    report: Report<'a>,
    runs: Vec<RunRecord>,
    requests: Vec<RequestRecord>,
}

/// Measures as `args` say and writes the results to `out`.
pub(super) async fn measure(
    args: &GetArgs,
    show_progress: bool,
    out: &mut dyn Write,
) -> Result<ExitStatus, GetError> {
    let (unit, total) = if args.repeat > 1 {
        (Unit::Runs, u64::from(args.repeat))
    } else {
        (Unit::Bytes, 0)
    };
    let progress = Progress::new(unit, total, show_progress);
    let mut measurement = Measurement {
        args,
        client: Arc::new(Client::new(args, progress)?),
        report: Report::new(out, args.json, args.repeat == 1),
        runs: Vec::new(),
        requests: Vec::new(),
    };
    measurement.run_all().await?;
    measurement.client.save_cache()?;
    measurement.client.progress.finish();
    let summaries = measurement.summaries();
    measurement.report.summaries(&summaries)?;
    measurement.client.closed().await;
    Ok(measurement.exit_status())
}

impl Measurement<'_> {
    async fn run_all(&mut self) -> Result<(), GetError> {
        let mut kept = None;
        for run in 0..self.args.repeat {
            if run > 0 {
                sleep(self.args.interval).await;
            }
            self.client.settings.overrides.begin(run);
            let session = kept.take().unwrap_or_else(|| {
                self.client.forget();
                Session::new(self.client.clone())
            });
            let keep = self.args.warm && run + 1 < self.args.repeat;
            self.run(run, &session, keep).await?;
            if keep {
                kept = Some(session);
            } else {
                self.close(run, &session)?;
            }
        }
        Ok(())
    }

    async fn run(&mut self, run: u32, session: &Session, keep: bool) -> Result<(), GetError> {
        let client = &self.client;
        let runs = if self.args.page {
            pages(client, session, run).await
        } else {
            vec![urls(client, session, run, keep).await?]
        };
        for (run, requests) in runs {
            let report = &mut self.report;
            client.progress.suspend(|| report.run(&run, &requests))?;
            self.runs.push(run);
            self.requests.extend(requests);
        }
        client.progress.advance(Unit::Runs, 1);
        Ok(())
    }

    fn close(&mut self, run: u32, session: &Session) -> Result<(), GetError> {
        for connection in session.connections() {
            let record = ConnectionRecord::new(run, self.client.epoch, &connection);
            self.report.record(&Record::Connection(record))?;
        }
        session.close();
        Ok(())
    }

    fn summaries(&self) -> Vec<SummaryRecord> {
        let mut urls: Vec<&str> = Vec::new();
        for target in &self.client.settings.targets {
            if !urls.contains(&target.url.as_str()) {
                urls.push(target.url.as_str());
            }
        }
        if self.args.page {
            return urls.iter().map(|url| self.of_page(url)).collect();
        }
        let mut all: Vec<_> = urls.iter().map(|url| self.of_url(url)).collect();
        if self.client.settings.targets.len() > 1 {
            let runs: Vec<_> = self.runs.iter().collect();
            let requests: Vec<_> = self.requests.iter().collect();
            all.push(SummaryRecord::of_runs(None, &runs, &requests));
        }
        all
    }

    fn of_url(&self, url: &str) -> SummaryRecord {
        let own: Vec<_> = self.requests.iter().filter(|r| r.url == url).collect();
        SummaryRecord::of_url(url, &own)
    }

    fn of_page(&self, url: &str) -> SummaryRecord {
        let is_own = |page: &Option<String>| page.as_deref() == Some(url);
        let runs: Vec<_> = self.runs.iter().filter(|r| is_own(&r.page)).collect();
        let requests: Vec<_> = self.requests.iter().filter(|r| is_own(&r.page)).collect();
        SummaryRecord::of_runs(Some(url), &runs, &requests)
    }

    fn exit_status(&self) -> ExitStatus {
        let failures = || self.requests.iter().filter_map(|r| r.error.as_ref());
        if failures().next().is_none() {
            ExitStatus::Success
        } else if failures().all(|error| error.kind == "status") {
            ExitStatus::HttpStatus
        } else {
            ExitStatus::Failed
        }
    }
}

/// Fetches all URLs once, as many at a time as the options allow.
async fn urls(
    client: &Client,
    session: &Session,
    run: u32,
    more_follow: bool,
) -> Result<(RunRecord, Vec<RequestRecord>), GetError> {
    let settings = &client.settings;
    let at_once = settings.connections * settings.parallel;
    let mut sinks = Vec::new();
    for _ in &settings.targets {
        sinks.push(sink(client)?);
    }
    let last = settings.targets.len() - 1;
    let fetches = settings.targets.iter().zip(sinks).enumerate();
    let fetches = fetches.map(|(index, (target, mut sink))| async move {
        let order = Order {
            target,
            template: &settings.template,
            more_follow: more_follow || index < last,
        };
        let fetched = session.fetch(order, &mut sink).await;
        let url = target.url.as_str();
        (index, RequestRecord::new(run, url, client.epoch, &fetched))
    });
    let fetches = stream::iter(fetches).buffer_unordered(at_once);
    let mut requests: Vec<_> = fetches.collect().await;
    requests.sort_by_key(|(index, _)| *index);
    let requests: Vec<_> = requests.into_iter().map(|(_, record)| record).collect();
    Ok((RunRecord::new(run, None, &requests), requests))
}

fn sink(client: &Client) -> Result<Sink, GetError> {
    let Some(path) = &client.settings.output else {
        return Ok(Sink::Discard);
    };
    let file = File::create(path).map_err(|source| GetError::File {
        doing: "creating",
        path: path.clone(),
        source,
    })?;
    Ok(Sink::File(file, path.clone()))
}

/// Loads every page once.
async fn pages(
    client: &Client,
    session: &Session,
    run: u32,
) -> Vec<(RunRecord, Vec<RequestRecord>)> {
    let mut runs = Vec::new();
    for target in &client.settings.targets {
        let requests = page::load(client, session, target, run).await;
        let page = Some(target.url.to_string());
        runs.push((RunRecord::new(run, page, &requests), requests));
    }
    runs
}
