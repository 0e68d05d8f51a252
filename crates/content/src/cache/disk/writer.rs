//! Writing a response, and replacing the head of one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;

use flate2::Crc;

use super::files::blocks;
use super::format::{self, Beginning, Front, LARGEST_PART};
use super::shared::{Shared, Writing};

/// Bytes of a body that are copied at once.
const CHUNK: usize = 256 << 10;

/// A response that is being stored. Dropped before [`Writer::commit`], it leaves nothing.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    writing: Arc<Writing>,
    file: File,
    path: PathBuf,
    front: Front,
    about: Vec<u8>,
    head: Vec<u8>,
    checksum: Crc,
    reserved: u64,
    /// The id of the response that this one may replace.
    over: Option<u64>,
    /// Whether a write has failed: the file has a gap then.
    has_failed: bool,
}

impl Writer {
    pub(super) fn new(
        shared: &Arc<Shared>,
        key: [u8; 32],
        head: &[u8],
        about: Vec<u8>,
    ) -> io::Result<Self> {
        let id = shared.next_id();
        Self::with_id(shared, key, id, None, head, about)
    }

    fn with_id(
        shared: &Arc<Shared>,
        key: [u8; 32],
        id: u64,
        over: Option<u64>,
        head: &[u8],
        about: Vec<u8>,
    ) -> io::Result<Self> {
        if head.len().max(about.len()) > LARGEST_PART {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the head, or the URL with its tags, is longer than 1 MiB",
            ));
        }
        let texts = format::texts(&about).unwrap_or_default();
        let (url, tags) = texts.split_first().map_or(("", &[][..]), |(u, t)| (*u, t));
        let writing = Arc::new(Writing::new(key, url, tags));
        let path = shared.temporary();
        let made = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        let file = made.inspect_err(|_| shared.count_failure())?;
        // A validation may return some more fields, or longer ones.
        let room = head.len() + head.len() / 4 + 128;
        let front = Front {
            key,
            id,
            length: 0,
            checksum: 0,
            room: u32::try_from(room).unwrap_or(u32::MAX),
            about: u32::try_from(about.len()).unwrap_or(u32::MAX),
            about_checksum: format::checksum(&[&about]),
        };
        let mut this = Self {
            shared: Arc::clone(shared),
            writing,
            file,
            path,
            front,
            about,
            head: head.to_vec(),
            checksum: Crc::new(),
            reserved: 0,
            over,
            has_failed: false,
        };
        let reserved = this.reserve();
        this.note(reserved)?;
        Ok(this)
    }

    /// Appends to the body.
    ///
    /// # Errors
    /// If there is no room, or the file can't be written. The response can't be committed then.
    pub fn write(&mut self, data: &[u8]) -> io::Result<()> {
        let at = self.front.file();
        self.front.length += data.len() as u64;
        let written = self
            .reserve()
            .and_then(|()| self.file.write_all_at(data, at));
        self.checksum.update(data);
        self.note(written)
    }

    /// Makes the response visible. One that was purged or removed meanwhile is dropped, without an error.
    ///
    /// # Errors
    /// If the file can't be written, or a former write has failed. Nothing is stored then.
    pub fn commit(mut self) -> io::Result<()> {
        if self.has_failed {
            return Err(io::Error::other("a part of the response was not written"));
        }
        self.front.checksum = self.checksum.sum();
        let beginning = format::encode(&self.front, &self.about, &self.head);
        let written = self.file.write_all_at(&beginning, 0);
        self.note(written)?;
        let size = blocks(self.front.file());
        let (id, over) = (self.front.id, self.over);
        let stored = self
            .shared
            .commit(&self.writing, id, size, &self.path, over);
        self.note(stored.map(drop))
    }

    /// Takes room for all of the file so far.
    fn reserve(&mut self) -> io::Result<()> {
        let wanted = blocks(self.front.file());
        if wanted > self.reserved {
            self.shared.reserve(&self.writing, wanted - self.reserved)?;
            self.reserved = wanted;
        }
        Ok(())
    }

    fn note(&mut self, result: io::Result<()>) -> io::Result<()> {
        result.inspect_err(|_| {
            self.has_failed = true;
            self.shared.count_failure();
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Committed, it has this name no more.
        let _ = fs::remove_file(&self.path);
        self.shared.give_back(&self.writing, self.reserved);
    }
}

/// Replaces the head of a stored response; see [`Store::replace_head`](super::Store::replace_head).
pub(super) fn replace_head(
    shared: &Arc<Shared>,
    key: &[u8; 32],
    id: u64,
    head: &[u8],
) -> io::Result<()> {
    let turn = shared.heads.lock();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(shared.path(key))?;
    let beginning = Beginning::read(&file)?;
    let beginning = beginning.filter(|beginning| beginning.front.id == id);
    let (Some(beginning), true) = (beginning, shared.may_hold(key)) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let room = usize::try_from(beginning.front.room).unwrap_or(0);
    let replaced = match beginning.head() {
        Some((which, serial, _)) if head.len() <= room => {
            let slot = format::slot(serial + 1, head);
            file.write_all_at(&slot, beginning.front.slot(1 - which))
        }
        _ => {
            drop(turn);
            return write_anew(shared, &file, &beginning, head);
        }
    };
    replaced.inspect_err(|_| shared.count_failure())
}

/// Copies a response to a file with more room for its head.
fn write_anew(
    shared: &Arc<Shared>,
    file: &File,
    beginning: &Beginning,
    head: &[u8],
) -> io::Result<()> {
    let front = &beginning.front;
    let about = beginning.about().to_vec();
    let mut writer = Writer::with_id(shared, front.key, front.id, Some(front.id), head, about)?;
    let (mut chunk, mut left, mut at) = (vec![0; CHUNK], front.length, front.body());
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        file.read_exact_at(&mut chunk[..wanted], at)?;
        writer.write(&chunk[..wanted])?;
        at += wanted as u64;
        left -= wanted as u64;
    }
    if writer.checksum.sum() != front.checksum {
        shared.discard(&front.key, Some(front.id));
        return Err(io::ErrorKind::InvalidData.into());
    }
    writer.commit()
}
