//! The sessions to simulate.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{measured, plan};
use crate::experiment::{self, Backend, Cell, Conditions, Key, Kind, Links, Run, Spec};
use crate::sim::{Scenario, simulate};

/// One session.
pub(super) struct Job {
    pub(super) key: Key,
    warmup: bool,
    scenario: Scenario,
    links: Links,
}

/// Returns the sessions of all cells and arms. The longest come first, so that no CPU waits for a
/// long one at the end.
pub(super) fn all(spec: &Spec, cells: &[Cell], seed: u64) -> Result<Vec<Job>, String> {
    let mut jobs = Vec::new();
    for cell in cells {
        for arm in &spec.arms {
            if spec.skipped(cell, arm).is_some() {
                continue;
            }
            let (warmup, sessions) = spec.sessions(arm);
            for repeat in 0..spec.repeats(cell, arm) {
                for session in 0..warmup + sessions {
                    let seed = experiment::seed(seed, cell, repeat, session);
                    jobs.push(Job {
                        key: Key {
                            cell: cell.clone(),
                            arm: arm.name.clone(),
                            repeat,
                            session,
                        },
                        warmup: session < warmup,
                        scenario: plan::scenario(spec, cell, arm, seed)?,
                        links: spec.links(cell)?,
                    });
                }
            }
        }
    }
    jobs.sort_by_cached_key(|job| Reverse(job.bytes()));
    Ok(jobs)
}

impl Job {
    /// Returns the approximate number of transferred bytes.
    fn bytes(&self) -> u64 {
        let bodies = self.scenario.flows.iter().flat_map(|flow| &flow.sizes);
        match bodies.sum() {
            0 => self
                .links
                .rate()
                .map_or(0, |rate| rate.bdp_bytes(self.scenario.until)),
            bytes => bytes,
        }
    }

    /// Simulates the session.
    pub(super) fn run(
        &self,
        experiment: &str,
        spec: &Spec,
        attempt: u32,
        conditions: &Conditions,
    ) -> Run {
        let began = OffsetDateTime::now_utc();
        let outcome = simulate(&self.scenario);
        let measured = match spec.workload.kind {
            // `plan::check` rejects all but single downloads before.
            Kind::Load | Kind::Crowd | Kind::Paths | Kind::Control | Kind::Fleet => {
                measured::download(&self.scenario, &outcome, spec.workload.series)
            }
            Kind::Flows => measured::flows(&self.scenario, &outcome, spec.workload.series),
        };
        Run {
            experiment: experiment.to_owned(),
            cell: self.key.cell.clone(),
            arm: self.key.arm.clone(),
            repeat: self.key.repeat,
            session: self.key.session,
            warmup: self.warmup,
            seed: self.scenario.seed,
            attempt,
            backend: Backend::Simulation,
            began: began.format(&Rfc3339).unwrap_or_default(),
            outcome: measured.outcome,
            error: measured.error,
            metrics: measured.metrics,
            labels: measured.labels,
            series: measured.series,
            link: self.links.clone(),
            other_links: BTreeMap::new(),
            emulator: None,
            disturbed: None,
            conditions: conditions.clone(),
        }
    }
}
