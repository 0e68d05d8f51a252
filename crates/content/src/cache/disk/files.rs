//! The directory's files: their names, their lock, and the check of a body.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flate2::Crc;

use super::format::{Beginning, read_at};

/// Files take whole blocks of a disk.
const BLOCK: u64 = 4096;
/// Bytes of a body that are read at once to check it.
const CHUNK: usize = 256 << 10;

/// The directory of the files whose keys begin with a byte.
pub(super) fn directory(dir: &Path, byte: u8) -> PathBuf {
    dir.join("objects").join(format!("{byte:02x}"))
}

/// Makes the directories, takes the lock and removes files that were not committed.
pub(super) fn prepare(dir: &Path) -> io::Result<File> {
    let about = |what: &str, path: &Path, error: &io::Error| {
        io::Error::new(error.kind(), format!("{what} {}: {error}", path.display()))
    };
    let make = |path: &Path| {
        // Cached responses may be for few eyes.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| about("making the cache's directory", path, &error))
    };
    make(dir)?;
    let path = dir.join("lock");
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(|error| about("opening the cache's lock", &path, &error))?;
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => io::Error::new(
            io::ErrorKind::WouldBlock,
            format!(
                "opening the cache in {}: another process has it open; give each server a \
                 directory of its own",
                dir.display()
            ),
        ),
        TryLockError::Error(error) => about("locking the cache", &path, &error),
    })?;
    make(&dir.join("objects"))?;
    let temporary = dir.join("tmp");
    make(&temporary)?;
    for file in fs::read_dir(&temporary)? {
        let path = file?.path();
        fs::remove_file(&path).map_err(|error| about("removing", &path, &error))?;
    }
    Ok(lock)
}

/// Renames a complete file to its place, in a directory that may be missing yet.
pub(super) fn put_in_place(from: &Path, to: &Path) -> io::Result<()> {
    match (fs::rename(from, to), to.parent()) {
        (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(parent)?;
            fs::rename(from, to)
        }
        (renamed, _) => renamed,
    }
}

/// Whether a body has its length and its checksum.
pub(super) fn body_is_whole(file: &File, beginning: &Beginning) -> io::Result<bool> {
    let (mut crc, mut offset) = (Crc::new(), beginning.front.body());
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = read_at(file, &mut chunk, offset)?;
        if read == 0 {
            break;
        }
        crc.update(&chunk[..read]);
        offset += read as u64;
    }
    Ok(offset == beginning.front.file() && crc.sum() == beginning.front.checksum)
}

/// The bytes that a file takes on disk.
pub(super) fn blocks(length: u64) -> u64 {
    length.div_ceil(BLOCK).saturating_mul(BLOCK)
}

/// Removes files that were set aside. One that stays for an error is removed at the next start.
pub(super) fn free(gone: impl IntoIterator<Item = PathBuf>) {
    for path in gone {
        let _ = fs::remove_file(path);
    }
}
