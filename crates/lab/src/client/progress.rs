//! The progress bar.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How far the measurement is, shown on standard error while it runs.
#[derive(Debug)]
pub(super) struct Progress {
    /// `None` where nothing is shown.
    bar: Option<ProgressBar>,
    unit: Unit,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Bytes of bodies; how many there will be is learnt from the responses.
    Bytes,
    /// Repeats of the measurement.
    Runs,
    /// Requests of load mode.
    Requests,
}

impl Progress {
    /// A bar of `total` units, or none at all.
    pub(super) fn new(unit: Unit, total: u64, shown: bool) -> Self {
        let bar = shown.then(|| {
            let bar = ProgressBar::new(if unit == Unit::Bytes { 0 } else { total });
            let template = match unit {
                Unit::Bytes => {
                    "{wide_bar} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} ETA {eta}"
                }
                Unit::Runs => "{wide_bar} run {pos}/{len} ETA {eta}",
                Unit::Requests => "{wide_bar} {human_pos}/{human_len} requests {per_sec} ETA {eta}",
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { bar, unit }
    }

    /// A response announced a body of so many bytes.
    pub(super) fn expect(&self, bytes: u64) {
        if let (Some(bar), Unit::Bytes) = (&self.bar, self.unit) {
            bar.inc_length(bytes);
        }
    }

    /// Bytes of a body arrived.
    pub(super) fn received(&self, bytes: u64) {
        self.advance(Unit::Bytes, bytes);
    }

    /// `count` of `unit` are done.
    pub(super) fn advance(&self, unit: Unit, count: u64) {
        if let Some(bar) = self.bar.as_ref().filter(|_| unit == self.unit) {
            bar.inc(count);
        }
    }

    /// Runs `print` with the bar out of the way.
    pub(super) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
