//! Codings of files that are made on request, and kept.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::buffer::CHUNK;
use super::negotiate::Coding;
use super::representation::{Representation, Source};
use super::root::Wait;
use super::stream::read_at;
use super::tree::Resource;
use crate::compress::{self, Compression, Encoder, Settings};

/// Codings of one file that are made on request, each at the first one.
#[derive(Debug)]
pub(super) struct Made {
    compression: Arc<Compression>,
    /// By [`Coding::index`]. `None` stands for a coding that saves nothing.
    codings: [OnceCell<Option<Kept>>; Coding::ALL.len()],
    /// Whether one was sent since the shelf looked last.
    is_used: AtomicBool,
    /// Whether the shelf knows the file.
    is_listed: AtomicBool,
}

#[derive(Debug)]
struct Kept {
    file: Arc<Representation>,
    charge: Charge,
}

impl Made {
    pub(super) fn new(compression: Arc<Compression>) -> Self {
        Self {
            compression,
            codings: Default::default(),
            is_used: AtomicBool::new(false),
            is_listed: AtomicBool::new(false),
        }
    }

    pub(super) fn codings(&self) -> impl Iterator<Item = Coding> {
        self.compression.encodings().iter().copied()
    }

    /// Returns a coding that was made; within it `None`, if it saves nothing.
    pub(super) fn get(&self, coding: Coding) -> Option<Option<&Arc<Representation>>> {
        let kept = self.codings[coding.index()].get()?;
        // Not written again, so that cores keep sharing its cache line.
        if kept.is_some() && !self.is_used.load(Relaxed) {
            self.is_used.store(true, Relaxed);
        }
        Some(kept.as_ref().map(|kept| &kept.file))
    }

    /// Makes a coding of the file that a path leads to. Requests that come meanwhile wait for this
    /// one. Returns `None` if the plain file is to be sent: it is as small, or there is no memory, or
    /// it can't be read.
    pub(super) async fn make(
        &self,
        coding: Coding,
        resource: &Arc<Resource>,
        shelf: &Shelf,
    ) -> Option<Arc<Representation>> {
        let plain = resource.plain();
        let settings = self.compression.settings(coding);
        let make = || async {
            if plain.len > shelf.largest() {
                let file = Arc::new(plain.coded_later(coding));
                let charge = shelf.charge(0);
                return Ok(Some(Kept { file, charge }));
            }
            let lease = self.compression.lease(settings, Some(plain.len));
            let lease = lease.ok_or_else(|| io::Error::other("no memory for an encoder"))?;
            let source = Arc::clone(plain);
            let encode = move || {
                let _lease = lease;
                encode(&source, settings)
            };
            // Only a runtime that shuts down cancels it.
            let content = tokio::task::spawn_blocking(encode).await??;
            if content.len() as u64 >= plain.len {
                return Ok(None);
            }
            let charge = shelf.charge(content.len() as u64);
            let file = Arc::new(plain.coded(settings, content));
            Ok::<_, io::Error>(Some(Kept { file, charge }))
        };
        match self.codings[coding.index()].get_or_try_init(make).await {
            Ok(kept) => kept.as_ref().map(|kept| Arc::clone(&kept.file)),
            Err(error) => {
                tracing::debug!("a file is sent without compression: {error}");
                None
            }
        }
    }

    /// Bytes of memory for the codings.
    fn bytes(&self) -> u64 {
        let kept = self.codings.iter().filter_map(OnceCell::get).flatten();
        kept.map(|kept| kept.charge.bytes).sum()
    }
}

/// Codes all of a file. It waits for the disk.
fn encode(file: &Representation, settings: Settings) -> io::Result<Bytes> {
    let mut encoder = Encoder::new(settings, Some(file.len))?;
    let mut coded = Vec::new();
    match &file.source {
        Source::Memory(content) => coded.extend(encoder.write(content)?),
        Source::File(source) => {
            let (mut offset, mut buffer) = (0, vec![0; CHUNK]);
            while offset < file.len {
                let read = read_at(source, &mut buffer, offset, Wait::Allowed)?;
                let rest = usize::try_from(file.len - offset).unwrap_or(read);
                let read = read.min(rest);
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                coded.extend(encoder.write(&buffer[..read])?);
                offset += read as u64;
            }
        }
    }
    coded.extend(encoder.finish()?);
    let len = usize::try_from(file.len).unwrap_or(usize::MAX);
    compress::count(settings.coding, len, coded.len());
    coded.shrink_to_fit();
    Ok(coded.into())
}

/// Memory for codings of all files below a root, and the order in which files lose theirs.
///
/// It follows the clock algorithm: files whose codings were sent since its last look stay.
#[derive(Debug)]
pub(super) struct Shelf {
    limit: u64,
    held: Arc<AtomicU64>,
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Files {
    order: VecDeque<(Box<str>, Weak<Resource>)>,
    /// Number of files at which those that are gone are taken out.
    sweeps_at: usize,
}

/// Memory of one coding, until it is dropped.
#[derive(Debug)]
struct Charge {
    bytes: u64,
    held: Arc<AtomicU64>,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Relaxed);
    }
}

