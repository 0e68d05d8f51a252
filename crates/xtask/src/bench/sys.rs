//! System calls that the standard library lacks.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

/// CPU time of a process so far, to the nanosecond: all of its threads, ended ones too
/// (clock_getcpuclockid(3)). `/proc/PID/stat` would count in ticks of 10 ms.
#[allow(unsafe_code)]
pub(super) fn cpu_time(pid: u32) -> io::Result<Duration> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is a valid place for the result.
    let error = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `time` is a valid place for the result.
    if unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: clock_gettime succeeded, so it filled `time`.
    let time = unsafe { time.assume_init() };
    let seconds = u64::try_from(time.tv_sec).map_err(io::Error::other)?;
    let nanos = u32::try_from(time.tv_nsec).map_err(io::Error::other)?;
    Ok(Duration::new(seconds, nanos))
}
