//! Output of results: JSON lines for programs, tables for people.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Duration;

use super::error::GetError;
use super::record::{
    ErrorRecord, LoadRecord, Record, RequestRecord, RunRecord, SummaryRecord, Tally,
};
use super::stats::Distribution;
use super::table::Table;
use super::units;

/// Writes results as they come.
pub(super) struct Report<'a> {
    out: &'a mut dyn Write,
    json: bool,
    /// Whether tables list single requests; with repeats they would hide the summary.
    details: bool,
    /// Failures that were printed already, since repeats tend to fail alike.
    printed: BTreeSet<String>,
}

impl<'a> Report<'a> {
    pub(super) fn new(out: &'a mut dyn Write, json: bool, details: bool) -> Self {
        Self {
            out,
            json,
            details,
            printed: BTreeSet::new(),
        }
    }

    /// Writes a record, for programs only.
    pub(super) fn record(&mut self, record: &Record) -> Result<(), GetError> {
        if !self.json {
            return Ok(());
        }
        serde_json::to_writer(&mut *self.out, record)
            .map_err(io::Error::from)
            .and_then(|()| self.out.write_all(b"\n"))
            .and_then(|()| self.out.flush())
            .map_err(GetError::Output)
    }

    /// Writes a run's requests and their sum.
    pub(super) fn run(
        &mut self,
        run: &RunRecord,
        requests: &[RequestRecord],
    ) -> Result<(), GetError> {
        for request in requests {
            self.record(&Record::Request(Box::new(request.clone())))?;
        }
        self.record(&Record::Run(run.clone()))?;
        if self.json {
            return Ok(());
        }
        self.print_run(run, requests).map_err(GetError::Output)
    }

    fn print_run(&mut self, run: &RunRecord, requests: &[RequestRecord]) -> io::Result<()> {
        if self.details {
            requests_table(requests).write(self.out)?;
            if run.page.is_some() || requests.len() > 1 {
                self.print_sum(run)?;
            }
        }
        for request in requests {
            if let Some(reason) = &request.retry {
                let about = format!("note: {}: sent again after: {reason}", request.url);
                self.print_once(&about)?;
            }
            if let Some(error) = &request.error {
                self.print_error(&request.url, error)?;
            }
        }
        Ok(())
    }

    fn print_sum(&mut self, run: &RunRecord) -> io::Result<()> {
        let name = match &run.page {
            Some(page) => format!("page {page}"),
            None => "all URLs".to_owned(),
        };
        let time = us(run.total_us);
        let bytes = units::bytes(run.tally.body_bytes);
        writeln!(
            self.out,
            "{name}: {time} ms, {bytes}, {}",
            tally(&run.tally)
        )
    }

    fn print_error(&mut self, url: &str, error: &ErrorRecord) -> io::Result<()> {
        self.print_once(&format!("error: fetching {url}: {}", error.message))?;
        match error.hint {
            Some(hint) => self.print_once(&format!("hint: {hint}")),
            None => Ok(()),
        }
    }

