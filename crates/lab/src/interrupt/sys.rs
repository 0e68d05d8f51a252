//! Signal masks, which no safe library offers. Nothing else here is `unsafe`.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;

use rustix::process::Signal;

use super::Interrupt;

/// Whether the process was started to ignore the signal.
pub(super) fn is_ignored(signal: Signal) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with no new action the call only writes the present one, for which
    // there is room; all zeros is a valid `sigaction` should it fail.
    let action = unsafe {
        libc::sigaction(signal.as_raw(), std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// Keeps the signals from the calling thread, and those that it starts. The
/// standard library unblocks all signals in the processes that it starts.
pub(super) fn block(signals: &[Signal]) -> io::Result<()> {
    set_mask(libc::SIG_BLOCK, signals)
}

/// Waits for one of the signals, which must be blocked in every thread.
pub(super) fn wait(signals: &[Signal]) -> io::Result<Interrupt> {
    let set = set_of(signals);
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    loop {
        // SAFETY: the kernel reads one set and writes one `siginfo_t`, both of
        // which are there; all zeros is a valid `siginfo_t`.
        let (number, info) = unsafe {
            let number = libc::sigwaitinfo(&raw const set, info.as_mut_ptr());
            (number, info.assume_init())
        };
        let Some(&signal) = signals.iter().find(|signal| signal.as_raw() == number) else {
            match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => continue,
                error => return Err(error),
            }
        };
        return Ok(Interrupt {
            signal,
            from_terminal: info.si_code == libc::SI_KERNEL,
        });
    }
}

/// Ends the process by the signal's default action.
pub(super) fn die_of(signal: Signal) {
    // SAFETY: the default action is one that is always allowed.
    unsafe { libc::signal(signal.as_raw(), libc::SIG_DFL) };
    let _ = set_mask(libc::SIG_UNBLOCK, &[signal]);
    // SAFETY: has no preconditions; sent to this thread, which takes it at once.
    unsafe { libc::raise(signal.as_raw()) };
    // Only where the signal does nothing by default.
    std::process::exit(128 + signal.as_raw());
}

fn set_mask(how: libc::c_int, signals: &[Signal]) -> io::Result<()> {
    let set = set_of(signals);
    // SAFETY: the kernel reads one set, which is there, and writes nothing.
    match unsafe { libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn set_of(signals: &[Signal]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` makes the set a valid one, and can only fail for a
    // bad pointer; `sigaddset` changes a valid set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal.as_raw());
        }
        set.assume_init()
    }
}
