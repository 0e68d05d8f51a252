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

/// Everything that was measured so far.
#[derive(Default)]
struct Measured {
    requests: Vec<RequestRecord>,
    runs: Vec<RunRecord>,
}

/// Measures what `args` ask for and writes the results to `out`.
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
    let client = Arc::new(Client::new(args, progress)?);
    let mut report = Report::new(out, args.json, args.repeat == 1);
    let mut measured = Measured::default();
    let mut kept = None;
    for run in 0..args.repeat {
        if run > 0 {
            sleep(args.interval).await;
        }
        let session = kept.take().unwrap_or_else(|| {
            client.forget();
            Session::new(client.clone())
        });
        let last = run + 1 == args.repeat;
        let runs = if args.page {
            pages(&client, &session, run).await
        } else {
            let more_follow = args.warm && !last;
            vec![urls(&client, &session, run, more_follow).await?]
        };
        for (run, requests) in runs {
            client.progress.suspend(|| report.run(&run, &requests))?;
            measured.runs.push(run);
            measured.requests.extend(requests);
        }
        client.progress.advance(Unit::Runs, 1);
        if args.warm && !last {
            kept = Some(session);
        } else {
            for connection in session.connections() {
                let record = ConnectionRecord::new(run, client.epoch, &connection);
                report.record(&Record::Connection(record))?;
            }
            session.close().await;
        }
    }
    client.save_cache()?;
    client.progress.finish();
    report.summaries(&summaries(args, &client, &measured))?;
    Ok(exit_status(&measured))
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
        RequestRecord::new(run, target.url.as_str(), client.epoch, &fetched)
    });
    let requests: Vec<_> = stream::iter(fetches).buffered(at_once).collect().await;
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

fn summaries(args: &GetArgs, client: &Client, measured: &Measured) -> Vec<SummaryRecord> {
    let mut urls: Vec<&str> = Vec::new();
    for target in &client.settings.targets {
        if !urls.contains(&target.url.as_str()) {
            urls.push(target.url.as_str());
        }
    }
    if args.page {
        return urls.iter().map(|url| of_page(url, measured)).collect();
    }
    let of_url = |url: &&str| {
        let own: Vec<_> = measured.requests.iter().filter(|r| r.url == *url).collect();
        SummaryRecord::of_url(url, &own)
    };
    let mut all: Vec<_> = urls.iter().map(of_url).collect();
    if client.settings.targets.len() > 1 {
        let runs: Vec<_> = measured.runs.iter().collect();
        let requests: Vec<_> = measured.requests.iter().collect();
        all.push(SummaryRecord::of_runs(None, &runs, &requests));
    }
    all
}

fn of_page(url: &str, measured: &Measured) -> SummaryRecord {
    let runs: Vec<_> = (measured.runs.iter())
        .filter(|run| run.page.as_deref() == Some(url))
        .collect();
    let requests: Vec<_> = (measured.requests.iter())
        .filter(|request| request.page.as_deref() == Some(url))
        .collect();
    SummaryRecord::of_runs(Some(url), &runs, &requests)
}

fn exit_status(measured: &Measured) -> ExitStatus {
    let failures = || measured.requests.iter().filter_map(|r| r.error.as_ref());
    if failures().next().is_none() {
        ExitStatus::Success
    } else if failures().all(|error| error.kind == "status") {
        ExitStatus::HttpStatus
    } else {
        ExitStatus::Failed
    }
}
