//! The progress bar.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The progress of the measurement, shown on standard error while it runs.
#[derive(Debug)]
pub(super) struct Progress {
    /// The bar; `None` if none is shown.
    bar: Option<ProgressBar>,
    unit: Unit,
}

/// The unit that a bar counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Bytes of bodies; the responses give their total.
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
            let bar = match unit {
                Unit::Bytes => ProgressBar::no_length(),
                Unit::Runs | Unit::Requests => ProgressBar::new(total),
            };
            set_template(&bar, template(unit));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { bar, unit }
    }

    /// Adds the length of a response's body to the total.
    pub(super) fn expect(&self, bytes: u64) {
        if let (Some(bar), Unit::Bytes) = (&self.bar, self.unit) {
            set_template(bar, KNOWN_BYTES);
            bar.set_length(bar.length().unwrap_or(0) + bytes);
        }
    }

    /// Adds bytes of a body that arrived.
    pub(super) fn received(&self, bytes: u64) {
        self.advance(Unit::Bytes, bytes);
    }

    /// Adds `count` finished pieces of `unit`.
    pub(super) fn advance(&self, unit: Unit, count: u64) {
        if let Some(bar) = self.bar.as_ref().filter(|_| unit == self.unit) {
            bar.inc(count);
        }
    }

    /// Runs `print` while the bar is hidden.
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

const KNOWN_BYTES: &str =
    "{wide_bar} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} ETA {eta}";

fn template(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "{spinner} {decimal_bytes} {decimal_bytes_per_sec}",
        Unit::Runs => "{wide_bar} run {pos}/{len} ETA {eta}",
        Unit::Requests => "{wide_bar} {human_pos}/{human_len} requests {per_sec} ETA {eta}",
    }
}

fn set_template(bar: &ProgressBar, template: &str) {
    // A test parses these constant templates; the default style is the fallback.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_parse() {
        for text in [
            template(Unit::Bytes),
            template(Unit::Runs),
            template(Unit::Requests),
            KNOWN_BYTES,
        ] {
            assert!(ProgressStyle::with_template(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn only_the_bar_s_own_unit_advances_it() {
        let progress = Progress::new(Unit::Bytes, 0, true);
        progress.expect(100);
        progress.expect(50);
        progress.received(30);
        progress.advance(Unit::Runs, 7);
        let bar = progress.bar.as_ref().unwrap();
        assert_eq!((bar.position(), bar.length()), (30, Some(150)));
        progress.finish();
    }
}
