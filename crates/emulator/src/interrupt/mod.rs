//! Ctrl-C and other requests to end.
//!
//! A process that dies of a signal drops nothing, so its namespaces would stay.
//! Here a thread takes SIGINT, SIGTERM and SIGHUP in place of the process.

mod sys;

use std::io;
use std::thread;

use rustix::process::Signal;

use crate::link::{owner, scratch};
use sys::Requests;

/// A request to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// SIGINT, SIGTERM or SIGHUP.
    pub signal: Signal,
    /// Whether the terminal sent it, to the foreground's other processes as well.
    pub(crate) from_terminal: bool,
}

/// From now on, a request to end first removes what this process has made in the
/// kernel, with all processes inside, and its temporary directories, and then ends this process as it would have
/// done at once. What was to be ignored (`nohup`) is ignored.
///
/// # Errors
/// If the signals cannot be taken over or the thread cannot be started.
pub fn clean_up_when_asked_to_end() -> io::Result<()> {
    handle(|interrupt| end(interrupt.signal))
}

/// As [`clean_up_when_asked_to_end`], with another answer to the request.
pub fn handle(mut handler: impl FnMut(Interrupt) + Send + 'static) -> io::Result<()> {
    let requests: Vec<Signal> = [Signal::INT, Signal::TERM, Signal::HUP]
        .into_iter()
        .filter(|&signal| !sys::is_ignored(signal))
        .collect();
    if requests.is_empty() {
        return Ok(());
    }
    let mut requests = Requests::take_over(&requests)?;
    let wait = move || {
        while let Ok(interrupt) = requests.wait() {
            handler(interrupt);
        }
    };
    thread::Builder::new()
        .name("interrupt".to_owned())
        .spawn(wait)?;
    Ok(())
}

/// Cleans up, then dies of the signal.
pub fn end(signal: Signal) {
    // What stays is found by `lab clean`.
    let _ = owner::abandon();
    scratch::abandon();
    sys::die_of(signal);
}
