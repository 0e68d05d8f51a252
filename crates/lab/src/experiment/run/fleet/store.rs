//! Stores of a fleet: Redis, or Valkey, in the namespace of the stores.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::super::error::{Attempt, RunError};
use super::super::process::Process;
use super::super::programs;
use super::{STORE, fresh};
use hikyaku_emulator::link::Netns;

/// A store in memory, which is killed on drop.
#[derive(Debug)]
pub(super) struct Store {
    process: Process,
    address: SocketAddr,
    directory: PathBuf,
}

/// Time that a store may take to start or to answer a command.
const LIMIT: Duration = Duration::from_secs(20);

/// Port of the first store.
const PORT: u16 = 6379;

impl Store {
    /// Starts a store with nothing in it, and waits until it answers.
    ///
    /// # Errors
    /// If no store is installed, or it does not come up. The error has the end of its log.
    pub(super) fn start(netns: &Netns, number: u16, directory: PathBuf) -> Result<Self, RunError> {
        fresh(&directory).attempt(|| format!("emptying {}", directory.display()))?;
        let address = SocketAddr::from((STORE, PORT + number));
        let mut store = Self {
            process: launch(netns, address, &directory)?,
            address,
            directory,
        };
        store.wait(netns)?;
        Ok(store)
    }

    /// Its URL.
    pub(super) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Stops it for good, and leaves its connections open.
    pub(super) fn hang(&self) -> Result<(), RunError> {
        self.process.signal(Signal::STOP)
    }

    /// Kills it.
    pub(super) fn kill(&mut self) -> Result<(), RunError> {
        self.process.kill().attempt(|| "killing a store".to_owned())
    }

    /// Kills it, and starts it again with nothing in it.
    pub(super) fn empty(&mut self, netns: &Netns) -> Result<(), RunError> {
        self.kill()?;
        self.process = launch(netns, self.address, &self.directory)?;
        self.wait(netns)
    }

    /// Leaves it no memory for anything new.
    pub(super) fn fill(&self, netns: &Netns) -> Result<(), RunError> {
        let answered = self.command(netns, "CONFIG SET maxmemory 1")?;
        match answered.starts_with("+OK") {
            true => Ok(()),
            false => Err(self.error(&format!("does not take `maxmemory`: {}", answered.trim()))),
        }
    }

    fn wait(&mut self, netns: &Netns) -> Result<(), RunError> {
        let began = Instant::now();
        while !matches!(self.command(netns, "PING"), Ok(text) if text.starts_with("+PONG")) {
            let ended = self.process.ended();
            if let Some(status) = ended.attempt(|| "waiting for a store".to_owned())? {
                return Err(self.error(&format!("ended with {status}")));
            }
            if began.elapsed() > LIMIT {
                return Err(self.error("does not answer"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Returns the first line of the answer to a command.
    fn command(&self, netns: &Netns, line: &str) -> Result<String, RunError> {
        let ask = || -> io::Result<String> {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(LIMIT))?;
            write!(stream, "{line}\r\n")?;
            let (mut text, mut byte) = (Vec::new(), [0]);
            while stream.read(&mut byte)? > 0 && byte[0] != b'\n' {
                text.push(byte[0]);
            }
            Ok(String::from_utf8_lossy(&text).into_owned())
        };
        netns
            .enter(ask)?
            .attempt(|| format!("asking the store at {}", self.address))
    }

    fn error(&self, what: &str) -> RunError {
        RunError::TestBed {
            what: format!("the store at {} {what}", self.address),
            said: self.process.said(),
        }
    }
}

fn launch(netns: &Netns, address: SocketAddr, directory: &Path) -> Result<Process, RunError> {
    let Some(program) = programs::store() else {
        return Err(RunError::Arguments(programs::not_found(programs::REDIS)));
    };
    let mut command = Command::new(program);
    command
        .args(["--bind", &address.ip().to_string()])
        .args(["--port", &address.port().to_string()])
        .args(["--protected-mode", "no", "--save", "", "--appendonly", "no"])
        // Its log is its standard output.
        .args(["--logfile", ""])
        .current_dir(directory)
        .stdout(Stdio::null());
    Process::start(netns, &mut command, &directory.join("store.log"))
}
