//! Stores that speak Redis' protocol, on ports and files of a test.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{eventually, has};

/// The programs that speak the protocol.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// The programs that are installed; a skip if Redis is not.
pub fn programs(test: &str) -> Vec<&'static str> {
    if !has(test, PROGRAMS[0]) || !has(test, "redis-cli") {
        return Vec::new();
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        |program: &&str| std::env::split_paths(&paths).any(|dir| dir.join(program).is_file());
    PROGRAMS.into_iter().filter(is_there).collect()
}

/// A store in memory, at 127.0.0.1; killed when dropped.
pub struct Store {
    program: &'static str,
    args: Vec<String>,
    child: Option<Child>,
    port: u16,
    dir: TempDir,
}

impl Store {
    /// Starts Redis with more arguments; `None`, and a skip, where it is not installed.
    pub fn start(test: &str, args: &[&str]) -> Option<Self> {
        let program = *programs(test).first()?;
        Some(Self::of(program, args))
    }

    /// Starts a program, at a port that is free.
    #[track_caller]
    pub fn of(program: &'static str, args: &[&str]) -> Self {
        let mut store = Self {
            program,
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            child: None,
            port: free_port(),
            dir: tempfile::tempdir().unwrap(),
        };
        store.start_again();
        store
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// A directory that lives as long as the store, which is its own.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Runs a command by redis-cli.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> String {
        let output = cli(self.port, args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Kills it.
    pub fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts it again, where it was, with nothing in it.
    #[track_caller]
    pub fn start_again(&mut self) {
        let mut command = Command::new(self.program);
        command.current_dir(self.dir.path());
        // A sentinel's file comes first.
        let file = self.args.first().filter(|arg| !arg.starts_with('-'));
        command.args(file);
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"]);
        command.args(&self.args[usize::from(file.is_some())..]);
        if file.is_none() {
            command.args(["--save", "", "--appendonly", "no"]);
        }
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.dir.path().join("log"))
            .unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.child = Some(child.unwrap());
        eventually("the store's port", || {
            let child = self.child.as_mut().unwrap();
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "the store ended:\n{}", self.log());
            TcpStream::connect(self.address()).ok()
        });
    }

    /// Has it hang, by SIGSTOP, or go on, by SIGCONT.
    pub fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().unwrap();
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

/// Runs redis-cli at a port of 127.0.0.1.
pub fn cli(port: u16, args: &[&str]) -> Output {
    Command::new("redis-cli")
        .args(["-p", &port.to_string()])
        .args(args)
        .output()
        .unwrap()
}

/// A port that is free on 127.0.0.1, and leaves room for that of a cluster's bus.
pub fn free_port() -> u16 {
    eventually("a port below 50000", || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        (port < 50_000).then_some(port)
    })
}

/// Passes connections on to `to`, and holds each answer back for `delay`. Lives as long as the process.
pub fn slow(to: SocketAddr, delay: Duration) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, store) = (client.unwrap(), TcpStream::connect(to).unwrap());
            let (from, into) = (client.try_clone().unwrap(), store.try_clone().unwrap());
            thread::spawn(move || pass(from, into, Duration::ZERO));
            thread::spawn(move || pass(store, client, delay));
        }
    });
    address
}

fn pass(mut from: TcpStream, mut into: TcpStream, delay: Duration) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        thread::sleep(delay);
        if into.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = into.shutdown(Shutdown::Both);
}
