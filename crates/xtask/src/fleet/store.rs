//! The store, a Redis of its own on loopback.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// A running store. It ends when dropped.
pub(super) struct Store {
    child: Child,
    address: SocketAddr,
    /// Its working directory.
    _directory: TempDir,
}

impl Store {
    /// # Errors
    /// If Redis is not installed, or does not start.
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        drop(listener);
        let directory = tempfile::tempdir()?;
        let port = address.port().to_string();
        let child = Command::new("redis-server")
            .args(["--port", &port, "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("starting redis-server (Debian's package redis-server)")?;
        let mut store = Self {
            child,
            address,
            _directory: directory,
        };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = store.child.try_wait()?;
            ensure!(ended.is_none(), "redis-server has ended: {ended:?}");
            ensure!(begun.elapsed() < LIMIT, "redis-server does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(store)
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Bytes that the store has allocated for its content.
    ///
    /// # Errors
    /// If it can't be asked.
    pub(super) fn memory(&self) -> Result<u64> {
        let output = Command::new("redis-cli")
            .args(["-p", &self.address.port().to_string(), "info", "memory"])
            .output()
            .context("running redis-cli (Debian's package redis-tools)")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let bytes = text
            .lines()
            .find_map(|line| line.strip_prefix("used_memory_dataset:"));
        let bytes = bytes.context("`info memory` names no used_memory_dataset")?;
        Ok(bytes.trim().parse()?)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const LIMIT: Duration = Duration::from_secs(10);
