//! Threads with a runtime each: what a QUIC connection does stays in the thread of its worker.

use std::io;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Workers at most: their index is one byte of a connection id.
const MAX: usize = 255;

/// Returns how many workers this machine is worth: one for each CPU that the process may use.
pub(super) fn worth() -> usize {
    thread::available_parallelism().map_or(1, |count| count.get().min(MAX))
}

/// The workers, until this is dropped.
#[derive(Debug)]
pub(super) struct Workers {
    runtimes: Vec<Handle>,
    threads: Vec<JoinHandle<()>>,
    end: DropGuard,
}

impl Workers {
    /// Starts `count` threads.
    ///
    /// # Errors
    /// When the system has no more threads or descriptors; none is left running then.
    pub(super) fn start(count: usize) -> io::Result<Self> {
        let end = CancellationToken::new();
        let mut workers = Self {
            runtimes: Vec::with_capacity(count),
            threads: Vec::with_capacity(count),
            end: end.clone().drop_guard(),
        };
        for index in 0..count {
            let (sender, started) = mpsc::sync_channel(1);
            let end = end.clone();
            let thread = thread::Builder::new().name(format!("quic-{index}"));
            let thread = thread.spawn(move || run(&sender, &end))?;
            let runtime = started.recv().map_err(io::Error::other)??;
            workers.runtimes.push(runtime);
            workers.threads.push(thread);
        }
        Ok(workers)
    }

    /// The runtime of each worker.
    pub(super) fn runtimes(&self) -> &[Handle] {
        &self.runtimes
    }

    /// A way to see that they run.
    pub(super) fn pulse(&self) -> Pulse {
        Pulse(self.runtimes.clone())
    }

    /// Ends the threads, with all tasks that are left in them.
    pub(super) async fn stop(self) {
        drop(self.end);
        for thread in self.threads {
            // It fails only if the thread has panicked, which was reported.
            let _ = tokio::task::spawn_blocking(|| thread.join()).await;
        }
    }
}

/// A way to see that the server's threads run.
#[derive(Clone, Debug)]
pub struct Pulse(Vec<Handle>);

impl Pulse {
    /// Waits until each thread has run a task.
    pub async fn beat(&self) {
        for runtime in &self.0 {
            // It is cancelled only when the server stops.
            let _ = runtime.spawn(async {}).await;
        }
    }
}

/// Runs the tasks of a worker until `end`.
fn run(started: &SyncSender<io::Result<Handle>>, end: &CancellationToken) {
    let runtime = Builder::new_current_thread().enable_all().build();
    // Nobody waits any more if the server's start has failed.
    let _ = started.send(match &runtime {
        Ok(runtime) => Ok(runtime.handle().clone()),
        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
    });
    if let Ok(runtime) = runtime {
        runtime.block_on(end.cancelled());
        Runtime::shutdown_background(runtime);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[tokio::test]
    async fn tasks_stay_in_the_thread_of_their_worker_and_end_with_it() {
        let workers = Workers::start(3).unwrap();
        let mut threads = HashSet::new();
        let (sender, receiver) = mpsc::channel::<()>();
        for runtime in workers.runtimes() {
            let at = || async {
                tokio::task::yield_now().await;
                thread::current().id()
            };
            let [first, second] = [runtime.spawn(at()), runtime.spawn(at())];
            let thread = first.await.unwrap();
            assert_eq!(second.await.unwrap(), thread);
            threads.insert(thread);
            let sender = sender.clone();
            runtime.spawn(async move {
                std::future::pending::<()>().await;
                drop(sender);
            });
        }
        assert_eq!(threads.len(), 3);
        drop(sender);
        workers.stop().await;
        assert_eq!(receiver.recv(), Err(mpsc::RecvError), "all tasks are gone");
    }
}
