//! Recorded links.

use std::str::FromStr;
use std::sync::Arc;

/// The times at which a recorded link could send, as in mahimahi (Netravali et
/// al., USENIX ATC 2015). They are a list of whole milliseconds, at each of which
/// up to 1500 bytes of IP packets leave. A time that occurs several times carries
/// several times as much.
///
/// A packet that does not fit continues at the next opportunity. Bytes that no
/// waiting packet uses are wasted. A packet that arrives at the very time of an
/// opportunity has missed it. After its last time the trace begins again, without
/// end.
///
/// Its text has one number a line, and lines of `#` are comments. TOML and JSON
/// take that text or a list of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    opportunities_ms: Arc<[u64]>,
    start_ms: u64,
}

/// The reason why a text or list is no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line of the text is not a number.
    #[error("reading a trace: line {line}: `{text}` is not a whole number of milliseconds")]
    Number {
        /// Line number, counted from 1.
        line: usize,
        /// First characters of the line.
        text: String,
    },
    /// A time is smaller than the one before it.
    #[error("reading a trace: {later} ms comes after {earlier} ms; sort the times")]
    Unsorted {
        /// The time before.
        earlier: u64,
        /// The smaller time that follows it.
        later: u64,
    },
    /// The trace has no time at which it sends.
    #[error("reading a trace: it is empty; give the times at which 1500 bytes can be sent")]
    Empty,
    /// The trace has no length, and would send without limit.
    #[error("reading a trace: it ends at 0 ms; its last time is its length")]
    NoLength,
    /// The trace is longer than the range of virtual time.
    #[error("reading a trace: {0} ms is too long; at most 10^12")]
    TooLong(u64),
}

impl Trace {
    /// Bytes of IP packets that one opportunity carries.
    pub const OPPORTUNITY_BYTES: u64 = 1500;

    /// A trace of the given times in ms, in ascending order.
    ///
    /// # Errors
    /// If the list is empty or unsorted, or its last time is 0 or above 10^12.
    pub fn new(opportunities_ms: Vec<u64>) -> Result<Self, TraceError> {
        if let Some(pair) = opportunities_ms.windows(2).find(|pair| pair[0] > pair[1]) {
            let (earlier, later) = (pair[0], pair[1]);
            return Err(TraceError::Unsorted { earlier, later });
        }
        match opportunities_ms.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::NoLength),
            Some(&last) if last > MAX_MS => Err(TraceError::TooLong(last)),
            Some(_) => Ok(Self {
                opportunities_ms: opportunities_ms.into(),
                start_ms: 0,
            }),
        }
    }

    /// The same trace, whose replay begins `start_ms` after the begin of a pass.
    #[must_use]
    pub fn starting_at(&self, start_ms: u64) -> Self {
        Self {
            opportunities_ms: Arc::clone(&self.opportunities_ms),
            start_ms: start_ms % self.length_ms(),
        }
    }

    /// The length of one pass in ms.
    pub fn length_ms(&self) -> u64 {
        self.opportunities_ms[self.opportunities_ms.len() - 1]
    }

    /// The times in ms of one pass; the last is the length of the pass.
    pub fn opportunities_ms(&self) -> &[u64] {
        &self.opportunities_ms
    }

    /// Time of opportunity `n` of the replay, counted from 0 over all passes, in ns.
    pub(crate) fn time_ns(&self, n: u64) -> u64 {
        let len = self.opportunities_ms.len() as u64;
        let n = n.saturating_add(self.before_start());
        let within_ms = self.opportunities_ms[(n % len) as usize];
        (n / len)
            .saturating_mul(self.period_ns())
            .saturating_add(within_ms * NANOS_PER_MS)
            .saturating_sub(self.start_ms * NANOS_PER_MS)
    }

    /// The first opportunity of the replay after `time_ns`.
    pub(crate) fn first_after(&self, time_ns: u64) -> u64 {
        let time_ns = time_ns.saturating_add(self.start_ms * NANOS_PER_MS);
        let pass = time_ns / self.period_ns();
        let within_ns = time_ns % self.period_ns();
        // The rest within the pass is below the last time, so this pass has an
        // opportunity after it.
        let passed = self
            .opportunities_ms
            .partition_point(|&ms| ms * NANOS_PER_MS <= within_ns);
        pass * self.opportunities_ms.len() as u64 + passed as u64 - self.before_start()
    }

    /// Number of the first pass's opportunities before the replay begins.
    fn before_start(&self) -> u64 {
        let start_ms = self.start_ms;
        self.opportunities_ms.partition_point(|&ms| ms < start_ms) as u64
    }

    fn period_ns(&self) -> u64 {
        self.length_ms() * NANOS_PER_MS
    }
}

