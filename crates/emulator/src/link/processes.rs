//! Processes that run inside network namespaces.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::error::LinkError;
use super::netns;

/// A process inside a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// Number of the process.
    pub(crate) pid: u32,
    /// Name of the process, as the kernel keeps it.
    pub(crate) name: String,
}

/// Time that a process may take to end after SIGTERM, and again after SIGKILL.
const PATIENCE: Duration = Duration::from_secs(2);

/// The processes whose main thread is in one of the named namespaces.
pub(super) fn inside(namespaces: &[String]) -> Vec<Process> {
    let inodes = inodes(namespaces);
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&pid| is_inside(pid, &inodes))
        .map(|pid| Process {
            pid,
            name: fs::read_to_string(format!("/proc/{pid}/comm"))
                .map_or_else(|_| "?".to_owned(), |name| name.trim_end().to_owned()),
        })
        .collect()
}

/// Ends every process inside the named namespaces, except the calling one. SIGKILL follows SIGTERM
/// for those that have not ended.
///
/// # Errors
/// If some processes do not end at all.
pub(crate) fn end_inside(namespaces: &[String]) -> Result<(), LinkError> {
    let begun = Instant::now();
    let mut asked = Vec::new();
    loop {
        let mut left = inside(namespaces);
        left.retain(|process| process.pid != std::process::id());
        let waited = begun.elapsed();
        if left.is_empty() {
            return Ok(());
        }
        if waited > 2 * PATIENCE {
            let list: Vec<String> = left.iter().map(Process::to_string).collect();
            return Err(LinkError::Processes(list.join(", ")));
        }
        for process in left {
            if waited > PATIENCE {
                signal(process.pid, namespaces, Signal::KILL);
            } else if !asked.contains(&process.pid) {
                signal(process.pid, namespaces, Signal::TERM);
                asked.push(process.pid);
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.pid, self.name)
    }
}

/// Signals a process if it is still inside. Its number may be another's by now, but the descriptor
/// stays with the process that was examined.
fn signal(pid: u32, namespaces: &[String], signal: Signal) {
    let open = || -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        pidfd_open(pid, PidfdFlags::empty()).ok()
    };
    let Some(process) = open() else { return };
    if is_inside(pid, &inodes(namespaces)) {
        // It may have ended on its own.
        let _ = pidfd_send_signal(process, signal);
    }
}

/// The identity of a namespace: device and inode of its file.
type Inode = (u64, u64);

fn inodes(namespaces: &[String]) -> Vec<Inode> {
    let inode = |name: &String| inode(&Path::new(netns::DIRECTORY).join(name));
    namespaces.iter().filter_map(inode).collect()
}

fn is_inside(pid: u32, inodes: &[Inode]) -> bool {
    let path = format!("/proc/{pid}/ns/net");
    inode(Path::new(&path)).is_some_and(|inode| inodes.contains(&inode))
}

fn inode(path: &Path) -> Option<Inode> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}
