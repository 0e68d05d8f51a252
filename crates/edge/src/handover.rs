//! Sockets that come from another process: from a server that is upgraded to this one, or from systemd.
//!
//! The former process starts the new one with a Unix socket as its standard input. Over it go messages
//! ([`message`]), some with descriptors (`SCM_RIGHTS`, unix(7)):
//!
//! 1. The former process offers its keys and each of its sockets.
//! 2. The new one prepares everything, and says that it is ready, or why it can't be.
//! 3. The former one stops to accept and to receive, and says that the new one may go.
//!
//! Until then the former process serves as if nothing was. Afterwards it finishes what it has begun. It
//! keeps its copies of the sockets for that time, and takes over again if the new process dies.

mod activated;
mod candidate;
mod channel;
mod message;
mod pool;
mod predecessor;

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

pub(crate) use candidate::{Candidate, Offer, Terms};
pub use candidate::{Successor, SuccessorEvent};
pub(crate) use pool::{Given, Pool, Role};
pub(crate) use predecessor::Predecessor;
pub use predecessor::{Origin, Reporter};

/// The environment variable by which a process knows that it takes over.
const VARIABLE: &str = "HIKYAKU_UPGRADE";

/// For how long each process waits for the other.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why sockets can't be taken from another process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum HandoverError {
    #[error("taking over from a server that is upgraded: {why}")]
    Predecessor { why: String },
    #[error("taking socket {number} of systemd's (LISTEN_FDS)")]
    Activated {
        number: i32,
        #[source]
        source: io::Error,
    },
    #[error("taking systemd's sockets: {variable}={value} is no number")]
    Variable {
        variable: &'static str,
        value: String,
    },
    #[error("serving again: this process has ended its connections already")]
    TooLate,
}

/// Why a server is not upgraded. It goes on as before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum UpgradeError {
    #[error("the process before this one still finishes its requests; try again later")]
    Busy,
    #[error("starting {}", program.display())]
    Start {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("talking to the new process")]
    Talk(#[source] io::Error),
    #[error("preparing the hand-over")]
    Prepare(#[source] io::Error),
    #[error("{0}")]
    Refused(String),
    #[error("the new process ended before it was ready ({0}); the log may say why")]
    Died(ExitStatus),
    #[error("the new process was not ready within {} s, and was ended", PATIENCE.as_secs())]
    Late,
}
