//! The server's access log, read as it grows.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::record::ServerView;

/// A line of the log, as far as it matters here (`docs/logs.md`).
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Line {
    /// The client's.
    pub(crate) port: u16,
    /// Every byte was acknowledged.
    pub(crate) complete: bool,
    /// From the request's arrival until the last byte was acknowledged.
    pub(crate) duration_us: u64,
    #[serde(flatten)]
    pub(crate) server: ServerView,
}

/// A log that one server appends to.
#[derive(Debug)]
pub(crate) struct AccessLog {
    path: PathBuf,
    file: Option<File>,
    /// Read, but without its end yet.
    rest: String,
}

impl AccessLog {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: None,
            rest: String::new(),
        }
    }

    /// Waits for the line of the connection from `port`, skipping all others, at
    /// most until `timeout` has passed.
    ///
    /// # Errors
    /// If the file is not there, or a line is not as documented.
    pub(crate) fn wait_for(&mut self, port: u16, timeout: Duration) -> Result<Option<Line>> {
        let began = Instant::now();
        loop {
            while let Some(line) = self.next_line()? {
                if line.port == port {
                    return Ok(Some(line));
                }
            }
            if began.elapsed() >= timeout {
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn next_line(&mut self) -> Result<Option<Line>> {
        let what = || format!("reading the access log {}", self.path.display());
        if !self.rest.contains('\n') {
            let file = match &mut self.file {
                Some(file) => file,
                None => self.file.insert(File::open(&self.path).with_context(what)?),
            };
            file.read_to_string(&mut self.rest).with_context(what)?;
        }
        let Some((line, rest)) = self.rest.split_once('\n') else {
            return Ok(None);
        };
        let parsed = serde_json::from_str(line).with_context(|| format!("{}: {line}", what()))?;
        self.rest = rest.to_owned();
        Ok(Some(parsed))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn line(port: u16) -> String {
        format!(
            r#"{{"client":"::1","port":{port},"complete":true,"duration_us":9,"packets_sent":7,"packets_lost":1,"min_rtt_us":5,"srtt_us":6,"bytes":3}}"#
        )
    }

    #[test]
    fn lines_are_found_by_port_even_if_they_come_in_parts() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut log = AccessLog::new(file.path());
        let now = Duration::ZERO;
        assert!(log.wait_for(1, now).unwrap().is_none());
        let (whole, half) = (line(1), line(2));
        write!(file, "{}\n{whole}\n{}", line(9), &half[..40]).unwrap();
        assert_eq!(
            log.wait_for(1, now).unwrap().map(|line| line.duration_us),
            Some(9)
        );
        assert!(log.wait_for(2, now).unwrap().is_none());
        writeln!(file, "{}", &half[40..]).unwrap();
        let found = log.wait_for(2, now).unwrap().unwrap();
        assert_eq!(
            (found.server.packets_sent, found.server.packets_lost),
            (7, 1)
        );
    }

    #[test]
    fn a_line_that_is_no_log_is_an_error() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "hello").unwrap();
        assert!(
            AccessLog::new(file.path())
                .wait_for(1, Duration::ZERO)
                .is_err()
        );
    }
}
