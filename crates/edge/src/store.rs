//! The store: the estimates of clients and the records of their egress routes, kept over restarts.
//!
//! Loaded whole at start, written behind every two seconds, one crash-safe transaction
//! each time. A file that can't be read is set aside, never deleted, and the server starts
//! with an empty one. Where the file can't be opened or written, as on a full disk, the server
//! works from memory and the file is tried again ([`writer`]).

mod writer;

use std::fmt::{self, Display};
use std::fs;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

use hikyaku_core::client::key::Key;
use hikyaku_core::egress::EgressKey;
use hikyaku_core::gain::Day;
use redb::{
    Database, ReadOnlyDatabase, ReadableDatabase, ReadableTable, TableDefinition, TableError,
    WriteTransaction,
};

use crate::clients::{Changes, Clients};

pub(crate) use writer::{Lender, Writer, lending, write_behind};

const FILE: &str = "clients.redb";
/// Text of a [`Key`] to an encoded estimate.
const CLIENTS: Table = TableDefinition::new("clients-1");
/// Text of a [`EgressKey`] to an encoded record.
const ROUTES: Table = TableDefinition::new("routes-1");
/// Number of a [`Day`] to an encoded sample of its clients.
const GAIN: Table = TableDefinition::new("gain-1");

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

impl StoreError {
    /// Whether the operator must mend something before the server can start: another server has
    /// the file, or a part of the path is no directory. Everything else may pass by itself.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::InUse { .. } => true,
            Self::Directory { source, .. } => source.kind() == io::ErrorKind::NotADirectory,
            Self::Open { .. } => false,
        }
    }
}

/// An open store.
pub(crate) struct Store {
    database: Opened,
    path: PathBuf,
    /// Device and inode, by which it is known again.
    identity: Option<(u64, u64)>,
}

enum Opened {
    Writable(Database),
    /// Where the file can be read alone.
    ReadOnly(ReadOnlyDatabase),
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.path).finish()
    }
}

impl Store {
    /// Opens the store in `dir`, making both if need be.
    pub(crate) fn open(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(FILE);
        // Without it, a leading part that is no directory is reported as if it were missing.
        fs::create_dir_all(dir).map_err(|source| StoreError::Directory {
            path: dir.to_owned(),
            source,
        })?;
        let opened = match open_and_check(&path) {
            Err(error) if is_damage(&error) => {
                set_aside(&path, &error)?;
                open_and_check(&path)
            }
            other => other,
        };
        match opened {
            Ok(database) => Ok(Self::of(Opened::Writable(database), path)),
            Err(redb::Error::DatabaseAlreadyOpen) => Err(StoreError::InUse { path }),
            Err(source) => Err(StoreError::Open {
                path,
                source: Box::new(source),
            }),
        }
    }

    /// Opens the store in `dir` for reading alone; `None` where that can't be done either.
    pub(crate) fn open_read_only(dir: &Path) -> Option<Self> {
        let path = dir.join(FILE);
        let database = ReadOnlyDatabase::open(&path).ok()?;
        Some(Self::of(Opened::ReadOnly(database), path))
    }

    fn of(database: Opened, path: PathBuf) -> Self {
        Self {
            identity: identity(&path),
            database,
            path,
        }
    }

    /// The file in `dir` that a store is kept in.
    pub(crate) fn file(dir: &Path) -> PathBuf {
        dir.join(FILE)
    }

    /// Whether nothing was ever written to it.
    pub(crate) fn is_new(&self) -> Result<bool, redb::Error> {
        let transaction = self.begin_read()?;
        Ok(transaction.list_tables()?.next().is_none())
    }

    /// Whether its path still leads to it: a file that was removed can be written, in vain.
    pub(crate) fn is_in_place(&self) -> bool {
        self.identity.is_some() && self.identity == identity(&self.path)
    }

