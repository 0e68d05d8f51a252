//! Signal handlers, which no safe library offers together with the signal's source. Nothing else
//! here is `unsafe`.

#![allow(unsafe_code)]

use std::io::{self, PipeReader, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use libc::c_int;
use rustix::process::Signal;

use super::Interrupt;

/// Signals that were taken over, in the order of their arrival.
#[derive(Debug)]
pub(super) struct Requests(PipeReader);

impl Requests {
    /// Takes over the signals. Processes that start later do not inherit it.
    pub(super) fn take_over(signals: &[Signal]) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let writer = OwnedFd::from(writer);
        rustix::io::ioctl_fionbio(&writer, true)?;
        for &signal in signals {
            let number = signal.as_raw();
            let writer = writer.try_clone()?;
            let notify = move |info: &libc::siginfo_t| {
                // `SI_KERNEL`: the kernel sent it, and no process.
                let code = [number as u8, u8::from(info.si_code == libc::SI_KERNEL)];
                // One write, so that it is whole; a full pipe has requests enough.
                let _ = rustix::io::write(&writer, &code);
            };
            // SAFETY: `notify` makes one system call, which does not block, and touches no lock and
            // no memory of others: safe in a signal handler.
            unsafe { signal_hook_registry::register_sigaction(number, notify) }?;
        }
        Ok(Self(reader))
    }

    /// Waits for the next request.
    pub(super) fn wait(&mut self) -> io::Result<Interrupt> {
        let mut code = [0; 2];
        self.0.read_exact(&mut code)?;
        let [number, from_terminal] = code;
        let signal = Signal::from_named_raw(c_int::from(number));
        Ok(Interrupt {
            signal: signal.ok_or(io::ErrorKind::InvalidData)?,
            from_terminal: from_terminal != 0,
        })
    }
}

/// Whether the process was started to ignore the signal.
pub(super) fn is_ignored(signal: Signal) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with no new action the call only writes the present one, for which there is room; all
    // zeros is a valid `sigaction` should it fail.
    let action = unsafe {
        libc::sigaction(signal.as_raw(), std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// Ends the process by the signal's default action.
pub(super) fn die_of(signal: Signal) {
    // SAFETY: the default action is always allowed, and `raise` has no preconditions. The signal
    // comes to this thread, which takes it at once.
    unsafe {
        libc::signal(signal.as_raw(), libc::SIG_DFL);
        libc::raise(signal.as_raw());
    }
    // Reached only if the signal does nothing by default, or is blocked.
    std::process::exit(128 + signal.as_raw());
}