    fn print_once(&mut self, line: &str) -> io::Result<()> {
        if self.printed.insert(line.to_owned()) {
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }

    /// Writes the summaries of all runs.
    pub(super) fn summaries(&mut self, summaries: &[SummaryRecord]) -> Result<(), GetError> {
        for summary in summaries {
            self.record(&Record::Summary(Box::new(summary.clone())))?;
        }
        if self.json || self.details {
            return Ok(());
        }
        for summary in summaries {
            self.print_summary(summary).map_err(GetError::Output)?;
        }
        Ok(())
    }

    fn print_summary(&mut self, summary: &SummaryRecord) -> io::Result<()> {
        let name = summary.url.as_deref().unwrap_or("all URLs of a run");
        writeln!(self.out, "{name}: {}", tally(&summary.tally))?;
        let mut table = Table::new(&[
            "", "median", "95% CI", "p95", "min", "mean", "max", "samples",
        ]);
        let total = if summary.of == "page" {
            "page load"
        } else {
            "total"
        };
        table.row(distribution("first byte", "ms", &summary.first_byte_us, us));
        table.row(distribution(total, "ms", &summary.total_us, us));
        table.row(distribution(
            "goodput",
            "Mbit/s",
            &summary.goodput_bps,
            mbps,
        ));
        table.write(self.out)
    }

    /// Writes the result of load mode.
    pub(super) fn load(&mut self, load: LoadRecord) -> Result<(), GetError> {
        if self.json {
            return self.record(&Record::Load(Box::new(load)));
        }
        self.print_load(&load).map_err(GetError::Output)
    }

    fn print_load(&mut self, load: &LoadRecord) -> io::Result<()> {
        writeln!(self.out, "{}: {}", load.url, tally(&load.tally))?;
        writeln!(
            self.out,
            "{} connections, {} requests at once on each, {} threads",
            load.connections, load.parallel, load.threads
        )?;
        writeln!(
            self.out,
            "{:.0} requests/s, {}, {} s, client CPU {} s",
            load.requests_per_sec,
            units::rate(load.goodput_bps.unwrap_or(0)),
            us(load.elapsed_us / 1000),
            us(load.client_cpu_us / 1000),
        )?;
        let mut table = Table::new(&[
            "", "min", "mean", "p50", "p90", "p95", "p99", "p99.9", "max",
        ]);
        let l = &load.latency_us;
        let values = [l.min, l.mean, l.p50, l.p90, l.p95, l.p99, l.p99_9, l.max];
        let cells = values.iter().map(|value| value.map_or_else(dash, us));
        table.row(
            std::iter::once("latency ms".to_owned())
                .chain(cells)
                .collect(),
        );
        table.write(self.out)?;
        match &load.error {
            Some(error) => self.print_error(&load.url, error),
            None => Ok(()),
        }
    }
}

fn requests_table(requests: &[RequestRecord]) -> Table {
    let origin = common_origin(requests);
    let mut table = Table::new(&[
        origin.unwrap_or("url"),
        "HTTP",
        "status",
        "conn",
        "start",
        "blocked",
        "DNS",
        "connect",
        "TLS",
        "send",
        "wait",
        "receive",
        "total ms",
        "body",
        "goodput",
        "RTT",
        "lost",
    ]);
    let epoch = requests.iter().map(|r| r.start_us).min().unwrap_or(0);
    for r in requests {
        let status = match (&r.error, r.status) {
            (Some(error), _) => error.kind.to_owned(),
            (None, Some(status)) => status.to_string(),
            (None, None) => dash(),
        };
        let path = r.path.as_ref();
        table.row(vec![
            shortened(
                r.url
                    .strip_prefix(origin.unwrap_or_default())
                    .unwrap_or(&r.url),
            ),
            r.http.unwrap_or("-").to_owned(),
            status,
            r.connection.map_or_else(dash, |id| id.to_string()),
            us(r.start_us - epoch),
            us(r.blocked_us),
            us(r.resolve_us),
            us(r.connect_us),
            us(r.tls_us),
            us(r.send_us),
            us(r.wait_us),
            us(r.receive_us),
            us(r.total_us),
            units::bytes(r.body_bytes),
            r.goodput_bps.map_or_else(dash, units::rate),
            path.map_or_else(dash, |path| us(path.rtt_us)),
            path.map_or_else(dash, |path| path.packets_lost.to_string()),
        ]);
    }
    table
}

/// Scheme and authority, if all requests have the same.
fn common_origin(requests: &[RequestRecord]) -> Option<&str> {
    let origin = |url| -> Option<&str> {
        let (scheme, rest) = str::split_once(url, "://")?;
        let authority = rest.split('/').next()?;
        Some(&url[..scheme.len() + "://".len() + authority.len()])
    };
    let first = origin(&requests.first()?.url)?;
    let same = requests.iter().all(|r| origin(&r.url) == Some(first));
    same.then_some(first)
}

fn tally(tally: &Tally) -> String {
    let versions: Vec<String> = tally
        .http
        .iter()
        .map(|(version, count)| format!("{count} over HTTP/{version}"))
        .collect();
    format!(
        "{} requests ({}), {} failed, {} of them timed out",
        tally.requests,
        versions.join(", "),
        tally.failed,
        tally.timed_out,
    )
}

fn distribution(
    name: &str,
    unit: &str,
    values: &Distribution,
    show: impl Fn(u64) -> String,
) -> Vec<String> {
    let cell = |value: Option<u64>| value.map_or_else(dash, &show);
    let interval = values.median_ci95.map_or_else(dash, |[low, high]| {
        format!("{} .. {}", show(low), show(high))
    });
    vec![
        format!("{name} {unit}"),
        cell(values.median),
        interval,
        cell(values.p95),
        cell(values.min),
        cell(values.mean),
        cell(values.max),
        values.count.to_string(),
    ]
}

fn dash() -> String {
    "-".to_owned()
}

fn us(microseconds: u64) -> String {
    units::ms(Duration::from_micros(microseconds))
}

fn mbps(bits_per_sec: u64) -> String {
    format!("{:.2}", bits_per_sec as f64 / 1e6)
}

/// Shortens a URL to leave room for the figures. Its end says more than its middle.
fn shortened(url: &str) -> String {
    const LONGEST: usize = 48;
    const HEAD: usize = 20;
    let length = url.chars().count();
    if length <= LONGEST {
        return url.to_owned();
    }
    let head: String = url.chars().take(HEAD).collect();
    let tail: String = url.chars().skip(length - (LONGEST - HEAD - 1)).collect();
    format!("{head}…{tail}")
}
