//! Runs jobs on several lanes, side by side within the machine's capacity.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::error::RunError;
use super::experiment::Experiment;
use super::lane::{Lane, Shared};
use super::plan::Job;
use super::progress::Progress;

/// Jobs in their order, and the capacity that is free now.
struct Queue {
    /// Jobs that use the machine.
    busy: VecDeque<Job>,
    /// Jobs that mostly wait.
    light: VecDeque<Job>,
    free: f64,
    running: usize,
    running_light: usize,
    /// Lanes without a job, by number.
    waiting: BTreeSet<usize>,
}

pub(super) struct Pool<'a> {
    queue: Mutex<Queue>,
    changed: Condvar,
    shared: &'a Shared,
    experiments: &'a [Experiment],
    progress: &'a Progress,
    lanes: usize,
    capacity: f64,
}

impl<'a> Pool<'a> {
    pub(super) fn new(
        jobs: Vec<Job>,
        lanes: usize,
        capacity: f64,
        shared: &'a Shared,
        experiments: &'a [Experiment],
        progress: &'a Progress,
    ) -> Self {
        let (light, busy): (VecDeque<_>, _) = jobs.into_iter().partition(Job::is_light);
        Self {
            lanes: lanes.min(light.len() + busy.len()),
            queue: Mutex::new(Queue {
                busy,
                light,
                free: capacity,
                running: 0,
                running_light: 0,
                waiting: BTreeSet::new(),
            }),
            changed: Condvar::new(),
            shared,
            experiments,
            progress,
            capacity,
        }
    }

    /// Runs all jobs. The sum of the weights of running jobs stays below the capacity, but one
    /// always runs.
    ///
    /// # Errors
    /// If a namespace, server or data file fails. Failed sessions are records.
    pub(super) fn run(&self) -> Result<(), RunError> {
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.lanes)
                .map(|number| scope.spawn(move || self.work(number)))
                .collect();
            let results: Vec<_> = workers
                .into_iter()
                .map(|worker| {
                    worker
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect();
            results.into_iter().collect()
        })
    }

    fn work(&self, number: usize) -> Result<(), RunError> {
        let result = self.run_all(number);
        if result.is_err() {
            // The others would only meet the same problem.
            self.shared.stop.set();
            self.changed.notify_all();
        }
        result
    }

    fn run_all(&self, number: usize) -> Result<(), RunError> {
        let mut lane = None;
        while let Some(job) = self.take(number) {
            let began = Instant::now();
            let outcome = self.attempt(&mut lane, &job);
            self.give_back(&job);
            self.progress.done(&job, began.elapsed());
            outcome?;
        }
        Ok(())
    }

    /// Runs one job until it is good or has been tried often enough.
    fn attempt(&self, lane: &mut Option<Lane<'a>>, job: &Job) -> Result<(), RunError> {
        let experiment = &self.experiments[job.experiment];
        let data = &experiment.data;
        let keys: Vec<_> = job.keys(&experiment.spec).collect();
        while !self.shared.stop.is_set() && !data.is_run_done(&keys) {
            let lane = match lane {
                Some(lane) => lane,
                None => lane.insert(Lane::open(self.shared)?),
            };
            let attempt = keys.iter().map(|key| data.attempts(key)).max().unwrap_or(0);
            let Some(runs) = lane.run(job, attempt, experiment)? else {
                break;
            };
            data.add(&runs)?;
            self.progress.measured(&runs);
        }
        Ok(())
    }

    /// Returns the next job, once the machine has room for it. Of the waiting lanes, the first gets
    /// it, since it most likely has namespaces and the right server already.
    fn take(&self, number: usize) -> Option<Job> {
        let mut queue = self.lock();
        queue.waiting.insert(number);
        loop {
            if self.shared.stop.is_set() || (queue.busy.is_empty() && queue.light.is_empty()) {
                return None;
            }
            if queue.waiting.first() == Some(&number)
                && let Some(job) = queue.next(self.capacity, self.lanes)
            {
                queue.waiting.remove(&number);
                // The rest may have room for another job.
                self.changed.notify_all();
                return Some(job);
            }
            // A signal handler cannot notify, so the flag is polled.
            let waited = self.changed.wait_timeout(queue, Duration::from_millis(200));
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn give_back(&self, job: &Job) {
        let mut queue = self.lock();
        queue.free += job.cost.weight;
        queue.running -= 1;
        queue.running_light -= usize::from(job.is_light());
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Returns the first job that fits. Within both kinds the order is kept. Light jobs leave a
    /// quarter of the lanes to the others, and the machine to a job that needs it alone.
    fn next(&mut self, capacity: f64, lanes: usize) -> Option<Job> {
        let fits = |queue: &Self, job: &Job| job.cost.weight <= queue.free || queue.running == 0;
        let alone = match self.busy.front() {
            Some(job) if fits(self, job) => {
                return self.busy.pop_front().map(|job| self.start(job));
            }
            Some(job) => job.cost.weight > capacity / 2.0,
            None => false,
        };
        let max = if self.busy.is_empty() {
            lanes
        } else {
            lanes.div_ceil(4) * 3
        };
        match self.light.front() {
            Some(job) if !alone && self.running_light < max && fits(self, job) => {
                self.light.pop_front().map(|job| self.start(job))
            }
            _ => None,
        }
    }

    fn start(&mut self, job: Job) -> Job {
        self.free -= job.cost.weight;
        self.running += 1;
        self.running_light += usize::from(job.is_light());
        job
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::axis::Cell;
    use crate::experiment::run::plan::Cost;

    fn queue(weights: &[f64], capacity: f64) -> Queue {
        let jobs = weights.iter().map(|&weight| Job {
            experiment: 0,
            cell: Cell::default(),
            arm: 0,
            repeat: 0,
            sessions: 0..1,
            cost: Cost {
                weight,
                duration: 1.0,
            },
        });
        let (light, busy): (VecDeque<_>, _) = jobs.partition(Job::is_light);
        Queue {
            busy,
            light,
            free: capacity,
            running: 0,
            running_light: 0,
            waiting: BTreeSet::new(),
        }
    }

    fn started(queue: &mut Queue, lanes: usize) -> Vec<f64> {
        std::iter::from_fn(|| queue.next(100.0, lanes).map(|job| job.cost.weight)).collect()
    }

    #[test]
    fn jobs_run_side_by_side_within_the_capacity() {
        let cases: &[(&str, &[f64], usize, &[f64])] = &[
            ("more than the machine, alone", &[200.0, 2.0], 8, &[200.0]),
            (
                "as many as fit",
                &[40.0, 40.0, 40.0, 2.0],
                8,
                &[40.0, 40.0, 2.0],
            ),
            (
                "light ones leave a quarter",
                &[40.0, 60.0, 3.0, 3.0, 3.0, 3.0],
                4,
                &[40.0, 60.0],
            ),
            ("light ones alone", &[3.0; 5], 4, &[3.0, 3.0, 3.0, 3.0]),
        ];
        for (name, weights, lanes, want) in cases {
            assert_eq!(started(&mut queue(weights, 100.0), *lanes), *want, "{name}");
        }
    }

    #[test]
    fn a_job_that_needs_the_machine_waits_for_it_to_be_free() {
        let mut queue = queue(&[40.0, 90.0, 2.0], 100.0);
        assert_eq!(started(&mut queue, 8), [40.0]);
        queue.free += 40.0;
        queue.running -= 1;
        assert_eq!(started(&mut queue, 8), [90.0, 2.0]);
    }
}
