//! The system call that no safe library has.
#![allow(unsafe_code)]

use std::io;
use std::mem;

/// Whether a time service keeps the kernel's clock right, by adjtimex(2).
///
/// # Errors
/// Those of adjtimex(2).
pub(super) fn clock_is_synchronised() -> io::Result<bool> {
    // SAFETY: zeros are a valid `timex`, which consists of integers; a `modes` of 0 changes nothing.
    let mut state: libc::timex = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes to `state` alone, which lives for the call.
    match unsafe { libc::adjtimex(&raw mut state) } {
        ..0 => Err(io::Error::last_os_error()),
        libc::TIME_ERROR => Ok(false),
        _ => Ok(state.status & libc::STA_UNSYNC == 0),
    }
}
