//! Socket options that no safe library offers: everything `unsafe` of this crate.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Attaches a classic program to the group of a socket with `SO_REUSEPORT`. It returns the index of the
/// socket that gets a datagram.
///
/// # Errors
/// The kernel's.
pub(crate) fn attach_to_group(
    socket: BorrowedFd<'_>,
    program: &[libc::sock_filter],
) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog {
        len,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel reads `size_of::<sock_fprog>` bytes there, and `len` instructions behind its
    // pointer, during the call only; both live longer. It writes nothing.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
