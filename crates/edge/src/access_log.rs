//! The access log: one line a response, written by a thread of its own ([`crate::lines`]).

mod output;

use std::io::{self, IsTerminal};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hikyaku_core::choice::Assignment;
use hikyaku_core::transport::{Decision, State};
use hikyaku_units::arm::{Transport, Version};
use hikyaku_units::human;
use hikyaku_units::{ByteSize, Timestamp};
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

use crate::clock;
use crate::lines::{LineCounts, Lines, Watch};
use crate::pages::Seen;
use crate::sections::{AccessFormat, AccessTarget};
use crate::seldom::Seldom;
use output::Output;

/// Lines that may wait for the disk. Beyond that they are dropped, and counted, rather
/// than that clients wait.
const QUEUE: usize = 65_536;

/// The fields of a line.
#[derive(Debug, Serialize)]
pub(crate) struct Entry<'a> {
    /// When the response was complete, RFC 3339.
    pub(crate) time: Time,
    pub(crate) client: IpAddr,
    /// 0 where a proxy has named the client without it.
    pub(crate) port: u16,
    /// The balancer or proxy that has named the client, to which the figures of the path belong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) via: Option<IpAddr>,
    pub(crate) method: &'a str,
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
    #[serde(serialize_with = "version_name")]
    pub(crate) version: Version,
    /// `None` when the client gave up before there was one.
    pub(crate) status: Option<u16>,
    pub(crate) bytes: u64,
    /// The outcome at the cache, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache: Option<&'static str>,
    /// The number of the request, where a field of it or of its response has it.
    #[serde(rename = "request_id", skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// Every byte was acknowledged.
    pub(crate) complete: bool,
    /// Until the last byte was acknowledged.
    pub(crate) duration_us: u64,
    pub(crate) goodput_bps: u64,
    pub(crate) congestion: &'static str,
    pub(crate) min_rtt_us: u64,
    pub(crate) srtt_us: u64,
    /// On the connection so far.
    pub(crate) packets_sent: u64,
    pub(crate) packets_lost: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delivery_rate_bps: Option<u64>,
    pub(crate) app_limited: bool,
    pub(crate) decision: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) group: &'a str,
    /// The side of the comparison, and what led to the decision.
    #[serde(flatten)]
    pub(crate) basis: Basis,
    /// The way out of the AS: `plain`, a path's name or `aggregate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) route: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) route_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// The times of a page in a browser, where this is its report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) page: Option<&'a Seen>,
    /// Known by name and password.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) user: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) referer: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) user_agent: &'a str,
}

/// The basis of a decision, as far as it takes to judge other settings by the log.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Basis {
    assignment: Assignment,
    probability: f64,
    samples: f32,
    /// Expected load times of a typical response, where they can be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted_us: Option<Predicted>,
    /// The arm that the shadow policy would have preferred instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    shadow: Option<String>,
    /// All that is known of the client, for `hikyaku what-if`.
    state: String,
}

/// Expected load times by the version, each over its transport's congestion control.
#[derive(Clone, Copy, Debug, Serialize)]
struct Predicted {
    h2: u64,
    h3: u64,
}

impl Basis {
    pub(crate) fn of(decision: &Decision) -> Self {
        let view = decision.view();
        let over = |transport| {
            let time = decision.load_over(transport)?.time;
            u64::try_from(time.as_micros()).ok()
        };
        let [h2, h3] = Transport::ALL.map(over);
        Self {
            assignment: decision.assignment,
            probability: rounded(decision.probability, 1e6),
            samples: rounded(f64::from(view.samples), 10.0) as f32,
            predicted_us: h2.zip(h3).map(|(h2, h3)| Predicted { h2, h3 }),
            shadow: decision.shadow_apart().map(|arm| arm.to_string()),
            state: State::of(decision).code(),
        }
    }
}

/// A number with as many digits as `parts` of one show.
fn rounded(number: f64, parts: f64) -> f64 {
    (number * parts).round() / parts
}

/// A time that is written as RFC 3339 with microseconds, in UTC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time(pub(crate) Timestamp);

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.utc().format(&Rfc3339);
        serializer.serialize_str(&text.map_err(serde::ser::Error::custom)?)
    }
}

