//! Fills the index after a start, from the beginnings of all files.
//!
//! A file takes one open and one read of 4 KiB. Requests go on meanwhile: what the index does not know yet
//! is found by its path. The order of age is not known any more. So these responses go to the old end of the
//! queue, and uses decide again.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::format::Beginning;
use super::shared::Shared;

/// Starts the thread that fills the index. It ends when all is read, or the store closes.
pub(super) fn start(shared: &Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    thread::Builder::new()
        .name("cache-loader".to_owned())
        .spawn(move || {
            for byte in 0..=u8::MAX {
                if load(&shared, byte).is_err() {
                    shared.count_failure();
                }
            }
            shared.loaded();
        })
}

/// Loads the files of one directory.
fn load(shared: &Shared, byte: u8) -> io::Result<()> {
    let files = match fs::read_dir(shared.directory(byte)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        files => files?,
    };
    for file in files {
        if shared.is_stopping() {
            break;
        }
        let file = file?;
        let Some(key) = key_of(byte, &file.file_name().to_string_lossy()) else {
            continue;
        };
        if shared.knows(&key) {
            continue;
        }
        match look(shared, &key, &file.path()) {
            Ok(true) => {}
            Ok(false) => shared.discard(&key, None),
            // It has left meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => shared.count_failure(),
        }
    }
    Ok(())
}

/// Reads the beginning of a file into the index. Returns whether it is a response that may stay.
fn look(shared: &Shared, key: &[u8; 32], path: &Path) -> io::Result<bool> {
    let Some(beginning) = Beginning::read(&File::open(path)?)? else {
        return Ok(false);
    };
    Ok(beginning.front.key == *key && shared.admit(&beginning, false))
}

/// The key of a file, by its directory and its name.
fn key_of(byte: u8, name: &str) -> Option<[u8; 32]> {
    let mut key = [byte; 32];
    let is_key = name.len() == 62
        && name
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    for (at, digits) in key[1..].iter_mut().zip(name.as_bytes().chunks_exact(2)) {
        *at = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    }
    is_key.then_some(key)
}