impl Shelf {
    /// Memory of `limit` bytes.
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            held: Arc::default(),
            files: Mutex::default(),
        }
    }

    /// Length of the largest file whose codings are kept. None is if this is 0.
    fn largest(&self) -> u64 {
        self.limit.min(LARGEST)
    }

    fn charge(&self, bytes: u64) -> Charge {
        self.held.fetch_add(bytes, Relaxed);
        Charge {
            bytes,
            held: Arc::clone(&self.held),
        }
    }

    /// Takes note of a file that has got a coding. Returns the paths of files whose codings must go for
    /// it.
    pub(super) fn add(&self, path: &str, resource: &Arc<Resource>) -> Vec<Box<str>> {
        let mut files = self.files.lock();
        if let Some(made) = &resource.made
            && made.bytes() > 0
            && !made.is_listed.swap(true, Relaxed)
        {
            files.push(path, resource);
        }
        let excess = self.held.load(Relaxed).saturating_sub(self.limit);
        files.evict(excess)
    }
}

impl Files {
    fn push(&mut self, path: &str, resource: &Arc<Resource>) {
        if self.order.len() >= self.sweeps_at.max(MIN_SWEEP) {
            self.order.retain(|(_, file)| file.strong_count() > 0);
            self.sweeps_at = 2 * self.order.len();
        }
        self.order
            .push_back((path.into(), Arc::downgrade(resource)));
    }

    /// Chooses files that have at least `excess` bytes together.
    fn evict(&mut self, mut excess: u64) -> Vec<Box<str>> {
        let mut evicted = Vec::new();
        // At the second look each file is unused.
        for _ in 0..2 * self.order.len() {
            if excess == 0 {
                break;
            }
            let Some((path, file)) = self.order.pop_front() else {
                break;
            };
            let resource = file.upgrade();
            let Some(made) = resource.as_ref().and_then(|it| it.made.as_ref()) else {
                continue;
            };
            if made.is_used.swap(false, Relaxed) {
                self.order.push_back((path, file));
                continue;
            }
            excess = excess.saturating_sub(made.bytes());
            evicted.push(path);
        }
        evicted
    }
}

/// Bytes of the largest file whose codings are kept. Its first client waits for all of the coding.
const LARGEST: u64 = 1 << 20;

const MIN_SWEEP: usize = 64;

#[cfg(test)]
mod tests {
    use super::super::FilesConfig;
    use super::super::directories::Directories;
    use super::super::tree::{Found, Tree};
    use super::*;
    use crate::CompressionConfig;

    const LEN: usize = 10_000;

    /// A tree of files that compress well.
    fn tree(directory: &tempfile::TempDir, files: usize) -> Tree {
        for number in 0..files {
            let path = directory.path().join(format!("{number}.txt"));
            std::fs::write(path, "hello\n".repeat(LEN / 6)).unwrap();
        }
        let config = CompressionConfig {
            encodings: Coding::ALL.to_vec(),
            ..CompressionConfig::default()
        };
        let compression = Compression::new(&config).unwrap();
        Tree::open(
            directory.path(),
            &FilesConfig::default(),
            compression,
            &Directories::default(),
        )
        .unwrap()
    }

    /// A file all of whose codings were made.
    async fn made(tree: &Tree, number: usize, shelf: &Shelf) -> (String, Arc<Resource>) {
        let path = format!("/{number}.txt");
        let Found::File(file) = tree.find(&path, None, Wait::Allowed).unwrap() else {
            panic!("no file");
        };
        for coding in Coding::ALL {
            let made = file.made.as_ref().unwrap();
            assert!(made.get(coding).is_none());
            assert!(made.make(coding, &file, shelf).await.is_some());
            assert!(made.get(coding).unwrap().is_some());
        }
        (path, file)
    }

    #[tokio::test]
    async fn memory_counts_until_the_file_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let tree = tree(&directory, 1);
        let shelf = Shelf::new(1 << 20);
        let (path, file) = made(&tree, 0, &shelf).await;
        assert!(shelf.add(&path, &file).is_empty());
        let made = file.made.as_ref().unwrap();
        let held = made.bytes();
        assert!(held > 0 && held < LEN as u64, "{held}");
        assert_eq!(shelf.held.load(Relaxed), held);
        drop(file);
        assert_eq!(shelf.held.load(Relaxed), 0);
    }

    #[tokio::test]
    async fn files_in_use_stay_and_the_others_go_first_come_first() {
        let directory = tempfile::tempdir().unwrap();
        let tree = tree(&directory, 4);
        let mut shelf = Shelf::new(1 << 20);
        let mut files = Vec::new();
        for number in 0..4 {
            let (path, file) = made(&tree, number, &shelf).await;
            for _ in 0..3 {
                assert!(shelf.add(&path, &file).is_empty());
            }
            file.made.as_ref().unwrap().is_used.store(false, Relaxed);
            files.push((path, file));
        }
        assert_eq!(shelf.files.lock().order.len(), 4, "each is listed once");
        files[0].1.made.as_ref().unwrap().get(Coding::Br);
        shelf.limit = shelf.held.load(Relaxed) - 1;
        let (path, file) = &files[3];
        let evicted = shelf.add(path, file);
        assert_eq!(evicted.len(), 1);
        assert_eq!(&*evicted[0], "/1.txt");
        // Its memory is still held here, and so the next one goes.
        shelf.limit = 0;
        let evicted = shelf.add(path, file);
        assert_eq!(evicted.len(), 3, "{evicted:?}");
    }

    #[tokio::test]
    async fn files_that_are_gone_are_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let tree = tree(&directory, 1);
        let shelf = Shelf::new(1 << 30);
        for _ in 0..3 * MIN_SWEEP {
            let (path, file) = made(&tree, 0, &shelf).await;
            shelf.add(&path, &file);
        }
        assert!(shelf.files.lock().order.len() <= MIN_SWEEP + 1);
    }
}
