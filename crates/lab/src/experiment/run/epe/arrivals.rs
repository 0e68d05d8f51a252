//! Arrival times of content.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use super::super::error::{Attempt, RunError};
use super::super::measured::Measured;
use crate::experiment::record::{Outcome, Point};

/// A pipe into which a client writes its content, read as fast as that comes.
#[derive(Debug)]
pub(super) struct Pipe {
    path: PathBuf,
    reader: JoinHandle<io::Result<Arrivals>>,
    /// Keeps the reader from waiting without end if nobody writes.
    writer: File,
}

/// Bytes of content received at ascending times since the client's start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrivals(Vec<(Duration, u64)>);

impl Pipe {
    /// Makes the pipe at `path`; times count from now.
    ///
    /// # Errors
    /// If the system refuses it.
    pub(super) fn create(path: &Path) -> Result<Self, RunError> {
        let what = || format!("making the pipe {}", path.display());
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, path, FileType::Fifo, mode, 0)
            .map_err(io::Error::from)
            .attempt(what)?;
        let open = |flags| {
            let file = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty());
            file.map(File::from).map_err(io::Error::from).attempt(what)
        };
        // Without this the writing end could not be opened before somebody reads.
        let unblocked = open(OFlags::RDONLY | OFlags::NONBLOCK)?;
        let writer = open(OFlags::WRONLY)?;
        let mut content = open(OFlags::RDONLY)?;
        drop(unblocked);
        let began = Instant::now();
        let reader = thread::spawn(move || {
            let mut arrivals = Arrivals::default();
            let (mut buffer, mut total) = (vec![0; 1 << 16], 0);
            loop {
                match content.read(&mut buffer)? {
                    0 => return Ok(arrivals),
                    read => {
                        total += read as u64;
                        arrivals.0.push((began.elapsed(), total));
                    }
                }
            }
        });
        let path = path.to_owned();
        Ok(Self {
            path,
            reader,
            writer,
        })
    }

    /// Returns all arrivals; the client must have ended.
    ///
    /// # Errors
    /// If the pipe could not be read.
    pub(super) fn end(self) -> Result<Arrivals, RunError> {
        drop(self.writer);
        let arrivals = self
            .reader
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let what = || format!("reading the pipe {}", self.path.display());
        std::fs::remove_file(&self.path).attempt(what)?;
        arrivals.attempt(what)
    }
}

impl Arrivals {
    /// Returns the rate in Mbit/s over each whole second from the first byte on.
    pub(super) fn seconds(&self) -> Vec<f64> {
        let Some(&(first, _)) = self.0.first() else {
            return Vec::new();
        };
        self.rates(first, 1.0)
            .into_iter()
            .map(|(_, rate)| rate)
            .collect()
    }

    /// Returns the rate in Mbit/s over each `step` seconds from the client's start on, at their
    /// ends.
    pub(super) fn series(&self, step: f64) -> Vec<Point> {
        self.rates(Duration::ZERO, step)
    }

    /// Returns the longest time without content, between the first byte and the last.
    pub(super) fn longest_gap(&self) -> Option<Duration> {
        let gaps = self.0.windows(2).map(|pair| pair[1].0 - pair[0].0);
        gaps.max()
    }

    /// Returns the time of the last content.
    pub(super) fn last(&self) -> Duration {
        self.0.last().map_or(Duration::ZERO, |(at, _)| *at)
    }

    fn rates(&self, from: Duration, step: f64) -> Vec<Point> {
        let (mut rates, mut before) = (Vec::new(), 0);
        let mut bytes = 0;
        for &(at, total) in &self.0 {
            let end = |rates: &Vec<Point>| from.as_secs_f64() + step * (rates.len() + 1) as f64;
            while at.as_secs_f64() >= end(&rates) {
                let mbps = (bytes - before) as f64 * 8e-6 / step;
                rates.push((rounded(end(&rates)), rounded(mbps)));
                before = bytes;
            }
            bytes = total;
        }
        rates
    }
}

/// Rounds to a thousandth, the smallest relevant part of seconds and Mbit/s.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Records the arrivals of content until its end, or until the client gave up after `took`.
pub(super) fn record(arrivals: &Arrivals, took: Option<Duration>, measured: &mut Measured) {
    if let Some(min) = arrivals.seconds().into_iter().reduce(f64::min) {
        measured.metric("least_second_mbps", min);
    }
    if let Some(gap) = arrivals.longest_gap() {
        let gap = match (measured.outcome, took) {
            (Outcome::Complete, _) | (_, None) => gap,
            // If the end never came, the time until giving up is a gap, too.
            (_, Some(took)) => gap.max(took.saturating_sub(arrivals.last())),
        };
        measured.metric("longest_gap_ms", gap.as_secs_f64() * 1e3);
    }
    let goodput = arrivals.series(1.0);
    measured.series.insert("goodput_mbps".to_owned(), goodput);
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn arrivals(looks: &[(u64, u64)]) -> Arrivals {
        let looks = looks.iter();
        Arrivals(
            looks
                .map(|&(ms, bytes)| (Duration::from_millis(ms), bytes))
                .collect(),
        )
    }

    #[test]
    fn seconds_count_from_the_first_byte_and_only_whole_ones() {
        let cases = [
            ("nothing", arrivals(&[]), vec![]),
            (
                "less than a second",
                arrivals(&[(500, 10), (1_400, 20)]),
                vec![],
            ),
            (
                "two and a half",
                arrivals(&[
                    (500, 125_000),
                    (1_000, 250_000),
                    (2_000, 500_000),
                    (3_000, 750_000),
                ]),
                vec![2.0, 2.0],
            ),
            (
                "one without anything",
                arrivals(&[(0, 125_000), (2_500, 250_000), (3_000, 375_000)]),
                vec![1.0, 0.0, 1.0],
            ),
        ];
        for (name, arrivals, want) in cases {
            assert_eq!(arrivals.seconds(), want, "{name}");
        }
    }

    #[test]
    fn a_gap_is_between_two_arrivals() {
        assert_eq!(arrivals(&[(700, 1)]).longest_gap(), None);
        let gap = arrivals(&[(700, 1), (720, 2), (1_020, 3)]).longest_gap();
        assert_eq!(gap, Some(Duration::from_millis(300)));
    }

    #[test]
    fn a_pipe_returns_the_written_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let pipe = Pipe::create(&path).unwrap();
        let mut writer = File::options().write(true).open(&path).unwrap();
        writer.write_all(&[0; 100_000]).unwrap();
        drop(writer);
        let Arrivals(looks) = pipe.end().unwrap();
        assert_eq!(looks.last().map(|look| look.1), Some(100_000));
        assert!(!path.exists());
        let nobody = Pipe::create(&path).unwrap();
        assert_eq!(nobody.end().unwrap(), Arrivals::default());
    }
}
