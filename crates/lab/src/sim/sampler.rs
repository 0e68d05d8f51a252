//! Samples of the state over time, bounded in number.

use std::time::Duration;

use hikyaku_units::Timestamp;

use super::scenario::{FlowSample, Sample};

/// Time between two samples at first.
const INTERVAL: Duration = Duration::from_millis(100);
/// Largest number of kept samples. Beyond it, every second one is dropped and the interval doubles.
/// So a series of hours takes no more room than one of a minute.
const MAX_SAMPLES: usize = 1_200;

/// A sampler of the present state, in equal intervals.
pub(super) struct Sampler {
    interval: Duration,
    due: Timestamp,
    samples: Vec<Sample>,
    packets: u64,
    waited: u64,
}

impl Sampler {
    pub(super) fn new() -> Self {
        Self {
            interval: INTERVAL,
            due: Timestamp::default(),
            samples: Vec::new(),
            packets: 0,
            waited: 0,
        }
    }

    /// Adds the wait of a packet that has come, in µs.
    pub(super) fn on_packet(&mut self, wait: u32) {
        self.packets += 1;
        self.waited += u64::from(wait);
    }

    /// Takes the samples due before `next`; nothing changes until then.
    pub(super) fn before(&mut self, next: Timestamp, flows: impl Fn() -> Vec<FlowSample>) {
        while self.due < next {
            self.take(self.due, flows());
            self.due = self.due.saturating_add(self.interval);
            if self.samples.len() > MAX_SAMPLES {
                self.thin();
            }
        }
    }

    /// Returns all samples, with one of the end.
    pub(super) fn end(mut self, now: Timestamp, flows: Vec<FlowSample>) -> Vec<Sample> {
        self.take(now, flows);
        self.samples
    }

    fn take(&mut self, at: Timestamp, flows: Vec<FlowSample>) {
        self.samples.push(Sample {
            at: at.since(Timestamp::default()),
            packets: self.packets,
            waited: self.waited,
            flows,
        });
    }

    fn thin(&mut self) {
        let mut keep = false;
        self.samples.retain(|_| {
            keep = !keep;
            keep
        });
        self.interval *= 2;
        let last = self.samples.last().map_or(Duration::ZERO, |last| last.at);
        self.due = Timestamp::default().saturating_add(last + self.interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_keeps_equal_steps() {
        let mut sampler = Sampler::new();
        let end = Timestamp::from_secs(1_000);
        sampler.before(end, Vec::new);
        let samples = sampler.end(end, Vec::new());
        assert!((MAX_SAMPLES / 2..=MAX_SAMPLES + 1).contains(&samples.len()));
        let steps: Vec<_> = samples
            .windows(2)
            .map(|pair| pair[1].at - pair[0].at)
            .collect();
        assert!(steps.iter().all(|step| *step == steps[0]), "{steps:?}");
        assert_eq!(samples[0].at, Duration::ZERO);
        assert_eq!(samples[samples.len() - 1].at, Duration::from_secs(1_000));
    }
}
