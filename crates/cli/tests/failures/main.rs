//! Failures of the server's own disks, pipes and descriptors: it goes on serving.
#![allow(clippy::unwrap_used)]

mod admin;
mod log;
mod reload;
mod store;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use hikyaku_testkit::{Server, get, skip};

/// A file system of its own, in memory.
struct Disk {
    dir: tempfile::TempDir,
}

impl Disk {
    /// Mounts a file system of `size` bytes. `None`, with a skip of `test`, if that is impossible.
    fn new(test: &str, size: usize) -> Option<Self> {
        let disk = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        let options = format!("size={size}");
        match disk.mount(&["-t", "tmpfs", "-o", &options, "tmpfs"]) {
            true => Some(disk),
            false => {
                skip(test, "no file system can be mounted here");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Takes all the space that is left.
    fn fill(&self) {
        let mut file = fs::File::create(self.join("filler")).unwrap();
        for size in [4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }

    /// Frees the space.
    fn free(&self) {
        fs::remove_file(self.join("filler")).unwrap();
    }

    fn set_writable(&self, writable: bool) {
        let how = if writable { "remount,rw" } else { "remount,ro" };
        assert!(self.mount(&["-o", how]), "{how}");
    }

    fn mount(&self, args: &[&str]) -> bool {
        let mut mount = Command::new("mount");
        let mounted = mount.args(args).arg(self.path()).output();
        mounted.is_ok_and(|output| output.status.success())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).output();
    }
}

/// Makes a FIFO.
fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[track_caller]
fn is_served(server: &Server) {
    let records = get(&["--timeout", "20s", &server.url("/")]);
    assert_eq!(records[0]["status"], 200, "{records:?}");
}

/// Counts the lines of the log with `text`.
fn times(server: &Server, text: &str) -> usize {
    server.log().matches(text).count()
}

/// The socket's error, once the other side has ended the connection.
fn ended(stream: &std::net::TcpStream) -> Option<()> {
    stream.set_nonblocking(true).unwrap();
    match stream.peek(&mut [0]) {
        Ok(0) => Some(()),
        Ok(_) => stream.take_error().unwrap().map(drop),
        Err(error) => (error.kind() != io::ErrorKind::WouldBlock).then_some(()),
    }
}
