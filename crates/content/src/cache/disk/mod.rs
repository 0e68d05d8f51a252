//! Responses in a directory: bounded in bytes, whole after a crash, kept over restarts.
//!
//! Each response is one file, `objects/ab/cdef...` by its key: first the head, then the body
//! (`format.rs`). A file is written in `tmp` and renamed when it is complete. The index is in memory
//! (`index.rs`); after a start, a thread fills it again from the beginnings of the files (`loader.rs`).
//! Until it is done, the other responses are found by their paths.
//!
//! # What a crash leaves
//!
//! Nothing is synchronised to the disk, since that costs more than a response is worth. If the process
//! ends, the kernel still writes everything that was renamed. If the machine loses power, a file may have its
//! name before its content. So no file of a former run is believed:
//!
//! - Its length, and the checksum of its beginning, are compared whenever it is opened.
//! - The checksum of its body is compared at its first hit, before anything of it is sent.
//!
//! Later hits of it, and hits of what this process has stored, read no more than the beginning. A response
//! that fails is removed, and the upstream is asked again.
//!
//! # Threads
//!
//! All methods but [`Store::holds`] and [`Store::counts`] read or write files: they belong into tokio's
//! pool for blocking work. One lock guards the index and all names of files. It is held for lookups
//! and renames, never while content is read, written or freed.

mod files;
mod format;
mod index;
mod loader;
mod purge;
mod reading;
mod shared;
mod writer;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use parking_lot::Mutex;

use shared::Shared;

pub use purge::Purge;
pub use writer::Writer;

/// Stored responses in one directory.
#[derive(Debug)]
pub struct Store {
    shared: Arc<Shared>,
    loader: Mutex<Option<JoinHandle<()>>>,
}

/// A stored response.
#[derive(Debug)]
pub struct Entry {
    /// The head, as it was given.
    pub head: Bytes,
    /// The file with the body. It stays readable when the response leaves the store.
    pub file: File,
    /// Where the body begins in the file, in bytes.
    pub offset: u64,
    /// The length of the body, in bytes.
    pub length: u64,
    /// Distinguishes this response from earlier and later ones of its key.
    pub id: u64,
}

/// The state of a store, and its events since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Responses that are known; while the index is filled, those found so far.
    pub entries: u64,
    /// Their bytes on disk, in blocks of 4 KiB, with those of responses that are being written.
    pub bytes: u64,
    /// Responses evicted to make room.
    pub evicted: u64,
    /// Damaged files that were removed.
    pub damaged: u64,
    /// Reads and writes that failed, for example on a full disk.
    pub failures: u64,
}

impl Store {
    /// Opens the store in a directory, and makes the directory if need be. `limit` bounds its files, in
    /// bytes; with a smaller limit than before, responses are evicted. Files of a former process count
    /// as soon as the index knows them.
    ///
    /// Unfinished files of an interrupted process are removed. One process at a time can have a directory
    /// open, until it ends or calls [`Store::release`].
    ///
    /// # Errors
    /// If the directory can't be made or written, or another process has it open
    /// ([`io::ErrorKind::WouldBlock`]).
    pub fn open(dir: &Path, limit: u64) -> io::Result<Self> {
        let shared = Arc::new(Shared::open(dir, limit)?);
        let loader = loader::start(&shared)?;
        Ok(Self {
            shared,
            loader: Mutex::new(Some(loader)),
        })
    }

    /// Whether the store may have a response of this key. Reads no file.
    pub fn holds(&self, key: &[u8; 32]) -> bool {
        self.shared.may_hold(key)
    }

    /// Returns the response of a key. A response of a former process is checked whole at its first hit: that
    /// reads its body once.
    ///
    /// `None` if there is none, or it turns out to be damaged, or it can't be read.
    pub fn get(&self, key: &[u8; 32]) -> Option<Entry> {
        self.shared.get(key)
    }

    /// Begins to store a response. It replaces the one of its key when it is committed.
    ///
    /// `url` and `tags` are those that [`Store::purge`] compares. A purge that hits them, or a removal
    /// of the key, also hits a response that is being written.
    ///
    /// # Errors
    /// If the file can't be made, there is no room, or head or URL with tags exceed 1 MiB.
    pub fn put(
        &self,
        key: [u8; 32],
        head: &[u8],
        tags: &[String],
        url: &str,
    ) -> io::Result<Writer> {
        Writer::new(&self.shared, key, head, format::about(url, tags))
    }

    /// Replaces the head of a stored response, as after a 304 (RFC 9111 §4.3.4). `id` is that of the
    /// [`Entry`] that was validated.
    ///
    /// # Errors
    /// If the response has left the store or was replaced ([`io::ErrorKind::NotFound`]), or it can't be
    /// written. The head is then the one of before.
    pub fn replace_head(&self, key: &[u8; 32], id: u64, head: &[u8]) -> io::Result<()> {
        writer::replace_head(&self.shared, key, id, head)
    }

    /// Removes the response of a key.
    pub fn remove(&self, key: &[u8; 32]) {
        self.shared.remove(key);
    }

    /// Removes all responses that a purge hits, and returns their number. Those that the index does not know
    /// yet are removed when they are found, and not counted.
    pub fn purge(&self, what: &Purge) -> usize {
        self.shared.purge(what)
    }

    /// Returns the state of the store.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Waits until the index is complete.
    pub fn wait_loaded(&self) {
        if let Some(loader) = self.loader.lock().take() {
            let _ = loader.join();
        }
    }

    /// Gives the directory to another process, as in an upgrade. This store is empty from now on, and keeps
    /// nothing more; entries that were returned stay readable.
    pub fn release(&self) {
        self.shared.stop_loading();
        self.wait_loaded();
        self.shared.release();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.release();
    }
}
