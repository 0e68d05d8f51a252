//! Ctrl-C and other requests to end.
//!
//! A process that dies of a signal drops nothing, so its namespaces would stay. Here a thread takes
//! SIGINT, SIGTERM and SIGHUP in place of the process.

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
    /// Whether the terminal sent it, also to the other processes in the foreground.
    pub(crate) from_terminal: bool,
}

/// Cleans up before the process ends on request. A request first removes what this process made in
/// the kernel, with all processes inside, and its temporary directories. Then the process ends as
/// it would have done at once. A signal that was ignored from the start (`nohup`) stays ignored.
///
/// # Errors
/// If the signals cannot be taken over or the thread cannot be started.
pub fn clean_up_when_asked_to_end() -> io::Result<()> {
    handle(|interrupt| end(interrupt.signal))
}

/// Calls `handler` for each request to end, in place of [`clean_up_when_asked_to_end`].
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
    clean_up();
    sys::die_of(signal);
}

/// Removes everything that this process made in the kernel, with all processes inside, and its temporary
/// directories. For a process that is about to end while its threads still use them.
pub fn clean_up() {
    // `lab clean` finds the remains.
    let _ = owner::abandon();
    scratch::abandon();
}