impl Time {
    fn utc(self) -> OffsetDateTime {
        let nanos = i128::from(self.0.as_micros()) * 1000;
        OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }

    /// As nginx and Apache write it: `21/Nov/2026:09:15:00 +0000`.
    fn common(self) -> String {
        const FORMAT: &[BorrowedFormatItem<'_>] =
            format_description!("[day]/[month repr:short]/[year]:[hour]:[minute]:[second] +0000");
        self.utc().format(FORMAT).unwrap_or_default()
    }
}

fn version_name<S: serde::Serializer>(version: &Version, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(version.name())
}

impl Entry<'_> {
    /// The entry as one line, without its end.
    fn line(&self, format: AccessFormat) -> String {
        match format {
            AccessFormat::Json => serde_json::to_string(self).unwrap_or_default(),
            AccessFormat::Combined => self.combined(),
            AccessFormat::Short => self.short(),
        }
    }

    /// For people: `09:15:00  h3  200  GET /index.html  4.7 kB in 0.91 ms  127.0.0.1`.
    fn short(&self) -> String {
        const FORMAT: &[BorrowedFormatItem<'_>] = format_description!("[hour]:[minute]:[second]");
        let time = self.time.utc().format(FORMAT).unwrap_or_default();
        let (version, method, client) = (self.version.name(), self.method, self.client);
        let status = self
            .status
            .map_or_else(|| "---".to_owned(), |s| s.to_string());
        let path = escape(self.path);
        let size = human::size(ByteSize::from_bytes(self.bytes));
        let duration = human::time(Duration::from_micros(self.duration_us));
        let mut line =
            format!("{time}  {version}  {status}  {method} {path}  {size} in {duration}  {client}");
        match &self.error {
            Some(error) => line.extend(["  ", &escape(error)]),
            None if !self.complete => line.push_str("  incomplete"),
            None => {}
        }
        line
    }

    /// The combined log format, and then: duration in seconds, version, smallest
    /// round-trip time, loss, goodput, decision.
    fn combined(&self) -> String {
        let status = self
            .status
            .map_or_else(|| "-".to_owned(), |s| s.to_string());
        let dash = |text: &str| match text {
            "" => "-".to_owned(),
            text => escape(text),
        };
        let loss = match self.packets_sent {
            0 => 0.0,
            sent => self.packets_lost as f64 / sent as f64,
        };
        format!(
            "{} - {} [{}] \"{} {} {}\" {status} {} \"{}\" \"{}\" {:.6} min_rtt={:.3}ms \
             loss={:.4}% goodput={:.3}Mbps decision={} reason={}",
            self.client,
            dash(self.user),
            self.time.common(),
            self.method,
            escape(self.path),
            http_name(self.version),
            self.bytes,
            dash(self.referer),
            dash(self.user_agent),
            self.duration_us as f64 / 1e6,
            self.min_rtt_us as f64 / 1e3,
            loss * 100.0,
            self.goodput_bps as f64 / 1e6,
            self.decision,
            self.reason,
        )
    }
}

/// As it stands in the request line of a log, where HTTP/2 is `HTTP/2.0`.
const fn http_name(version: Version) -> &'static str {
    match version {
        Version::H1 => "HTTP/1.1",
        Version::H2 => "HTTP/2.0",
        Version::H3 => "HTTP/3.0",
    }
}

/// Quotes and control characters would let a client write lines of its own.
fn escape(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
        out
    })
}

/// Why the access log can't be written.
#[derive(Debug, thiserror::Error)]
#[error("opening the access log {}", path.display())]
pub struct AccessLogError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Takes entries from all connections and writes them, in the order in which they come.
#[derive(Debug)]
pub(crate) struct AccessLog {
    format: AccessFormat,
    lines: Option<Lines>,
    counts: Arc<LineCounts>,
    dropped: Seldom,
}

