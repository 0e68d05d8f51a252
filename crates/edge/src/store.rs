//! The store: what is known of clients and of their egress routes, kept over restarts.
//!
//! Loaded whole at start, written behind every two seconds, one crash-safe transaction
//! each time. A file that can't be read is set aside, never deleted, and the server starts
//! with an empty one.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hikyaku_core::key::Key;
use hikyaku_core::path::{PathChanges, PathKey};
use redb::{
    Database, ReadableDatabase, ReadableTable, TableDefinition, TableError, WriteTransaction,
};

use crate::clients::{Changes, Clients};
use crate::metrics::add;
use crate::shared::Shared;

/// Between two writes: what a crash loses at most, with as much again for the write.
const WRITE_INTERVAL: Duration = Duration::from_secs(2);
/// Records of one transaction, so that memory stays bounded.
const BATCH: usize = 20_000;
const FILE: &str = "clients.redb";
/// Text of a [`Key`] to an encoded estimate.
const CLIENTS: Table = TableDefinition::new("clients-1");
/// Text of a [`PathKey`] to an encoded record.
const ROUTES: Table = TableDefinition::new("routes-1");

type Table = TableDefinition<'static, &'static str, &'static [u8]>;

/// Why the store can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory can't be made or written to.
    #[error("preparing the state directory {}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another process has it open.
    #[error("opening {}: another hikyaku uses it; give each its own --state", path.display())]
    InUse {
        /// The store's file.
        path: PathBuf,
    },
    /// The file can't be opened, for another reason than its content.
    #[error("opening {}", path.display())]
    Open {
        /// The store's file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<redb::Error>,
    },
}

/// An open store.
#[derive(Debug)]
pub(crate) struct Store {
    database: Database,
    path: PathBuf,
}

impl Store {
    /// Opens the store in `dir`, making both if need be.
    pub(crate) fn open(dir: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(dir).map_err(|source| StoreError::Directory {
            path: dir.to_owned(),
            source,
        })?;
        let path = dir.join(FILE);
        let opened = match open_and_check(&path) {
            Err(error) if is_damage(&error) => {
                set_aside(&path, &error)?;
                open_and_check(&path)
            }
            other => other,
        };
        match opened {
            Ok(database) => Ok(Self { database, path }),
            Err(redb::Error::DatabaseAlreadyOpen) => Err(StoreError::InUse { path }),
            Err(source) => Err(StoreError::Open {
                path,
                source: Box::new(source),
            }),
        }
    }

    /// The store's file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads what is known of clients into `each`, which tells whether it could use a record; gives
    /// the number of those it could, and of those it could not.
    pub(crate) fn load(
        &self,
        each: impl FnMut(Key, &[u8]) -> bool,
    ) -> Result<(usize, usize), redb::Error> {
        self.read(CLIENTS, each)
    }

    /// The same with what is known of routes.
    pub(crate) fn load_routes(
        &self,
        each: impl FnMut(PathKey, &[u8]) -> bool,
    ) -> Result<(usize, usize), redb::Error> {
        self.read(ROUTES, each)
    }

    fn read<K: FromStr>(
        &self,
        table: Table,
        mut each: impl FnMut(K, &[u8]) -> bool,
    ) -> Result<(usize, usize), redb::Error> {
        let transaction = self.database.begin_read()?;
        let table = match transaction.open_table(table) {
            Err(TableError::TableDoesNotExist(_)) => return Ok((0, 0)),
            table => table?,
        };
        let (mut used, mut unusable) = (0, 0);
        for record in table.iter()? {
            let (key, value) = record?;
            let good = key
                .value()
                .parse()
                .is_ok_and(|key| each(key, value.value()));
            *(if good { &mut used } else { &mut unusable }) += 1;
        }
        Ok((used, unusable))
    }

