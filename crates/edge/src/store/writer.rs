//! Writes behind the server, and goes on from memory while that can't be done.
//!
//! Changes that can't be written stay noted as changed, in memory that the tables bound. redb refuses
//! everything after an error of its file, so the store is opened anew for each try. One line of the log
//! says that the outage has begun, one that it is over.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{Store, StoreError};
use crate::causes::chain;
use crate::clients::Changes;
use crate::clock;
use crate::metrics::{StoreHealth, add};
use crate::shared::Shared;

/// Between two writes: what a crash loses at most, with as much again for the write.
const WRITE_INTERVAL: Duration = Duration::from_secs(2);
/// Longest time between two tries to open the store again.
const MAX_PAUSE: Duration = Duration::from_secs(32);
/// Records of one transaction, so that memory stays bounded.
const BATCH: usize = 20_000;

/// Writes changes to the store, or keeps them while it can't be written.
pub(crate) struct Writer {
    dir: PathBuf,
    /// `None` until it is opened again.
    store: Option<Store>,
    shared: Arc<Shared>,
    health: Arc<StoreHealth>,
    /// Changes that failed to be written, to be tried again first.
    unwritten: Changes,
    outage: Option<Outage>,
}

/// Since when, and how, the store is tried again.
#[derive(Clone, Copy)]
struct Outage {
    next_try: Instant,
    pause: Duration,
}

impl Writer {
    /// A writer to the store that was opened in `dir` at start, or could not be for now.
    pub(crate) fn new(
        dir: PathBuf,
        opened: Result<Store, StoreError>,
        shared: &Arc<Shared>,
    ) -> Self {
        let health = StoreHealth {
            available: AtomicBool::new(true),
            failures: AtomicU64::new(0),
            unwritten: AtomicU64::new(0),
        };
        let health = shared.metrics.store.get_or_init(|| Arc::new(health));
        let mut writer = Self {
            dir,
            store: None,
            shared: Arc::clone(shared),
            health: Arc::clone(health),
            unwritten: Changes::default(),
            outage: None,
        };
        // Routes that nobody looks at would age unseen.
        writer.unwritten.routes.cleared = shared.egress.is_none();
        match opened {
            Ok(store) => writer.store = Some(store),
            Err(error) => writer.failed(chain(&error)),
        }
        writer
    }

    /// Writes the changes, if it is time to try that, or `now` at all events.
    fn write(&mut self, now: bool) {
        if let Some(outage) = &self.outage
            && clock::now() < outage.next_try
            && !now
        {
            return;
        }
        if now {
            self.shared.gain.hurry();
        }
        match self.try_write() {
            Ok(()) => self.succeeded(),
            Err(why) => self.failed(why),
        }
    }

    /// Writes the changes for the last time.
    fn finish(&mut self) {
        self.write(true);
        if self.outage.is_some() {
            let path = Store::file(&self.dir);
            let path = path.display();
            tracing::error!("{path} can't be written: what was not written yet is lost");
        }
    }

    /// Writes the changes and closes the file, for another process. It is opened again by the next write.
    fn close(&mut self) {
        self.write(true);
        self.store = None;
    }

    fn try_write(&mut self) -> Result<(), String> {
        let store = match self.store.take() {
            Some(store) if !store.is_in_place() => return Err("the file is gone".to_owned()),
            Some(store) => store,
            None => self.open()?,
        };
        // Whether a store can be written shows when it is: an outage ends with a transaction, even
        // with an empty one.
        let mut is_proven = self.outage.is_none();
        loop {
            if self.unwritten.is_empty() {
                self.unwritten = self.shared.changes(BATCH);
            }
            if self.unwritten.is_empty() && is_proven {
                self.store = Some(store);
                return Ok(());
            }
            let written = store.write(&self.unwritten);
            written.map_err(|error| error.to_string())?;
            is_proven = true;
            let written = std::mem::take(&mut self.unwritten);
            let records = written.records.len() + written.routes.records.len();
            add(&self.shared.metrics.stored, records as u64);
        }
    }

    /// Opens the store again; a new one is to get everything.
    fn open(&self) -> Result<Store, String> {
        let store = Store::open(&self.dir).map_err(|error| chain(&error))?;
        if store.is_new().map_err(|error| error.to_string())? {
            self.shared.mark_all_changed();
        }
        Ok(store)
    }

