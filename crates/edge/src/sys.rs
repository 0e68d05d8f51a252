//! Socket options that no safe library offers: everything `unsafe` of this crate.
#![allow(unsafe_code)]

mod datagram;

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use hikyaku_units::Rate;
use rustix::net::sockopt;

pub(crate) use datagram::{Datagrams, send};

/// The kernel's report of a TCP connection: `struct tcp_info` of `linux/tcp.h`.
///
/// Fields beyond what the running kernel knows are zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub(crate) struct TcpInfo {
    pub state: u8,
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    pub options: u8,
    pub wscale: u8,
    /// Bit 0: the newest delivery rate sample was limited by the application.
    pub delivery_rate_app_limited: u8,
    pub rto_us: u32,
    pub ato_us: u32,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub fackets: u32,
    pub last_data_sent_ms: u32,
    pub last_ack_sent_ms: u32,
    pub last_data_recv_ms: u32,
    pub last_ack_recv_ms: u32,
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt_us: u32,
    pub rttvar_us: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt_us: u32,
    pub rcv_space: u32,
    pub total_retrans: u32,
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    pub min_rtt_us: u32,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    /// Bytes per second.
    pub delivery_rate: u64,
    pub busy_time_us: u64,
    pub rwnd_limited_us: u64,
    pub sndbuf_limited_us: u64,
    pub delivered: u32,
    pub delivered_ce: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    /// Retransmissions that the receiver reported as needless (RFC 2883).
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub snd_wnd: u32,
}

/// The kernel's report of an MPTCP connection: the first part of `struct mptcp_info` of `linux/mptcp.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub(crate) struct MptcpInfo {
    pub subflows: u8,
    pub add_addr_signal: u8,
    pub add_addr_accepted: u8,
    pub subflows_max: u8,
    pub add_addr_signal_max: u8,
    pub add_addr_accepted_max: u8,
    pub flags: u32,
    pub token: u32,
    /// Data sequence number of the next byte that will be written.
    pub write_seq: u64,
    /// Data sequence number of the oldest byte that is not acknowledged.
    pub snd_una: u64,
    pub rcv_nxt: u64,
    pub local_addr_used: u8,
    pub local_addr_max: u8,
    pub csum_enabled: u8,
}

/// `struct mptcp_full_info` of `linux/mptcp.h`, as far as it is used here.
#[repr(C)]
struct MptcpFullInfo {
    size_tcpinfo_kernel: u32,
    size_tcpinfo_user: u32,
    size_sfinfo_kernel: u32,
    size_sfinfo_user: u32,
    num_subflows: u32,
    size_arrays_user: u32,
    subflow_info: u64,
    tcp_info: u64,
    mptcp_info: MptcpInfo,
}

/// A subflow of an MPTCP connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subflow {
    /// Unique in the connection.
    pub(crate) id: u32,
    /// Our end; `None` of an unknown address family.
    pub(crate) local: Option<SocketAddr>,
    /// The client's end, likewise.
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) tcp: TcpInfo,
}

/// Size of `struct mptcp_subflow_info` of `linux/mptcp.h`: a number, then the local and the remote address
/// as `struct sockaddr_storage` each, which are aligned to 8 bytes.
const SUBFLOW_INFO: usize = 264;

/// Where its local and its remote address are.
const LOCAL: usize = 8;
const REMOTE: usize = 136;

/// The address and port in a `struct sockaddr_storage`.
fn socket_address(storage: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*storage.first_chunk()?);
    let port = u16::from_be_bytes(*storage[2..].first_chunk()?);
    let ip = match i32::from(family) {
        libc::AF_INET => IpAddr::from(*storage[4..].first_chunk::<4>()?),
        libc::AF_INET6 => IpAddr::from(*storage[8..].first_chunk::<16>()?).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Most subflows of which the state is read.
const MAX_SUBFLOWS: usize = 8;

/// Reads `TCP_INFO`.
///
/// # Errors
/// Those of getsockopt(2).
pub(crate) fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut info = TcpInfo::default();
    // SAFETY: `TcpInfo` consists of integers only, so any bytes written into it are valid.
    unsafe { get(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)? };
    Ok(info)
}

/// Reads `MPTCP_FULL_INFO`: the connection and each of its subflows.
///
/// # Errors
/// Those of getsockopt(2); `EOPNOTSUPP` where the connection fell back to TCP.
pub(crate) fn mptcp_info(socket: impl AsFd) -> io::Result<(MptcpInfo, Vec<TcpInfo>)> {
    let (info, subflows) = mptcp_subflows(socket)?;
    let subflows = subflows.iter().map(|subflow| subflow.tcp);
    Ok((info, subflows.collect()))
}