impl FromStr for Trace {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let lines = text.lines().map(str::trim).enumerate();
        let times = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let times: Result<Vec<u64>, _> = times
            .map(|(index, line)| {
                line.parse().map_err(|_| TraceError::Number {
                    line: index + 1,
                    text: line.chars().take(40).collect(),
                })
            })
            .collect();
        Self::new(times?)
    }
}

const NANOS_PER_MS: u64 = 1_000_000;
/// Longest trace: 31 years, which in nanoseconds still fit a `u64`.
const MAX_MS: u64 = 1_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_strictly() {
        let cases = [
            ("1\n2\n2\n10\n", Ok(vec![1, 2, 2, 10])),
            ("# from a car\r\n 0 \r\n\r\n5\r\n", Ok(vec![0, 5])),
            (
                "1\n2.5\n",
                Err("reading a trace: line 2: `2.5` is not a whole number of milliseconds"),
            ),
            (
                "traces/lte.up",
                Err(
                    "reading a trace: line 1: `traces/lte.up` is not a whole number of milliseconds",
                ),
            ),
            (
                "5\n4",
                Err("reading a trace: 4 ms comes after 5 ms; sort the times"),
            ),
            (
                "\n",
                Err("reading a trace: it is empty; give the times at which 1500 bytes can be sent"),
            ),
            (
                "0\n0",
                Err("reading a trace: it ends at 0 ms; its last time is its length"),
            ),
            (
                "1000000000001",
                Err("reading a trace: 1000000000001 ms is too long; at most 10^12"),
            ),
        ];
        for (text, want) in cases {
            let got = text.parse::<Trace>();
            let got = got.as_ref().map(|trace| trace.opportunities_ms().to_vec());
            assert_eq!(
                got.map_err(ToString::to_string),
                want.map_err(str::to_owned)
            );
        }
    }

    #[test]
    fn opportunities_repeat_with_the_length_of_a_pass() {
        let trace = Trace::new(vec![0, 2, 2, 10]).unwrap();
        let times_ms: Vec<u64> = (0..9).map(|n| trace.time_ns(n) / NANOS_PER_MS).collect();
        assert_eq!(times_ms, [0, 2, 2, 10, 10, 12, 12, 20, 20]);
        for (after_ms, want) in [(0, 1), (1, 1), (2, 3), (9, 3), (10, 5), (12, 7), (20, 9)] {
            let got = trace.first_after(after_ms * NANOS_PER_MS);
            assert_eq!(got, want, "after {after_ms} ms");
        }
    }

    #[test]
    fn a_replay_begins_within_a_pass() {
        let trace = Trace::new(vec![0, 2, 2, 10]).unwrap();
        let cases = [
            (0, [0, 2, 2, 10, 10, 12]),
            (2, [0, 0, 8, 8, 10, 10]),
            // In a gap.
            (5, [5, 5, 7, 7, 15, 15]),
            // As 5.
            (25, [5, 5, 7, 7, 15, 15]),
        ];
        for (start_ms, want) in cases {
            let replay = trace.starting_at(start_ms);
            let times_ms: Vec<u64> = (0..6).map(|n| replay.time_ns(n) / NANOS_PER_MS).collect();
            assert_eq!(times_ms, want, "from {start_ms} ms on");
            for after_ms in 0..12 {
                let first = replay.first_after(after_ms * NANOS_PER_MS);
                assert!(replay.time_ns(first) > after_ms * NANOS_PER_MS);
                assert!(first == 0 || replay.time_ns(first - 1) <= after_ms * NANOS_PER_MS);
            }
        }
    }
}
