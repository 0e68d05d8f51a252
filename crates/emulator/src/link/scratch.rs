//! Temporary directories of a running lab.
//!
//! A directory `hikyaku-lab-PID-RANDOM`, beside other temporary files, is locked by its process as
//! long as that lives. The kernel drops the lock however the process ends. So a directory without a
//! lock belongs to a killed lab.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, OFlags, flock};

use super::error::LinkError;
use super::lock;
use super::owner::Register;

/// A directory that is removed on drop, or when the process is [asked to end](crate::interrupt).
/// `lab clean` finds those of killed processes.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    kept: bool,
    _lock: File,
}

/// The temporary directories of this process.
static PRESENT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

const PREFIX: &str = "hikyaku-lab-";

impl Scratch {
    /// Makes a directory. Only its user removes one that is to be kept.
    ///
    /// # Errors
    /// If the directory cannot be made or locked.
    pub fn create(kept: bool) -> Result<Self, LinkError> {
        // `lab clean` must not look between making and locking.
        let _register = Register::lock()?;
        let owner = match kept {
            true => "kept".to_owned(),
            false => std::process::id().to_string(),
        };
        let mut present = PRESENT.lock();
        let directory = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{owner}-"))
            .tempdir()
            .map_err(at(&std::env::temp_dir()))?;
        let lock = open(directory.path()).map_err(at(directory.path()))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| at(directory.path())(errno.into()))?;
        let path = directory.keep();
        if !kept {
            present.push(path.clone());
        }
        Ok(Self {
            path,
            kept,
            _lock: lock,
        })
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let mut present = PRESENT.lock();
        // `lab clean` finds the remains.
        let _ = fs::remove_dir_all(&self.path);
        present.retain(|path| *path != self.path);
    }
}

/// Removes all directories of this process, because it is about to end. None can be made or dropped
/// afterwards.
pub(crate) fn abandon() {
    let present = PRESENT.lock();
    for path in present.iter() {
        // A thread that still writes may add a file meanwhile.
        let mut tries = 0..5;
        let _ = tries.any(|_| fs::remove_dir_all(path).is_ok());
    }
    // Never unlocked again: other threads wait here until the process ends.
    std::mem::forget(present);
}

/// Returns the directories in `temporary` whose owners are dead. The register holds off new ones.
pub(super) fn left(_register: &Register, temporary: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(temporary).into_iter().flatten();
    let named = entries
        .flatten()
        .filter_map(|entry| Some((owner(&entry.file_name())?, entry.path())));
    let mut left: Vec<PathBuf> = named
        .filter(|(owner, path)| is_dead(*owner, path).unwrap_or(false))
        .map(|(_, path)| path)
        .collect();
    left.sort_unstable();
    left
}

/// Removes a dead owner's directory.
pub(super) fn remove(path: &Path) -> Result<(), LinkError> {
    fs::remove_dir_all(path).map_err(at(path))
}

/// Returns the process of the directory with this name, if it is a lab's.
fn owner(name: &std::ffi::OsStr) -> Option<u32> {
    let (owner, _) = name.to_str()?.strip_prefix(PREFIX)?.split_once('-')?;
    owner.parse().ok()
}

/// Whether it belongs to this user, and nobody holds its lock.
fn is_dead(owner: u32, path: &Path) -> io::Result<bool> {
    let directory = open(path)?;
    if directory.metadata()?.uid() != rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    lock::take(&directory, owner)
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    options.open(path)
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> LinkError {
    let path = path.to_owned();
    move |source| LinkError::Scratch { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_directory_without_a_lock_is_dead() {
        let temporary = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = temporary.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let (dead, living) = (make("hikyaku-lab-1-a"), make("hikyaku-lab-2-b"));
        let lock = open(&living).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        let own = std::process::id();
        assert!(is_dead(own, &dead).unwrap());
        assert!(!is_dead(own, &living).unwrap());
        let link = temporary.path().join("hikyaku-lab-3-c");
        std::os::unix::fs::symlink(&dead, &link).unwrap();
        assert!(is_dead(own, &link).is_err(), "a symbolic link is nobody's");
    }

    #[test]
    fn kept_and_foreign_directories_are_not_ours() {
        let cases = [
            ("hikyaku-lab-123-AbCdEf", Some(123)),
            ("hikyaku-lab-kept-AbCdEf", None),
            ("hikyaku-lab-AbCdEf", None),
            ("hikyaku-lab-12", None),
            ("notes", None),
        ];
        for (name, want) in cases {
            assert_eq!(owner(name.as_ref()), want, "{name}");
        }
    }
}