/// The report of [`mptcp_info`], with the ids and addresses of the subflows.
///
/// # Errors
/// Those of [`mptcp_info`].
pub(crate) fn mptcp_subflows(socket: impl AsFd) -> io::Result<(MptcpInfo, Vec<Subflow>)> {
    const SOL_MPTCP: libc::c_int = 284;
    const MPTCP_FULL_INFO: libc::c_int = 4;
    let mut subflows = [TcpInfo::default(); MAX_SUBFLOWS];
    let mut addresses = [[0; SUBFLOW_INFO]; MAX_SUBFLOWS];
    let mut info = MptcpFullInfo {
        size_tcpinfo_kernel: 0,
        size_tcpinfo_user: mem::size_of::<TcpInfo>() as u32,
        size_sfinfo_kernel: 0,
        size_sfinfo_user: SUBFLOW_INFO as u32,
        num_subflows: 0,
        size_arrays_user: MAX_SUBFLOWS as u32,
        subflow_info: addresses.as_mut_ptr() as u64,
        tcp_info: subflows.as_mut_ptr() as u64,
        mptcp_info: MptcpInfo::default(),
    };
    // SAFETY: the structure holds integers only. The kernel writes at most
    // `size_arrays_user` elements of the given sizes to the two addresses, which stay
    // valid for the call.
    unsafe { get(socket.as_fd(), SOL_MPTCP, MPTCP_FULL_INFO, &mut info)? };
    let count = (info.num_subflows as usize).min(MAX_SUBFLOWS);
    let reported = addresses.iter().zip(subflows).take(count);
    let subflows = reported.map(|(addresses, tcp)| Subflow {
        id: u32::from_ne_bytes([addresses[0], addresses[1], addresses[2], addresses[3]]),
        local: socket_address(&addresses[LOCAL..]),
        remote: socket_address(&addresses[REMOTE..]),
        tcp,
    });
    Ok((info.mptcp_info, subflows.collect()))
}

/// Sets the rate at which a TCP connection sends at most; `None` for no bound
/// (`SO_MAX_PACING_RATE`, socket(7)).
///
/// # Errors
/// Those of setsockopt(2); `EOPNOTSUPP` on a socket of MPTCP.
pub(crate) fn set_max_pacing_rate(socket: impl AsFd, rate: Option<Rate>) -> io::Result<()> {
    let bytes_per_sec = rate.map_or(u64::MAX, |rate| rate.bits_per_sec() / 8);
    set(socket.as_fd(), libc::SO_MAX_PACING_RATE, &bytes_per_sec)
}

/// Makes room for twice as much in a socket's send buffer, up to 8 MiB. The kernel goes on sizing it as
/// before.
///
/// # Errors
/// Those of setsockopt(2): `EPERM` without CAP_NET_ADMIN, `ENOPROTOOPT` before Linux 5.14, which would
/// leave the buffer as it is from now on.
pub(crate) fn double_send_buffer(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    let mut lock: libc::c_int = 0;
    // SAFETY: any bytes are an integer.
    unsafe { get(socket, libc::SOL_SOCKET, SO_BUF_LOCK, &mut lock)? };
    // The kernel gives twice the size asked for, for its own overhead, and returns the doubled one.
    let size = sockopt::socket_send_buffer_size(socket)?;
    if size > 4 << 20 {
        return Ok(());
    }
    sockopt::set_socket_send_buffer_size_force(socket, size)?;
    set(socket, SO_BUF_LOCK, &lock)
}

/// Which buffers the kernel leaves as they are (`asm-generic/socket.h`).
const SO_BUF_LOCK: libc::c_int = 72;

/// Lets an eBPF program choose among the sockets that share the address of `socket`
/// (`SO_ATTACH_REUSEPORT_EBPF`, socket(7)).
///
/// # Errors
/// Those of setsockopt(2).
pub(crate) fn attach_reuseport_ebpf(socket: impl AsFd, program: BorrowedFd<'_>) -> io::Result<()> {
    let program = program.as_raw_fd();
    set(socket.as_fd(), libc::SO_ATTACH_REUSEPORT_EBPF, &program)
}

/// Reads the number by which programs in the kernel know the socket's network namespace
/// (`SO_NETNS_COOKIE`).
///
/// # Errors
/// Those of getsockopt(2).
pub(crate) fn netns_cookie(socket: impl AsFd) -> io::Result<u64> {
    let mut cookie = 0_u64;
    // SAFETY: any bytes are a valid integer, without addresses.
    unsafe {
        get(
            socket.as_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            &mut cookie,
        )?;
    }
    Ok(cookie)
}

/// Takes a descriptor that this process was started with. To be called once for each number that its
/// starter has announced. Processes that this one starts do not get it.
///
/// # Errors
/// `EBADF` where there is none.
pub(crate) fn take_inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: asking about a number changes nothing, whatever it is.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open. It was open when the process began, for whoever takes it by its
    // number, so that nothing else here owns it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC)?;
    Ok(descriptor)
}

/// Sets an option of `SOL_SOCKET` by setsockopt(2).
fn set<T: Copy>(socket: BorrowedFd<'_>, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as are announced, of a value that lives for the call.
    let result = unsafe {
        let value: *const T = value;
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            value.cast(),
            mem::size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Fills `value` by getsockopt(2), at most to its size.
///
/// # Safety
/// Any bytes must be a valid `T`, and addresses inside `value` must be valid for what
/// the option makes the kernel write there.
unsafe fn get<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &mut T,
) -> io::Result<()> {
    let mut length = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `value`; the rest is the
    // caller's promise.
    let result = unsafe {
        let value: *mut T = value;
        libc::getsockopt(socket.as_raw_fd(), level, option, value.cast(), &mut length)
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
