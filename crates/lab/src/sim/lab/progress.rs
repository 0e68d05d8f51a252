//! Progress of the simulations.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::experiment::{Run, span};

/// Time between two lines.
const LINE: Duration = Duration::from_secs(20);

/// A bar if standard error is a terminal, otherwise a line from time to time.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    jobs: usize,
    began: Instant,
    state: Mutex<State>,
}

struct State {
    done: usize,
    printed: Instant,
}

impl Progress {
    pub(super) fn new(jobs: usize) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(4);
            let bar = ProgressBar::with_draw_target(Some(jobs as u64), target);
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} sessions, {msg}");
            if let Ok(style) = style {
                bar.set_style(style);
            }
            bar
        });
        let began = Instant::now();
        Self {
            bar,
            jobs,
            began,
            state: Mutex::new(State {
                done: 0,
                printed: began,
            }),
        }
    }

    /// Counts a simulated session.
    pub(super) fn done(&self, run: &Run) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.done += 1;
        let message = format!(
            "{} so far; last: {}, {}",
            span(self.began.elapsed()),
            run.arm,
            run.cell
        );
        if let Some(bar) = &self.bar {
            bar.set_message(message);
            bar.set_position(state.done as u64);
        } else if state.printed.elapsed() >= LINE {
            state.printed = Instant::now();
            // A closed standard error cannot be reported.
            let _ = writeln!(
                io::stderr(),
                "{}/{} sessions, {message}",
                state.done,
                self.jobs
            );
        }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
