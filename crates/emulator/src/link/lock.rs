//! Locks that show whether the process that took them lives.
//!
//! A starting process has its parent's locks until its program begins. If a lab is killed in that
//! moment, its locks outlast it for that time.

use std::fs::{self, File};
use std::io;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Tries of a dead owner's lock, with a pause after each.
const TRIES: u32 = 50;
const INTERVAL: Duration = Duration::from_millis(20);

/// Takes the lock on `file` that the process `owner` holds while it lives. Returns false if it
/// lives.
pub(super) fn take(file: &File, owner: u32) -> io::Result<bool> {
    for _ in 0..TRIES {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if runs(owner) => return Ok(false),
            Err(Errno::WOULDBLOCK) => thread::sleep(INTERVAL),
            Err(errno) => return Err(errno.into()),
        }
    }
    // A process that only another PID namespace has.
    Ok(false)
}

/// Whether a process still has its program. A zombie has none.
fn runs(process: u32) -> bool {
    fs::read_link(format!("/proc/{process}/exe")).is_ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_lock_is_its_owners_until_nobody_has_it() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let (own, dead) = (std::process::id(), child.id());
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let lock = File::open(&path).unwrap();
        assert!(take(&lock, own).unwrap());
        let other = File::open(&path).unwrap();
        assert!(!take(&other, own).unwrap(), "it lives");
        assert!(!take(&other, dead).unwrap(), "somebody else has it");
        let heir = thread::spawn(move || {
            thread::sleep(5 * INTERVAL);
            drop(lock);
        });
        assert!(take(&other, dead).unwrap(), "its heir is about to end");
        heir.join().unwrap();
    }
}
