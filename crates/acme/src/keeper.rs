//! All certificates that are kept, each with its task.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::account::Authority;
use crate::answers::Answers;
use crate::peers::Peers;
use crate::record::{Record, common_name, file_of};
use crate::setup::Setup;
use crate::status::{State, Status};
use crate::task::Task;

/// Orders at once.
const ORDERS: usize = 4;

/// The system's time, or that of a test.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// The system's clock.
pub fn system_clock() -> Clock {
    Arc::new(SystemTime::now)
}

/// Keeps certificates: it orders them, and orders them again in time.
pub struct Keeper {
    state: PathBuf,
    shared: Arc<Shared>,
    running: Mutex<Running>,
}

/// The parts that all tasks use.
pub(crate) struct Shared {
    pub(crate) answers: Arc<Answers>,
    pub(crate) clock: Clock,
    pub(crate) on_issued: Box<dyn Fn(&Path) + Send + Sync>,
    pub(crate) permits: Semaphore,
    pub(crate) issued: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// `None` for a server that is in no fleet ever.
    pub(crate) peers: Option<Arc<dyn Peers>>,
}

#[derive(Default)]
struct Running {
    stop: CancellationToken,
    tasks: TaskTracker,
    statuses: Vec<Arc<Mutex<Status>>>,
    wakes: Vec<Arc<Notify>>,
}

impl Keeper {
    /// A keeper of nothing yet. Accounts and certificates are in `state`, the server's directory of state;
    /// `answers` are given to authorities. `on_issued` is called with the file of each new certificate
    /// ([`file_of`]). `peers` are other servers of a fleet, which have the certificates, too.
    pub fn new(
        state: &Path,
        answers: Arc<Answers>,
        clock: Clock,
        peers: Option<Arc<dyn Peers>>,
        on_issued: impl Fn(&Path) + Send + Sync + 'static,
    ) -> Self {
        Self {
            state: state.to_owned(),
            shared: Arc::new(Shared {
                answers,
                clock,
                on_issued: Box::new(on_issued),
                permits: Semaphore::new(ORDERS),
                issued: AtomicU64::new(0),
                failed: AtomicU64::new(0),
                peers,
            }),
            running: Mutex::default(),
        }
    }

    /// Keeps a certificate for each set of names, and no others any more. Orders under way are given up. With
    /// `forgiving`, failures before make no order wait, but for rate limits. To be called on a tokio runtime.
    pub fn keep(&self, setup: Setup, wanted: Vec<Vec<String>>, forgiving: bool) {
        let authorities = Arc::new(Authority::all(
            &setup,
            &self.state,
            self.shared.peers.as_ref(),
        ));
        let setup = Arc::new(setup);
        let mut running = self.running.lock();
        let former = std::mem::take(&mut *running);
        former.end();
        for names in wanted {
            let path = file_of(&self.state, &names);
            let mut task = Task {
                record: Record::default(),
                path,
                shared: Arc::clone(&self.shared),
                setup: Arc::clone(&setup),
                authorities: Arc::clone(&authorities),
                status: Arc::new(Mutex::new(unknown(&names))),
                wake: Arc::default(),
                forgiven: forgiving,
                common: common_name(&names),
                waited: None,
                names,
            };
            running.statuses.push(Arc::clone(&task.status));
            running.wakes.push(Arc::clone(&task.wake));
            let (stop, former) = (running.stop.clone(), former.tasks.clone());
            running.tasks.spawn(async move {
                // Two tasks would write one file, and the former may do so until its end.
                former.wait().await;
                task.record = Task::recorded(&task.path);
                stop.run_until_cancelled(task.run()).await
            });
        }
    }

    /// Keeps no certificate any more. Orders under way are given up.
    pub fn rest(&self) {
        std::mem::take(&mut *self.running.lock()).end();
    }

    /// Makes all tasks look at the clock.
    pub fn look(&self) {
        for wake in &self.running.lock().wakes {
            wake.notify_one();
        }
    }

    /// How the certificates fare.
    pub fn statuses(&self) -> Vec<Status> {
        let running = self.running.lock();
        let statuses = running.statuses.iter();
        statuses.map(|status| status.lock().clone()).collect()
    }

    /// Orders that gave a certificate, and those that failed.
    pub fn counts(&self) -> (u64, u64) {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (value(&self.shared.issued), value(&self.shared.failed))
    }

    /// Gives up orders under way, and ends all tasks.
    pub async fn stop(&self) {
        let former = std::mem::take(&mut *self.running.lock());
        former.end();
        former.tasks.wait().await;
    }
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Keeper").field(&self.state).finish()
    }
}

impl Running {
    fn end(&self) {
        self.stop.cancel();
        self.tasks.close();
    }
}

/// The status before the task has looked.
fn unknown(names: &[String]) -> Status {
    Status {
        names: names.to_vec(),
        state: State::Waiting,
        directory: None,
        next_order: 0,
        failures: 0,
        error: None,
    }
}
