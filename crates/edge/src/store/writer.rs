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

    /// Writes the changes; the `last` time without waiting for the time of the next try.
    fn write(&mut self, last: bool) {
        if let Some(outage) = &self.outage
            && clock::now() < outage.next_try
            && !last
        {
            return;
        }
        match self.try_write() {
            Ok(()) => self.succeeded(),
            Err(why) => self.failed(why),
        }
        if last && self.outage.is_some() {
            let path = Store::file(&self.dir);
            let path = path.display();
            tracing::error!("{path} can't be written: what was not written yet is lost");
        }
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
        self.outage = None;
        if !self.health.available.swap(true, Ordering::Relaxed) {
            let path = Store::file(&self.dir);
            tracing::info!("{} is written again", path.display());
        }
    }

    fn failed(&mut self, why: impl Display) {
        add(&self.health.failures, 1);
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

/// Writes what changed, every two seconds and at the end.
pub(crate) async fn write_behind(mut writer: Writer, stop: CancellationToken) {
    loop {
        let stopped = stop
            .run_until_cancelled(tokio::time::sleep(WRITE_INTERVAL))
            .await
            .is_none();
        let mut successor = writer.successor();
        let written = tokio::task::spawn_blocking(move || {
            writer.write(stopped);
            writer
        });
        writer = match written.await {
            Ok(writer) => writer,
            Err(error) => {
                successor.shared.mark_all_changed();
                successor.failed(error);
                successor
            }
        };
        if stopped {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