    /// The store's file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the estimates of clients into `each`, which returns whether it could use a record. Returns
    /// the numbers of records that it could use and that it could not.
    pub(crate) fn load(
        &self,
        each: impl FnMut(Key, &[u8]) -> bool,
    ) -> Result<(usize, usize), redb::Error> {
        self.read(CLIENTS, each)
    }

    /// Reads the records of routes into `each`, as [`Store::load`] does for clients.
    pub(crate) fn load_routes(
        &self,
        each: impl FnMut(EgressKey, &[u8]) -> bool,
    ) -> Result<(usize, usize), redb::Error> {
        self.read(ROUTES, each)
    }

    /// Reads the days of the gain into `each`, as [`Store::load`] does for clients.
    pub(crate) fn load_gain(
        &self,
        mut each: impl FnMut(Day, &[u8]) -> bool,
    ) -> Result<(usize, usize), redb::Error> {
        self.read(GAIN, |day, encoded| each(Day(day), encoded))
    }

    fn read<K: FromStr>(
        &self,
        table: Table,
        mut each: impl FnMut(K, &[u8]) -> bool,
    ) -> Result<(usize, usize), redb::Error> {
        let transaction = self.begin_read()?;
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

    fn begin_read(&self) -> Result<redb::ReadTransaction, redb::Error> {
        Ok(match &self.database {
            Opened::Writable(database) => database.begin_read()?,
            Opened::ReadOnly(database) => database.begin_read()?,
        })
    }

    /// Writes changes in one transaction.
    ///
    /// # Errors
    /// When they can't be written. The database then refuses everything until it is opened anew.
    pub(crate) fn write(&self, changes: &Changes) -> Result<(), redb::Error> {
        let Opened::Writable(database) = &self.database else {
            return Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem).into());
        };
        let transaction = database.begin_write()?;
        if !changes.forgotten.is_empty() {
            let kept = |key: &Key| !changes.forgotten.iter().any(|gone| gone.contains(key));
            let mut clients = transaction.open_table(CLIENTS)?;
            clients.retain(|key, _| key.parse().is_ok_and(|key| kept(&key)))?;
            let mut routes = transaction.open_table(ROUTES)?;
            routes.retain(|key, _| match key.parse() {
                Ok(EgressKey::Net(key)) => kept(&key),
                Ok(EgressKey::As(_)) => true,
                Err(_) => false,
            })?;
        }
        if !changes.cleared.is_empty() {
            transaction.open_table(CLIENTS)?.retain(|key, _| {
                let key = key.parse::<Key>();
                key.is_ok_and(|key| !changes.cleared.contains(&Clients::stripe_of_key(&key)))
            })?;
        }
        put(&transaction, CLIENTS, &changes.records)?;
        if changes.routes.cleared {
            transaction.delete_table(ROUTES)?;
        }
        put(&transaction, ROUTES, &changes.routes.records)?;
        let days = changes.gain.iter();
        let days: Vec<_> = days.map(|(day, bytes)| (day.0, bytes.clone())).collect();
        put(&transaction, GAIN, &days)?;
        transaction.commit()?;
        Ok(())
    }
}

/// Puts or removes records.
fn put<K: Display, V: Deref<Target = [u8]>>(
    transaction: &WriteTransaction,
    table: Table,
    records: &[(K, Option<V>)],
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
    let created = match fs::metadata(path) {
        Ok(file) => file.len() == 0,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    let mut database = Database::create(path).inspect_err(|error| {
        // Begun and not finished, it would be taken for a damaged one.
        if created && !matches!(error, redb::DatabaseError::DatabaseAlreadyOpen) {
            let _ = fs::remove_file(path);
        }
    })?;
    if !database.check_integrity()? {
        tracing::warn!("{} was repaired after a crash", path.display());
    }
    let transaction = database.begin_read()?;
    for table in [CLIENTS, ROUTES, GAIN] {
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

fn identity(path: &Path) -> Option<(u64, u64)> {
    let file = fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

#[cfg(test)]
mod tests;