    /// Writes changes in one transaction.
    pub(crate) fn write(&self, changes: &Changes) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        if !changes.cleared.is_empty() {
            transaction.open_table(CLIENTS)?.retain(|key, _| {
                let key = key.parse::<Key>();
                key.is_ok_and(|key| !changes.cleared.contains(&Clients::shard_of_key(&key)))
            })?;
        }
        put(&transaction, CLIENTS, &changes.records)?;
        if changes.routes.cleared {
            transaction.delete_table(ROUTES)?;
        }
        put(&transaction, ROUTES, &changes.routes.records)?;
        transaction.commit()?;
        Ok(())
    }

    /// Forgets what is known of routes.
    pub(crate) fn clear_routes(&self) -> Result<(), redb::Error> {
        let routes = PathChanges {
            cleared: true,
            records: Vec::new(),
        };
        self.write(&Changes {
            routes,
            ..Changes::default()
        })
    }
}

/// Puts or removes records.
fn put<K: Display>(
    transaction: &WriteTransaction,
    table: Table,
    records: &[(K, Option<Box<[u8]>>)],
) -> Result<(), redb::Error> {
    let mut table = transaction.open_table(table)?;
    for (key, value) in records {
        let key = key.to_string();
        match value {
            Some(value) => drop(table.insert(key.as_str(), &**value)?),
            None => drop(table.remove(key.as_str())?),
        }
    }
    Ok(())
}

/// Opens the file and reads through it, so that damage shows now and not later.
fn open_and_check(path: &Path) -> Result<Database, redb::Error> {
    let mut database = Database::create(path)?;
    if !database.check_integrity()? {
        tracing::warn!("{} was repaired after a crash", path.display());
    }
    let transaction = database.begin_read()?;
    for table in [CLIENTS, ROUTES] {
        match transaction.open_table(table) {
            Ok(_) | Err(TableError::TableDoesNotExist(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    drop(transaction);
    Ok(database)
}

/// Whether the file's content is at fault.
fn is_damage(error: &redb::Error) -> bool {
    match error {
        redb::Error::Corrupted(_)
        | redb::Error::UpgradeRequired(_)
        | redb::Error::RepairAborted
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::TypeDefinitionChanged { .. } => true,
        redb::Error::Io(error) => matches!(
            error.kind(),
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
        ),
        _ => false,
    }
}

fn set_aside(path: &Path, why: &redb::Error) -> Result<(), StoreError> {
    let secs = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |now| now.as_secs());
    let aside = path.with_extension(format!("redb.unreadable-{secs}"));
    fs::rename(path, &aside).map_err(|source| StoreError::Directory {
        path: path.to_owned(),
        source,
    })?;
    tracing::error!(
        "{} can't be read ({why}); it is kept as {}, and the server starts with what it learns \
         from now on",
        path.display(),
        aside.display()
    );
    Ok(())
}

/// Writes what changed, every two seconds and at the end.
pub(crate) async fn write_behind(
    store: Arc<Store>,
    shared: Arc<Shared>,
    stop: tokio_util::sync::CancellationToken,
) {
    let mut writer = Some(Writer {
        store,
        shared,
        unwritten: Changes::default(),
        failing: false,
    });
    loop {
        let stopped = stop
            .run_until_cancelled(tokio::time::sleep(WRITE_INTERVAL))
            .await
            .is_none();
        let Some(mut taken) = writer.take() else {
            return;
        };
        let written = tokio::task::spawn_blocking(move || {
            taken.write();
            taken
        });
        writer = written.await.ok();
        if stopped {
            return;
        }
    }
}

struct Writer {
    store: Arc<Store>,
    shared: Arc<Shared>,
    /// What failed to be written, to be tried again first.
    unwritten: Changes,
    failing: bool,
}

impl Writer {
    fn write(&mut self) {
        loop {
            if self.unwritten.is_empty() {
                self.unwritten = self.shared.changes(BATCH);
            }
            if self.unwritten.is_empty() {
                return;
            }
            if let Err(error) = self.store.write(&self.unwritten) {
                if !std::mem::replace(&mut self.failing, true) {
                    let path = self.store.path().display();
                    tracing::error!("writing {path}: {error}; trying again every two seconds");
                }
                return;
            }
            self.failing = false;
            let written = std::mem::take(&mut self.unwritten);
            let records = written.records.len() + written.routes.records.len();
            add(&self.shared.metrics.stored, records as u64);
        }
    }
}
