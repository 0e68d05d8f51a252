//! Ownership of the lab's objects in the kernel.
//!
//! A process that makes namespaces names them `hkyk-PID-N-ROLE`. It holds a lock on its entry, the
//! file `/run/hikyaku-lab/PID`, as long as it has any. The kernel drops the lock at the process's
//! end, and no later process of that number holds it. So an entry without a lock belongs to a
//! killed lab. An entry has no content that could be torn: its name identifies its namespaces.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};

use super::error::LinkError;
use super::{congestion, lock, netns, privileges, processes};

/// The right to make the namespaces of one network. The process's entry lives as long as a claim.
#[derive(Debug)]
pub(crate) struct Claim {
    number: u32,
}

/// The entry of this process, and the number of claims that need it.
struct Entry {
    claims: usize,
    _lock: File,
}

static ENTRY: Mutex<Option<Entry>> = Mutex::new(None);

impl Claim {
    /// Takes a claim with a number of its own.
    pub(crate) fn take() -> Result<Arc<Self>, LinkError> {
        static TAKEN: AtomicU32 = AtomicU32::new(0);
        let mut entry = ENTRY.lock();
        match entry.as_mut() {
            Some(entry) => entry.claims += 1,
            None => {
                *entry = Some(Entry {
                    claims: 1,
                    _lock: enter_register()?,
                });
            }
        }
        let number = TAKEN.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Self { number }))
    }

    /// Returns the name of this network's namespace for `role`.
    pub(crate) fn name(&self, role: &str) -> String {
        format!("{}{}-{role}", prefix(std::process::id()), self.number)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut entry = ENTRY.lock();
        let last = entry.take_if(|entry| {
            entry.claims -= 1;
            entry.claims == 0
        });
        if last.is_some() {
            // `lab clean` finds the remains; a drop returns no error.
            let _ = leave_register();
        }
    }
}

/// Removes all namespaces of this process, whoever still uses them, because the process is about to
/// end. No claim can be taken or dropped afterwards.
pub(crate) fn abandon() -> Result<(), LinkError> {
    // Never unlocked again: other threads wait here until the process ends.
    let entry = ENTRY.lock();
    let has_any = entry.is_some();
    std::mem::forget(entry);
    if has_any { leave_register() } else { Ok(()) }
}

/// Holds off [`abandon`] while an object is made that it must find. Waits without end once it has
/// begun.
pub(crate) fn hold() -> impl Drop {
    ENTRY.lock()
}

/// The register of all lab processes, locked against changes by others.
#[derive(Debug)]
pub(crate) struct Register {
    _lock: File,
}

impl Register {
    /// Waits until no other process changes the register.
    pub(super) fn lock() -> Result<Self, LinkError> {
        let path = Path::new(DIRECTORY);
        let mut directory = DirBuilder::new();
        // Others must not hold locks in the directory.
        directory.recursive(true).mode(0o700);
        directory.create(path).map_err(at(path))?;
        let path = path.join("lock");
        let file = open(&path)?;
        rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))
            .map_err(|errno| at(&path)(errno.into()))?;
        Ok(Self { _lock: file })
    }

    /// Returns every process that has an entry.
    pub(super) fn owners(&self) -> Result<Vec<u32>, LinkError> {
        let path = Path::new(DIRECTORY);
        let mut owners: Vec<u32> = fs::read_dir(path)
            .map_err(at(path))?
            .filter_map(|file| file.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        owners.sort_unstable();
        Ok(owners)
    }

    /// Returns the lock of an entry, which must exist; `None` if its owner lives.
    pub(super) fn dead(&self, owner: u32) -> Result<Option<File>, LinkError> {
        let path = entry_path(owner);
        let file = open(&path)?;
        let free = lock::take(&file, owner).map_err(at(&path))?;
        Ok(free.then_some(file))
    }

    /// Whether any owner lives.
    pub(super) fn is_used(&self) -> Result<bool, LinkError> {
        for owner in self.owners()? {
            if self.dead(owner)?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes the namespaces of an owner, their processes, and its entry.
    pub(super) fn sweep(&self, owner: u32) -> Result<(), LinkError> {
        let namespaces = netns::existing(&prefix(owner));
        processes::end_inside(&namespaces)?;
        namespaces.iter().try_for_each(|name| netns::remove(name))?;
        let path = entry_path(owner);
        fs::remove_file(&path).map_err(at(&path))
    }
}

/// Directory of the register.
pub(super) const DIRECTORY: &str = "/run/hikyaku-lab";

/// Returns the prefix of an owner's namespaces.
pub(super) fn prefix(owner: u32) -> String {
    format!("hkyk-{owner}-")
}

fn entry_path(owner: u32) -> PathBuf {
    Path::new(DIRECTORY).join(owner.to_string())
}

/// Makes the entry of this process. An earlier process of its number is dead, and its remains are
/// removed.
fn enter_register() -> Result<File, LinkError> {
    privileges::check()?;
    let register = Register::lock()?;
    let owner = std::process::id();
    let path = entry_path(owner);
    if path.exists() && register.dead(owner)?.is_some() {
        register.sweep(owner)?;
    }
    let entry = open(&path)?;
    // An earlier process of this number may have been killed a moment ago.
    if !lock::take(&entry, owner).map_err(at(&path))? {
        return Err(LinkError::Owned { path });
    }
    congestion::allow(&register)?;
    Ok(entry)
}

fn leave_register() -> Result<(), LinkError> {
    let register = Register::lock()?;
    register.sweep(std::process::id())?;
    if !register.is_used()? {
        congestion::restore(&register)?;
    }
    Ok(())
}

fn open(path: &Path) -> Result<File, LinkError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map_err(at(path))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> LinkError {
    let path = path.to_owned();
    move |source| LinkError::Register { path, source }
}
