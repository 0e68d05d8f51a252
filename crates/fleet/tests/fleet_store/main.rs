//! Edges that share a real store, whatever happens to it.
#![allow(clippy::unwrap_used)]

mod board;
mod failures;
mod faults;
mod kinds;
mod members;
mod purges;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hikyaku_fleet::{Board, Change, Field, Fleet, FleetConfig, Host, Identity, Key, Missed};
use hikyaku_testkit::PATIENCE;

/// The knowledge of an edge, in place of its table of clients.
#[derive(Default)]
pub(crate) struct Table {
    learnt: Mutex<BTreeMap<Key, Vec<u8>>>,
    changed: Mutex<BTreeMap<Key, Vec<u8>>>,
    /// Orders in the order in which they came; `None` is for all.
    purged: Mutex<Vec<Option<Vec<u8>>>>,
}

impl Host for Table {
    fn changes(&self, max: usize) -> Vec<Change> {
        let mut changed = self.changed.lock().unwrap();
        let mut changes = Vec::new();
        while changes.len() < max
            && let Some((key, payload)) = changed.pop_first()
        {
            changes.push(Change { key, payload });
        }
        changes
    }

    fn mark_all(&self) {
        let learnt = self.learnt.lock().unwrap().clone();
        self.changed.lock().unwrap().extend(learnt);
    }

    fn purge(&self, order: Option<&[u8]>) {
        let order = order.map(<[u8]>::to_vec);
        self.purged.lock().unwrap().push(order);
    }
}

/// An edge without clients.
pub(crate) struct Edge {
    pub(crate) fleet: Fleet,
    table: Arc<Table>,
    pub(crate) board: Arc<Board>,
}

impl Edge {
    /// An edge of this name, which has board before it begins.
    pub(crate) fn holding(name: &str, url: &str, board: Board) -> Self {
        let text = format!("store = \"{url}\"\nname = \"{name}\"\n");
        Self::begun(toml::from_str(&text).unwrap(), board)
    }

    /// An edge of this name, with more keys of its configuration.
    pub(crate) fn start(name: &str, url: &str, more: &str) -> Self {
        let text = format!("store = \"{url}\"\nname = \"{name}\"\n{more}");
        Self::configured(toml::from_str(&text).unwrap())
    }

    pub(crate) fn configured(config: FleetConfig) -> Self {
        Self::begun(config, Board::default())
    }

    fn begun(config: FleetConfig, board: Board) -> Self {
        let table = Arc::new(Table::default());
        let identity = Identity {
            version: "0.1.0".to_owned(),
            config: "c0ffee".to_owned(),
        };
        let host: Arc<Table> = Arc::clone(&table);
        let board = Arc::new(board);
        let fleet = Fleet::start(config, identity, host, Arc::clone(&board)).unwrap();
        Self {
            fleet,
            table,
            board,
        }
    }

    /// Notes something to be shared of a prefix.
    pub(crate) fn learn(&self, prefix: &str, payload: &str) {
        let key = Key::path(prefix).unwrap();
        let payload = payload.as_bytes().to_vec();
        self.table
            .learnt
            .lock()
            .unwrap()
            .insert(key.clone(), payload.clone());
        self.table.changed.lock().unwrap().insert(key, payload);
    }

    pub(crate) fn purged(&self) -> Vec<Option<Vec<u8>>> {
        self.table.purged.lock().unwrap().clone()
    }

    /// Reads one key, in a time that is long enough.
    pub(crate) async fn read(&self, prefix: &str) -> Result<Vec<Field>, Missed> {
        self.read_within(prefix, Duration::from_secs(10)).await
    }

    pub(crate) async fn read_within(
        &self,
        prefix: &str,
        time: Duration,
    ) -> Result<Vec<Field>, Missed> {
        let keys = vec![Key::path(prefix).unwrap()];
        let mut fields = self.fleet.read(keys, Instant::now() + time).await?;
        Ok(fields.remove(0))
    }

    /// Waits until this edge reads what `edge` shares of a prefix.
    #[track_caller]
    pub(crate) fn sees(&self, edge: &str, prefix: &str, payload: &str) -> impl Future<Output = ()> {
        let (prefix, payload) = (prefix.to_owned(), payload.as_bytes().to_vec());
        let edge = edge.to_owned();
        async move {
            let begun = Instant::now();
            loop {
                let fields = self.read(&prefix).await.unwrap_or_default();
                let is_it = |field: &Field| field.edge == edge && field.payload == payload;
                if fields.iter().any(is_it) {
                    return;
                }
                let status = self.fleet.status();
                assert!(
                    begun.elapsed() < PATIENCE,
                    "never: {prefix} of {edge}: {status:?}"
                );
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    pub(crate) async fn is_up(&self) {
        eventually("the store is up", || self.fleet.is_up().then_some(())).await;
    }

    /// Waits until the store is down; gives the reason.
    pub(crate) async fn is_down(&self) -> String {
        eventually("the store is down", || self.fleet.status().fault).await
    }
}

/// Polls `look` until it returns a value.
pub(crate) async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
