//! Progress of a measurement.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::plan::Job;
use crate::experiment::record::{Outcome, Run};

/// A bar if standard error is a terminal, otherwise a line from time to time.
#[derive(Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    capacity: f64,
    lanes: f64,
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    jobs: usize,
    done: usize,
    disturbed: usize,
    failed: usize,
    left: Load,
    /// Expected and real durations of the finished jobs, in lane seconds.
    expected: f64,
    took: f64,
    printed: Option<Instant>,
}

/// The remaining work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// Weights times durations.
    work: f64,
    /// Durations on all lanes together.
    lane_seconds: f64,
    longest: f64,
}

/// Time between two lines.
const LINE: Duration = Duration::from_secs(20);

impl Load {
    pub(super) fn of<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> Self {
        let mut load = Self::default();
        for job in jobs {
            load.work += job.cost.weight * job.cost.duration;
            load.lane_seconds += job.cost.duration;
            load.longest = load.longest.max(job.cost.duration);
        }
        load
    }

    /// Smallest time that the work takes.
    pub(super) fn seconds(&self, capacity: f64, lanes: f64) -> f64 {
        (self.work / capacity)
            .max(self.lane_seconds / lanes)
            .max(self.longest)
    }

    fn remove(&mut self, job: &Job) {
        self.work -= job.cost.weight * job.cost.duration;
        self.lane_seconds -= job.cost.duration;
        // The longest jobs begin first.
        self.longest = self.longest.min(self.lane_seconds.max(0.0));
    }
}

impl Progress {
    pub(super) fn new(jobs: &[Job], capacity: f64, lanes: usize) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(4);
            let bar = ProgressBar::with_draw_target(Some(jobs.len() as u64), target);
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {msg}");
            if let Ok(style) = style {
                bar.set_style(style);
            }
            bar
        });
        let state = State {
            jobs: jobs.len(),
            left: Load::of(jobs),
            ..State::default()
        };
        Self {
            bar,
            capacity,
            lanes: lanes as f64,
            began: Instant::now(),
            state: Mutex::new(state),
        }
    }

    /// Counts measured sessions.
    pub(super) fn measured(&self, runs: &[Run]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.disturbed += runs.iter().filter(|run| run.disturbed.is_some()).count();
        state.failed += runs
            .iter()
            .filter(|run| run.outcome == Outcome::Failed)
            .count();
    }

    /// Counts a finished job and its duration.
    pub(super) fn done(&self, job: &Job, took: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.done += 1;
        state.left.remove(job);
        state.expected += job.cost.duration;
        state.took += took.as_secs_f64();
        let message = state.message(self.began.elapsed(), self.capacity, self.lanes);
        if let Some(bar) = &self.bar {
            bar.set_message(message);
            bar.set_position(state.done as u64);
        } else if state.printed.is_none_or(|at| at.elapsed() >= LINE) {
            state.printed = Some(Instant::now());
            let line = format!("{}/{} runs, {message}\n", state.done, state.jobs);
            // A closed standard error cannot be reported.
            let _ = io::Write::write_all(&mut io::stderr(), line.as_bytes());
        }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl State {
    fn message(&self, elapsed: Duration, capacity: f64, lanes: f64) -> String {
        let pace = if self.expected > 0.0 {
            self.took / self.expected
        } else {
            1.0
        };
        let left = Duration::from_secs_f64((self.left.seconds(capacity, lanes) * pace).max(0.0));
        let mut message = format!("{} so far, about {} to go", span(elapsed), span(left));
        for (count, what) in [(self.disturbed, "disturbed"), (self.failed, "failed")] {
            if count > 0 {
                message += &format!(", {count} sessions {what}");
            }
        }
        message
    }
}

/// Formats a time as `45 s`, `12 min` or `2 h 05 min`.
pub(crate) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs_f64().round() as u64;
    match seconds {
        0..100 => format!("{seconds} s"),
        100..7_200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {:02} min", seconds / 3_600, seconds / 60 % 60),
    }
}
