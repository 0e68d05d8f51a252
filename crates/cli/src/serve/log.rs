//! The log on standard error, written by its own thread: a reader that does not read must not stop
//! the server.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hikyaku_edge::lines::{LineCounts, Lines, Watch};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

/// Lines that may wait for standard error. Further lines are lost.
const QUEUE: usize = 4096;
/// The time for which the end waits for a reader that does not read.
const PATIENCE: Duration = Duration::from_secs(1);

/// The running log. When it is dropped, its remaining lines are written.
pub(super) struct Log {
    lines: Lines,
    counts: Arc<LineCounts>,
    level: reload::Handle<Targets, Registry>,
}

impl Log {
    /// Starts the log of this process.
    pub(super) fn start(level: &str) -> anyhow::Result<Self> {
        let (filter, level) = reload::Layer::new(filter(level)?);
        let counts = Arc::default();
        let lines = Lines::start(io::stderr(), QUEUE, &counts, Unwatched);
        let lines = lines.context("starting the log")?;
        let layer = fmt::layer()
            .with_writer(LogWriter(lines.clone()))
            .with_ansi(io::stderr().is_terminal())
            .with_target(false);
        tracing_subscriber::registry()
            .with(filter)
            .with(layer)
            .try_init()
            .context("starting the log")?;
        Ok(Self {
            lines,
            counts,
            level,
        })
    }

    /// Sets the filter of the log.
    pub(super) fn set_level(&self, filter: Targets) -> anyhow::Result<()> {
        self.level.reload(filter).context("changing the log level")
    }

    /// Writes lines unchanged.
    pub(super) fn print(&self, text: &str) {
        self.lines.send(text.trim_end().to_owned());
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.counts.settle(PATIENCE);
    }
}

/// Reads a level or a filter.
pub(super) fn filter(text: &str) -> anyhow::Result<Targets> {
    let parts = text.split(',').map(str::trim);
    let targets = parts.map(|part| {
        let (target, level) = part.split_once('=').unwrap_or(("", part));
        let is_whole = !level.is_empty() && (!part.contains('=') || !target.is_empty());
        let level: Option<LevelFilter> = level.parse().ok().filter(|_| is_whole);
        level.map(|level| (target, level))
    });
    let targets: Option<Targets> = targets.collect();
    targets.with_context(|| {
        format!(
            "reading log.level `{text}`: expected error, warn, info, debug or a filter, such as \
             `info,hikyaku_edge=debug`"
        )
    })
}

/// Ignores failures of standard error, since there is no place to report them.
struct Unwatched;

impl Watch for Unwatched {
    fn failed(&mut self, _: &io::Error) {}

    fn recovered(&mut self, _: u64) {}

    fn gave_up(&mut self, _: u64) {}
}

#[derive(Clone)]
struct LogWriter(Lines);

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for LogWriter {
    /// Takes an event, which arrives in one piece.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        self.0.send(text.trim_end().to_owned());
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::filter;

    #[test]
    fn levels_and_filters_are_read_strictly() {
        let cases = [
            ("info", true),
            ("WARN", true),
            ("off", true),
            ("info,hikyaku_edge::serve=debug", true),
            ("warn, hikyaku_acme=debug", true),
            ("inof", false),
            ("", false),
            ("info,", false),
            ("=info", false),
            ("hikyaku_edge=loud", false),
            ("hikyaku_edge", false),
        ];
        for (text, is_read) in cases {
            assert_eq!(filter(text).is_ok(), is_read, "{text}");
        }
        let error = filter("loud").unwrap_err().to_string();
        assert!(
            error.contains("reading log.level `loud`: expected error, warn"),
            "{error}"
        );
    }
}
