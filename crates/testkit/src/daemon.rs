//! Daemons of other projects, on ports and files of a test.

use std::fs;
use std::io::{Write, stderr};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::NamedTempFile;

use super::PATIENCE;

/// A running daemon in the foreground; stopped when dropped.
pub struct Daemon {
    child: Child,
    output: NamedTempFile,
}

impl Daemon {
    /// Starts the command that `of` makes for free ports of 127.0.0.1, and waits until it listens on all of
    /// them.
    #[track_caller]
    pub fn on_ports<const N: usize>(of: impl Fn([u16; N]) -> Command) -> (Self, [SocketAddr; N]) {
        let mut said = String::new();
        // Another process may take a port before the daemon does.
        for _ in 0..10 {
            let ports = free_ports();
            let addresses = ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
            let listens = || addresses.iter().all(|at| TcpStream::connect(at).is_ok());
            match Self::start(of(ports), listens) {
                Ok(daemon) => return (daemon, addresses),
                Err(output) => said = output,
            }
        }
        panic!("the daemon does not start:\n{said}");
    }

    /// Starts a command, and waits until its Unix socket is there.
    #[track_caller]
    pub fn at_socket(command: Command, socket: &Path) -> Self {
        Self::start(command, || socket.exists())
            .unwrap_or_else(|said| panic!("the daemon does not start:\n{said}"))
    }

    /// Starts a command. Returns what it has printed if it ends at once.
    fn start(mut command: Command, is_ready: impl Fn() -> bool) -> Result<Self, String> {
        let output = NamedTempFile::new().unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(output.reopen().unwrap())
            .stderr(output.reopen().unwrap())
            .spawn()
            .unwrap();
        let mut daemon = Self { child, output };
        let begun = Instant::now();
        while !is_ready() {
            if daemon.child.try_wait().unwrap().is_some() {
                return Err(daemon.said());
            }
            assert!(begun.elapsed() < PATIENCE, "never: {}", daemon.said());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(daemon)
    }

    /// Its output so far.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.output.path()).unwrap()).into_owned()
    }
}

impl Drop for Daemon {
    /// Ends it by SIGTERM first, on which it ends its own processes.
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() > Duration::from_secs(5) {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        if std::thread::panicking() {
            let _ = writeln!(stderr(), "--- output of a daemon:\n{}", self.said());
        }
    }
}

/// Ports that are free on 127.0.0.1.
fn free_ports<const N: usize>() -> [u16; N] {
    // All at once, so that they differ.
    let free = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    free.map(|listener| listener.local_addr().unwrap().port())
}
