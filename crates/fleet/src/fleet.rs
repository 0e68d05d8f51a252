//! The handle of an edge to its fleet.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::beat::Pulse;
use crate::board::{Board, Sync, Topic};
use crate::config::FleetConfig;
use crate::driver::Driver;
use crate::fault::{Fault, FaultKind};
use crate::field::Field;
use crate::key::Key;
use crate::lease::{self, Lease};
use crate::purges::{self, Purges};
use crate::reader::{self, Ask, Missed};
use crate::shared::{Host, Shared};
use crate::status::Status;
use crate::writer::Writer;

/// An edge's report on itself, besides its `[fleet]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Version of the program.
    pub version: String,
    /// Digest of the whole configuration, such as 16 hexadecimal digits.
    pub config: String,
}

/// Why an edge can't be of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StartError(String);

/// An edge's part in a fleet. Dropped, it ends without a last write; [`stop`](Self::stop) writes.
#[derive(Debug)]
pub struct Fleet {
    shared: Arc<Shared>,
    asks: mpsc::Sender<Ask>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Fleet {
    /// Begins to look for the store, in tasks of their own, and returns at once. Needs a tokio runtime. The
    /// contents of `board` and those of the store are brought together for as long as this lives.
    ///
    /// # Errors
    /// If the configuration has faults, names no store, or no name of this edge is found.
    pub fn start(
        config: FleetConfig,
        identity: Identity,
        host: Arc<dyn Host>,
        board: Arc<Board>,
    ) -> Result<Self, StartError> {
        if let Some(fault) = config.faults().into_iter().next() {
            return Err(StartError(fault));
        }
        if !config.is_on() {
            return Err(StartError("`fleet.store` names no store".to_owned()));
        }
        let name = config.edge_name().map_err(StartError)?;
        let shared = Arc::new(Shared::new(config, name, identity.config, board));
        let stop = CancellationToken::new();
        let (asks, queue) = mpsc::channel(reader::QUEUE);
        let driver = Driver {
            shared: Arc::clone(&shared),
            host,
            pulse: Pulse::new(identity.version),
            writer: Writer::new(),
            purges: Purges::new(),
            sync: Sync::new(),
        };
        let tasks = TaskTracker::new();
        tasks.spawn(reader::send(Arc::clone(&shared), queue, stop.clone()));
        tasks.spawn(driver.drive(stop.clone()));
        tasks.close();
        Ok(Self {
            shared,
            asks,
            stop,
            tasks,
        })
    }

    /// The fields of all edges, key by key, this edge's included. Takes no longer than until
    /// `deadline`, and no time at all while the store is down.
    ///
    /// # Errors
    /// If there is no answer by then.
    pub async fn read(&self, keys: Vec<Key>, deadline: Instant) -> Result<Vec<Vec<Field>>, Missed> {
        reader::read(&self.shared, &self.asks, keys, deadline).await
    }

    /// Has all other edges apply a purge, whose order is 16 KiB at most. They do within seconds, or once they
    /// reach the store again.
    ///
    /// # Errors
    /// If the store can't be written, or the order is too long.
    pub async fn purge(&self, order: &[u8]) -> Result<(), Fault> {
        if order.len() > purges::MAX_ORDER {
            return Err(Fault::new(
                FaultKind::Other,
                "the purge is longer than 16 KiB: split it",
            ));
        }
        match self.shared.link() {
            Some(link) => purges::give(&self.shared, &link, order).await,
            None => Err(self.shared.last_fault()),
        }
    }

    /// Brings the board's contents and the store's together now. Returns whether that was done: it is not while the
    /// store can't be used, nor when it takes longer than `patience`.
    pub async fn sync(&self, patience: Duration) -> bool {
        let shared = &self.shared;
        if !shared.is_up() {
            return false;
        }
        let mut done = shared.done.subscribe();
        let begun = shared.begun.load(Ordering::SeqCst);
        shared.board.wake.notify_one();
        let is_done = done.wait_for(|number| *number > begun);
        matches!(timeout(patience, is_done).await, Ok(Ok(_)))
    }

    /// Takes or renews the lease of a content for so long. One edge has it at a time, unless the store loses
    /// its memory.
    pub async fn lease(&self, topic: Topic, name: &str, time: Duration) -> Lease {
        match self.shared.link() {
            Some(link) => lease::take(&self.shared, &link, topic, name, time).await,
            None => Lease::Unavailable,
        }
    }

    /// Gives a lease back before its time.
    pub async fn release(&self, topic: Topic, name: &str) {
        if let Some(link) = self.shared.link() {
            lease::release(&self.shared, &link, topic, name).await;
        }
    }

    /// Whether all other members that are heard of, and that answer authorities, have this edge's content of a
    /// name of [`Topic::Challenge`].
    pub fn is_acknowledged(&self, name: &str) -> bool {
        let revision = self.shared.board.revision(Topic::Challenge, name);
        revision.is_some_and(|revision| {
            self.shared.saw(|seen| {
                let mut others = seen.acknowledged.iter();
                others.all(|seen| seen.contains(&revision))
            })
        })
    }

    /// Whether the store answers.
    pub fn is_up(&self) -> bool {
        self.shared.is_up()
    }

    /// The name of this edge.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The state of the fleet, and of its store.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Shows the others that this edge has another configuration, by its digest.
    pub fn reconfigured(&self, config: String) {
        *self.shared.config_digest.lock() = config;
    }

    /// Writes the last changes, within two seconds, and ends. Reads fail from then on.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
