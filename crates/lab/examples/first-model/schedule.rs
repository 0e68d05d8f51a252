//! Runs jobs on several lanes, side by side as far as the machine bears it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::lane::{Lane, Site};
use crate::plan::Job;
use crate::record::{Conditions, Data};

/// Jobs in their order, and how much may be started now.
struct Queue {
    jobs: VecDeque<Job>,
    free: f64,
    capacity: f64,
    /// When progress was last told.
    told: Instant,
}

struct Schedule<'a> {
    queue: Mutex<Queue>,
    changed: Condvar,
    site: &'a Site,
    conditions: &'a Conditions,
    data: &'a Data,
    stop: &'a AtomicBool,
    began: Instant,
    total: usize,
}

/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(20);

/// Runs `jobs` in their order. The sum of the [weights](Job::weight) of those
/// under way stays below `capacity`, but the first always runs.
///
/// # Errors
/// If a namespace, server or the data file fails. Runs that fail are data.
pub(crate) fn run(
    jobs: Vec<Job>,
    lanes: usize,
    capacity: f64,
    site: &Site,
    conditions: &Conditions,
    data: &Data,
    stop: &AtomicBool,
) -> Result<()> {
    let jobs: VecDeque<Job> = jobs.into_iter().filter(|job| !data.is_done(job)).collect();
    let schedule = Schedule {
        total: jobs.len(),
        queue: Mutex::new(Queue {
            jobs,
            free: capacity,
            capacity,
            told: Instant::now(),
        }),
        changed: Condvar::new(),
        site,
        conditions,
        data,
        stop,
        began: Instant::now(),
    };
    eprintln!("{} runs to go", schedule.total);
    let lanes = lanes.min(schedule.total);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..lanes)
            .map(|_| scope.spawn(|| schedule.work()))
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

impl Schedule<'_> {
    fn work(&self) -> Result<()> {
        let result = self.run_all();
        if result.is_err() {
            // The others would only run into the same.
            self.stop.store(true, Ordering::Relaxed);
            self.changed.notify_all();
        }
        result
    }

    fn run_all(&self) -> Result<()> {
        let mut lane = Lane::open(self.site)?;
        while let Some(job) = self.take() {
            let outcome = self.attempt(&mut lane, &job);
            self.lock().free += job.weight();
            self.changed.notify_all();
            outcome?;
        }
        Ok(())
    }

    /// Runs one job until it is good or has been tried often enough.
    fn attempt(&self, lane: &mut Lane<'_>, job: &Job) -> Result<()> {
        while !self.data.is_done(job) && !self.stopped() {
            let run = lane.run(job, self.conditions);
            // The signal that stops this process ends the run's as well.
            if self.stopped() && !matches!(&run, Ok(run) if run.error.is_none()) {
                break;
            }
            self.data.add(run?)?;
        }
        Ok(())
    }

    /// The next job, once the machine has room for it. The order is kept: lighter
    /// jobs do not overtake.
    fn take(&self) -> Option<Job> {
        let mut queue = self.lock();
        loop {
            if self.stopped() {
                return None;
            }
            let weight = queue.jobs.front()?.weight();
            if weight <= queue.free || queue.free >= queue.capacity {
                queue.free -= weight;
                let job = queue.jobs.pop_front();
                self.tell(&mut queue);
                return job;
            }
            // A signal handler cannot notify: look again from time to time.
            let waited = self.changed.wait_timeout(queue, Duration::from_millis(200));
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn tell(&self, queue: &mut Queue) {
        if queue.told.elapsed() >= PROGRESS {
            queue.told = Instant::now();
            let (begun, minutes) = (
                self.total - queue.jobs.len(),
                self.began.elapsed().as_secs() / 60,
            );
            eprintln!("{begun} of {} runs begun, {minutes} min", self.total);
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
