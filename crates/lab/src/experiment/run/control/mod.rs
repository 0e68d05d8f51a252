//! Measurements of the egress control plane: how soon and at what cost the agents follow BGP. They
//! have no emulated link, since only the programs count.

mod agent;
mod bed;
mod change;
mod clock;
mod daemon;
mod feed;
mod history;
mod net;
mod packets;
mod scale;
mod watch;
mod withdraw;

use std::path::{Path, PathBuf};
use std::time::Duration;

use hikyaku_netsim::derive_seed;

use super::error::RunError;
use super::experiment::Experiment;
use super::measured::Measured;
use super::plan::Job;
use super::session::Recorder;
use super::stop::Stop;
use crate::experiment::record::Run;
use crate::experiment::spec::{Arm, Measure, Routers, Spec};
use daemon::Maker;
pub(super) use daemon::{Zebra, start_with_config};

/// The files of a run, and its end.
struct Place<'a> {
    directory: &'a Path,
    stop: &'a Stop,
    timeout: Duration,
    seed: u64,
}

/// Runs one job; `None` if a signal to stop came first.
pub(super) fn run(
    scratch: &Path,
    stop: &Stop,
    job: &Job,
    attempt: u32,
    experiment: &Experiment,
) -> Result<Option<Vec<Run>>, RunError> {
    let spec = &experiment.spec;
    let arm = &spec.arms[job.arm];
    let control = spec.workload.control.as_ref().ok_or_else(|| {
        RunError::Arguments("an experiment of the control plane needs `[workload.control]`".into())
    })?;
    let directory: PathBuf = scratch.join(format!("control-{}-{}-{attempt}", arm.name, job.repeat));
    let seed = super::plan::seed(experiment.conditions.seed, &job.cell, job.repeat, 0);
    let place = Place {
        directory: &directory,
        stop,
        timeout: spec.timeout(&job.cell, arm),
        seed,
    };
    let mut sessions = Sessions {
        job,
        attempt,
        experiment,
        next: job.sessions.start,
        done: Vec::new(),
    };
    let maker = maker(arm);
    let done = match control.measure {
        Measure::Change => change::measure(&place, maker, &mut sessions)?,
        Measure::Scale => scale::measure(&place, maker, control, &mut sessions)?,
        Measure::Withdraw => withdraw::measure(&place, maker, &mut sessions)?,
    };
    Ok(done.map(|()| sessions.done))
}

fn maker(arm: &Arm) -> Maker {
    match arm.routers {
        Routers::Gobgp => Maker::GoBgp,
        Routers::Frr => Maker::Frr,
    }
}

/// Returns the first program that an arm needs and that is not installed.
pub(super) fn missing(spec: &Spec, arm: &Arm) -> Option<&'static str> {
    use super::programs::{self, BGPD, EGRESS, FEED, GOBGPD, ZEBRA};
    let control = spec.workload.control.as_ref()?;
    let mut needed = vec![EGRESS, FEED];
    match arm.routers {
        Routers::Gobgp => needed.push(GOBGPD),
        Routers::Frr => needed.push(BGPD),
    }
    if control.measure == Measure::Change {
        needed.extend([BGPD, ZEBRA]);
    }
    programs::missing(&needed)
}

/// The sessions of a run, which follow each other in the same network.
struct Sessions<'a> {
    job: &'a Job,
    attempt: u32,
    experiment: &'a Experiment,
    next: u32,
    done: Vec<Run>,
}

/// One session.
struct Session<'a> {
    recorder: Recorder<'a>,
    measured: Measured,
    /// Time to wait before a change: from half to one and a half of the experiment's.
    pause: Duration,
}

impl<'a> Sessions<'a> {
    fn next(&mut self) -> Option<Session<'a>> {
        let number = self.next;
        if number >= self.job.sessions.end {
            return None;
        }
        self.next += 1;
        let recorder = Recorder::begin(self.job, self.attempt, self.experiment, number);
        let share = 0.5 + derive_seed(recorder.seed, &[1]) as f64 / u64::MAX as f64;
        Some(Session {
            recorder,
            measured: Measured::default(),
            pause: self.experiment.spec.workload.pause.mul_f64(share),
        })
    }

    fn end(&mut self, session: Session<'a>) {
        self.done
            .push(session.recorder.end_unlinked(session.measured));
    }

    /// Length of a session by the experiment.
    fn duration(&self) -> Duration {
        self.experiment.spec.workload.duration.unwrap_or_default()
    }
}

/// The kernel's own table.
const MAIN: u32 = 254;

fn ms(duration: &Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Returns the value that this share of all do not exceed; not a number for an empty list.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted
        .get(place.saturating_sub(1))
        .copied()
        .unwrap_or(f64::NAN)
}