impl AccessLog {
    /// Opens the log, in the form that its reader is likely to want if none is given: short lines on a
    /// terminal, else JSON. `counts` go on over reloads.
    ///
    /// # Errors
    /// When its file can't be opened for writing, for another reason than the lack of space.
    pub(crate) fn open(
        target: &AccessTarget,
        format: Option<AccessFormat>,
        counts: &Arc<LineCounts>,
    ) -> Result<Self, AccessLogError> {
        let is_read = *target == AccessTarget::Stdout && io::stdout().is_terminal();
        let format = format.unwrap_or(match is_read {
            true => AccessFormat::Short,
            false => AccessFormat::Json,
        });
        let path = match target {
            AccessTarget::Off | AccessTarget::Stdout => "standard output".into(),
            AccessTarget::File(path) => path.clone(),
        };
        let start = || {
            let out = match target {
                AccessTarget::Off => return Ok(None),
                AccessTarget::Stdout => Output::stdout()?,
                AccessTarget::File(path) => Output::open(path)?,
            };
            Lines::start(out, QUEUE, counts, Report(path.clone())).map(Some)
        };
        let lines = start().map_err(|source| AccessLogError {
            path: path.clone(),
            source,
        })?;
        Ok(Self {
            format,
            lines,
            counts: Arc::clone(counts),
            dropped: Seldom::default(),
        })
    }

    /// Whether entries are written at all.
    pub(crate) fn is_on(&self) -> bool {
        self.lines.is_some()
    }

    /// Lines so far, of this log and those before it.
    pub(crate) fn counts(&self) -> &Arc<LineCounts> {
        &self.counts
    }

    /// Hands an entry to the writer, or drops it where too many wait.
    pub(crate) fn write(&self, entry: &Entry<'_>) {
        let Some(lines) = &self.lines else {
            return;
        };
        if !lines.send(entry.line(self.format)) && self.dropped.is_due(clock::now()) {
            let lost = self.counts.lost();
            tracing::warn!(
                "the access log can't be written as fast as lines come: {lost} were lost so far"
            );
        }
    }
}

/// Reports what happens to the log's lines.
struct Report(PathBuf);

impl Watch for Report {
    fn failed(&mut self, error: &io::Error) {
        let path = self.0.display();
        match error.kind() {
            io::ErrorKind::BrokenPipe => {
                tracing::warn!(
                    "writing the access log to {path}: {error}; nothing more is written"
                );
            }
            _ => tracing::warn!(
                "writing the access log to {path}: {error}; trying again each second, and \
                 {QUEUE} lines may wait"
            ),
        }
    }

    fn recovered(&mut self, lost: u64) {
        let path = self.0.display();
        tracing::info!("the access log is written to {path} again; {lost} lines were lost");
    }

    fn gave_up(&mut self, lost: u64) {
        let path = self.0.display();
        tracing::warn!(
            "{lost} lines of the access log could not be written to {path} and are lost"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lines_show_the_fields_that_people_look_for() {
        let entry = |status, complete, error: Option<&str>| Entry {
            time: Time(Timestamp::from_secs(1_800_000_000)),
            client: IpAddr::from([192, 0, 2, 1]),
            port: 4433,
            via: None,
            method: "GET",
            host: "example.org",
            path: "/a\n.html?q=1",
            version: Version::H3,
            status,
            bytes: 47_290,
            cache: None,
            id: None,
            complete,
            duration_us: 12_340,
            goodput_bps: 0,
            congestion: "floor",
            min_rtt_us: 0,
            srtt_us: 0,
            packets_sent: 0,
            packets_lost: 0,
            delivery_rate_bps: None,
            app_limited: false,
            decision: "h3",
            reason: "too_few_samples",
            group: "plain",
            basis: Basis {
                assignment: Assignment::Hikyaku,
                probability: 0.99,
                samples: 0.0,
                predicted_us: None,
                shadow: None,
                state: String::new(),
            },
            route: None,
            route_reason: None,
            error: error.map(str::to_owned),
            page: None,
            user: "",
            referer: "",
            user_agent: "",
        };
        let what = "GET /a\\u{a}.html?q=1  47 kB in 12 ms  192.0.2.1";
        // status, complete, error, the line behind time and version
        let cases = [
            (Some(200), true, None, format!("200  {what}")),
            (Some(200), false, None, format!("200  {what}  incomplete")),
            (None, false, None, format!("---  {what}  incomplete")),
            (
                Some(502),
                true,
                Some("no answer"),
                format!("502  {what}  no answer"),
            ),
        ];
        for (status, complete, error, want) in cases {
            let line = entry(status, complete, error).line(AccessFormat::Short);
            assert_eq!(line, format!("08:00:00  h3  {want}"));
        }
    }
}
