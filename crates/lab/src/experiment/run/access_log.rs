//! The server's access log, read as it grows.

use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::error::{Attempt, RunError};

/// The fields of a line that matter here (`docs/logs.md`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Line {
    /// The client's address and port.
    #[serde(default)]
    pub(super) client: Option<IpAddr>,
    port: u16,
    path: String,
    /// Whether every byte was acknowledged.
    pub(super) complete: bool,
    /// Time from the request's arrival until the last byte was acknowledged.
    pub(super) duration_us: u64,
    /// Packets that the connection has sent so far.
    pub(super) packets_sent: u64,
    /// Lost packets of these, without spurious losses.
    pub(super) packets_lost: u64,
    /// Whether `delivery_rate_bps` is of a time in which the server had nothing more to send.
    #[serde(default)]
    pub(super) app_limited: bool,
    /// Smallest round-trip time; 0 while unknown.
    pub(super) min_rtt_us: u64,
    /// Smoothed round-trip time; 0 while unknown.
    #[serde(default)]
    pub(super) srtt_us: u64,
    /// The egress route at the response's end, with the code of its reason.
    pub(super) route: Option<String>,
    pub(super) route_reason: Option<String>,
    pub(super) delivery_rate_bps: Option<u64>,
    /// The server's choice for the client.
    pub(super) congestion: Option<String>,
    pub(super) decision: Option<String>,
    /// Code of the reason.
    pub(super) reason: Option<String>,
}

/// A log to which one server appends.
#[derive(Debug)]
pub(super) struct AccessLog {
    path: PathBuf,
    file: Option<File>,
    /// Text without its line's end yet.
    rest: String,
}

impl AccessLog {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: None,
            rest: String::new(),
        }
    }

    /// Waits for the line of the request for `path` from `port`, at most until `timeout` has
    /// passed. All other lines are skipped.
    ///
    /// # Errors
    /// If the file does not exist, or a line is not as documented.
    pub(super) fn wait_for(
        &mut self,
        port: u16,
        path: &str,
        timeout: Duration,
    ) -> Result<Option<Line>, RunError> {
        let began = Instant::now();
        loop {
            while let Some(line) = self.next_line()? {
                if line.port == port && line.path == path {
                    return Ok(Some(line));
                }
            }
            if began.elapsed() >= timeout {
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for as many lines of `path`, at most until `timeout` has passed, and returns them.
    ///
    /// # Errors
    /// As [`Self::wait_for`].
    pub(super) fn wait_for_all(
        &mut self,
        count: usize,
        path: &str,
        timeout: Duration,
    ) -> Result<Vec<Line>, RunError> {
        let began = Instant::now();
        let mut lines = Vec::new();
        loop {
            while let Some(line) = self.next_line()? {
                if line.path == path {
                    lines.push(line);
                }
            }
            if lines.len() >= count || began.elapsed() >= timeout {
                return Ok(lines);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn next_line(&mut self) -> Result<Option<Line>, RunError> {
        let what = || format!("reading the access log {}", self.path.display());
        if !self.rest.contains('\n') {
            let file = match &mut self.file {
                Some(file) => file,
                None => self.file.insert(File::open(&self.path).attempt(what)?),
            };
            file.read_to_string(&mut self.rest).attempt(what)?;
        }
        let Some((line, rest)) = self.rest.split_once('\n') else {
            return Ok(None);
        };
        let parsed = serde_json::from_str(line).map_err(|error| RunError::Report {
            program: "`hikyaku serve`",
            why: format!("{error} in the access log's line {line}"),
        })?;
        self.rest = rest.to_owned();
        Ok(Some(parsed))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn line(port: u16, path: &str) -> String {
        format!(
            r#"{{"client":"::1","port":{port},"path":"{path}","complete":true,"duration_us":9,"packets_sent":7,"packets_lost":1,"min_rtt_us":5,"srtt_us":6,"bytes":3}}"#
        )
    }

    #[test]
    fn lines_are_found_by_port_and_path_even_if_they_come_in_parts() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut log = AccessLog::new(file.path());
        let now = Duration::ZERO;
        assert!(log.wait_for(1, "/a", now).unwrap().is_none());
        let (whole, half) = (line(1, "/a"), line(2, "/a"));
        let others = format!("{}\n{}", line(9, "/a"), line(1, "/b"));
        write!(file, "{others}\n{whole}\n{}", &half[..40]).unwrap();
        let found = log.wait_for(1, "/a", now).unwrap();
        assert_eq!(found.map(|line| line.duration_us), Some(9));
        assert!(log.wait_for(2, "/a", now).unwrap().is_none());
        writeln!(file, "{}", &half[40..]).unwrap();
        let found = log.wait_for(2, "/a", now).unwrap().unwrap();
        assert_eq!((found.packets_sent, found.packets_lost), (7, 1));
    }

    #[test]
    fn a_line_that_is_no_log_is_an_error() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "hello").unwrap();
        let mut log = AccessLog::new(file.path());
        assert!(log.wait_for(1, "/a", Duration::ZERO).is_err());
    }
}
