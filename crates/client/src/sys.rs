//! Socket options that no safe library offers: all `unsafe` code of the client.
#![allow(unsafe_code)]

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd};

/// The first 152 bytes of `struct tcp_info` of `linux/tcp.h`, as far as the client reads it.
///
/// Fields that an older kernel does not know stay zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TcpInfo {
    flags: [u8; 8],
    before_rtt: [u32; 15],
    pub(super) rtt_us: u32,
    pub(super) rttvar_us: u32,
    before_cwnd: u32,
    pub(super) snd_cwnd: u32,
    before_retrans: [u32; 4],
    pub(super) total_retrans: u32,
    pacing: [u64; 2],
    bytes: [u64; 2],
    pub(super) segs_out: u32,
    pub(super) segs_in: u32,
    notsent_bytes: u32,
    pub(super) min_rtt_us: u32,
}

const _: () = assert!(mem::offset_of!(TcpInfo, rtt_us) == 68);
const _: () = assert!(mem::offset_of!(TcpInfo, total_retrans) == 100);
const _: () = assert!(mem::offset_of!(TcpInfo, min_rtt_us) == 148);

/// Reads `TCP_INFO` of a socket; for MPTCP that of its first subflow.
pub(super) fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut info = MaybeUninit::<TcpInfo>::zeroed();
    let mut len = mem::size_of::<TcpInfo>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `info`, which is that large.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed above, and every bit pattern is a valid `TcpInfo`.
    Ok(unsafe { info.assume_init() })
}

/// Whether a connected MPTCP socket uses Multipath TCP. It is `false` if the peer does not speak it
/// and the kernel fell back to TCP.
pub(super) fn is_multipath(socket: impl AsFd) -> bool {
    // From `linux/mptcp.h`. The kernel answers EOPNOTSUPP on a connection that fell back.
    const SOL_MPTCP: libc::c_int = 284;
    const MPTCP_INFO: libc::c_int = 1;
    let mut info = [0u8; 128];
    let mut len = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `info`, which is that large.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            SOL_MPTCP,
            MPTCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    result == 0
}