    fn succeeded(&mut self) {
        self.health.unwritten.store(0, Ordering::Relaxed);
        self.outage = None;
        if !self.health.available.swap(true, Ordering::Relaxed) {
            let path = Store::file(&self.dir);
            tracing::info!("{} is written again", path.display());
        }
    }

    fn failed(&mut self, why: impl Display) {
        add(&self.health.failures, 1);
        let unwritten = self.unwritten.records.len() + self.unwritten.routes.records.len();
        let unwritten = unwritten as u64;
        self.health.unwritten.store(unwritten, Ordering::Relaxed);
        let pause = match &self.outage {
            Some(outage) => (outage.pause * 2).min(MAX_PAUSE),
            None => WRITE_INTERVAL,
        };
        self.outage = Some(Outage {
            next_try: clock::now() + pause,
            pause,
        });
        if self.health.available.swap(false, Ordering::Relaxed) {
            let path = Store::file(&self.dir);
            tracing::warn!(
                "{} can't be written: {why}; what is learnt is kept in memory, and written once \
                 it can be",
                path.display()
            );
        }
    }

    /// The writer that goes on when a write panics: nobody knows how much was written.
    fn successor(&self) -> Self {
        Self {
            dir: self.dir.clone(),
            store: None,
            shared: Arc::clone(&self.shared),
            health: Arc::clone(&self.health),
            unwritten: Changes::default(),
            outage: self.outage,
        }
    }
}

/// Has the store lent to another process, which opens it meanwhile.
#[derive(Debug)]
pub(crate) struct Lender(mpsc::Sender<Request>);

/// A lender, and the other end of it for [`write_behind`].
pub(crate) fn lending() -> (Lender, mpsc::Receiver<Request>) {
    let (sender, requests) = mpsc::channel(1);
    (Lender(sender), requests)
}

/// A wish of a [`Lender`].
#[derive(Debug)]
pub(crate) enum Request {
    /// Close the store, and say when that is done.
    Lend(oneshot::Sender<()>),
    /// Write it again.
    TakeBack,
}

impl Lender {
    /// Has everything written and the file closed. Changes from now on are kept in memory.
    pub(crate) async fn lend(&self) {
        let (done, closed) = oneshot::channel();
        // Either fails only where nobody writes any more.
        if self.0.send(Request::Lend(done)).await.is_ok() {
            let _ = closed.await;
        }
    }

    /// Has the store written again, with the changes of the meantime.
    pub(crate) async fn take_back(&self) {
        let _ = self.0.send(Request::TakeBack).await;
    }
}

/// The next step of a writer.
enum Step {
    Write,
    Lend(oneshot::Sender<()>),
    TakeBack,
    Finish,
}

/// Writes what changed, every two seconds and at the end, while the store is not lent.
pub(crate) async fn write_behind(
    mut writer: Writer,
    stop: CancellationToken,
    mut requests: mpsc::Receiver<Request>,
) {
    let mut is_lent = false;
    loop {
        let step = tokio::select! {
            () = stop.cancelled() => Step::Finish,
            Some(request) = requests.recv() => match request {
                Request::Lend(done) => Step::Lend(done),
                Request::TakeBack => Step::TakeBack,
            },
            () = tokio::time::sleep(WRITE_INTERVAL), if !is_lent => Step::Write,
        };
        match step {
            Step::Write => writer = apart(writer, |writer| writer.write(false)).await,
            Step::Lend(done) => {
                writer = apart(writer, Writer::close).await;
                is_lent = true;
                // Whoever asked may have given up.
                let _ = done.send(());
            }
            Step::TakeBack => is_lent = false,
            Step::Finish if is_lent => return,
            Step::Finish => {
                apart(writer, Writer::finish).await;
                return;
            }
        }
    }
}

/// Has a writer work beside the threads that serve clients.
async fn apart(mut writer: Writer, work: impl FnOnce(&mut Writer) + Send + 'static) -> Writer {
    let mut successor = writer.successor();
    let worked = tokio::task::spawn_blocking(move || {
        work(&mut writer);
        writer
    });
    worked.await.unwrap_or_else(|error| {
        successor.shared.mark_all_changed();
        successor.failed(error);
        successor
    })
}

#[cfg(test)]
mod tests;
