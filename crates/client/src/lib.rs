//! `hikyaku get`: a client that measures.
//!
//! [`run`] takes the options of [`GetArgs`], fetches their URLs over HTTP/1.1, 2 or 3, and writes
//! the measurements. Inside, a `Session` sends every request over a connection of one of its
//! `Pool`s. It chooses the pool by the Alt-Svc advertisements, and keeps the times of the request
//! in a `Timeline`. `record` turns them into reported figures.

pub mod alt_svc;
mod args;
mod connection;
mod crowd;
mod dial;
mod error;
mod exchange;
mod load;
mod measure;
mod overrides;
mod page;
mod pool;
mod progress;
mod quic;
mod record;
mod report;
mod session;
mod settings;
mod stats;
mod sys;
mod table;
mod target;
mod tcp;
mod timeline;
mod tls;
mod units;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::thread::available_parallelism;

use tokio::runtime::{Builder, Runtime};

pub use args::{AltSvcMode, GetArgs, HttpChoice};
pub use error::{FetchError, GetError};

/// The outcome of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// Every request succeeded.
    Success,
    /// A request failed or timed out.
    Failed,
    /// The only failures were HTTP statuses of 400 and more, with `--fail`.
    HttpStatus,
}

impl From<ExitStatus> for ExitCode {
    /// Exit codes: 0, 1, and 22 as curl has it for `--fail`.
    fn from(status: ExitStatus) -> Self {
        match status {
            ExitStatus::Success => Self::SUCCESS,
            ExitStatus::Failed => Self::FAILURE,
            ExitStatus::HttpStatus => Self::from(22),
        }
    }
}

/// Measures as `args` say and writes the results to `out`.
///
/// It makes its own threads, so it must not be called from within an asynchronous runtime. A
/// terminal on standard error shows a progress bar, unless the results are JSON.
///
/// # Errors
/// If the measurement could not be started or its results not be written. Failed requests are
/// results, and the [`ExitStatus`] reports them.
pub fn run(args: &GetArgs, out: &mut dyn Write) -> Result<ExitStatus, GetError> {
    let show_progress = !args.json && io::stderr().is_terminal();
    runtime(args)
        .map_err(GetError::Runtime)?
        .block_on(async move {
            match (args.requests, &args.crowd) {
                (Some(requests), _) => load::run(args, requests, show_progress, out).await,
                (None, Some(path)) => crowd::run(args, path, out).await,
                (None, None) => measure::measure(args, show_progress, out).await,
            }
        })
}

fn threads(args: &GetArgs) -> usize {
    args.threads.map_or_else(
        || available_parallelism().map_or(1, usize::from),
        usize::from,
    )
}

/// Builds the runtime. A single thread needs no hand-over between threads.
fn runtime(args: &GetArgs) -> io::Result<Runtime> {
    match threads(args) {
        1 => Builder::new_current_thread().enable_all().build(),
        threads => Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build(),
    }
}

/// The example of the README, as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
