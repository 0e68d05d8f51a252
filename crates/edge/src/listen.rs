//! Sockets to listen on: TCP (MPTCP where the kernel has it) and UDP of each address.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;

use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, Type};

use hikyaku_core::arm::Congestion;

use crate::mptcp::MptcpGate;

/// Connections that may wait to be accepted, per address.
const BACKLOG: i32 = 4096;

/// Receive and send buffer of a UDP socket, in bytes: what a fast path sends in the time
/// that the server may be busy elsewhere. The kernel grants at most `net.core.[rw]mem_max`.
const UDP_BUFFER: usize = 4 << 20;

/// Why an address can't be listened on.
#[derive(Debug, thiserror::Error)]
#[error("listening on {transport} {address}")]
pub struct ListenError {
    /// "TCP" or "UDP".
    pub transport: &'static str,
    /// The address asked for.
    pub address: SocketAddr,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// What listens on one address.
#[derive(Debug)]
pub(crate) struct Listener {
    /// The address, with the port that was chosen where 0 was asked for.
    pub address: SocketAddr,
    /// HTTP/1.1 and HTTP/2.
    pub tcp: Vec<TcpSocket>,
    /// HTTP/3.
    pub udp: UdpSocket,
    /// Whether clients may use MPTCP.
    pub mptcp: bool,
}

/// One of the sockets that listen on an address.
#[derive(Debug)]
pub(crate) struct TcpSocket {
    /// The socket.
    pub listener: TcpListener,
    /// Its clients have asked for MPTCP, and get TCP.
    pub refused: bool,
}

impl Listener {
    /// Binds TCP and UDP of `address`; an IPv6 wildcard takes IPv4, too. With a gate MPTCP is taken of the
    /// clients that it says.
    ///
    /// # Errors
    /// When either can't be bound.
    pub(crate) fn bind(
        address: SocketAddr,
        mptcp: bool,
        gate: Option<&MptcpGate>,
    ) -> Result<Self, ListenError> {
        let failed = |transport, address| {
            move |source| ListenError {
                transport,
                address,
                source,
            }
        };
        let (socket, mptcp) = tcp_socket(address, mptcp).map_err(failed("TCP", address))?;
        bind_tcp(&socket, address).map_err(failed("TCP", address))?;
        let gate = gate.filter(|_| mptcp);
        if gate.is_some() {
            // Only now: others that want the address shall be told that it is taken.
            let shared = socket.set_reuse_port(true);
            shared.map_err(failed("TCP", address))?;
        }
        socket.listen(BACKLOG).map_err(failed("TCP", address))?;
        let first = TcpListener::from(socket);
        // Port 0 asks for any port: the others take the one that TCP got.
        let address = first.local_addr().map_err(failed("TCP", address))?;
        let mut tcp = vec![TcpSocket {
            listener: first,
            refused: false,
        }];
        if let Some(gate) = gate {
            let others = behind(gate, address).map_err(failed("TCP", address))?;
            tcp.extend(others);
        }
        let udp = bind_udp(address).map_err(failed("UDP", address))?;
        Ok(Self {
            address,
            tcp,
            udp,
            mptcp,
        })
    }
}

/// A TCP socket that speaks MPTCP if wanted and possible, and whether it does.
fn tcp_socket(address: SocketAddr, mptcp: bool) -> io::Result<(Socket, bool)> {
    let domain = Domain::for_address(address);
    if mptcp && let Ok(socket) = Socket::new(domain, Type::STREAM, Some(Protocol::MPTCP)) {
        return Ok((socket, true));
    }
    Ok((
        Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?,
        false,
    ))
}

/// The sockets of TCP beside one of MPTCP, in the order that the gate's program expects.
fn behind(gate: &MptcpGate, address: SocketAddr) -> io::Result<[TcpSocket; 2]> {
    let listen = |refused| {
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_port(true)?;
        bind_tcp(&socket, address)?;
        socket.listen(BACKLOG)?;
        let listener = TcpListener::from(socket);
        Ok::<_, io::Error>(TcpSocket { listener, refused })
    };
    let others = [listen(false)?, listen(true)?];
    gate.choose_among(&others[1].listener)?;
    Ok(others)
}

fn bind_tcp(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())
}

fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    // As large as the kernel allows; smaller ones work, too.
    let _ = socket.set_recv_buffer_size(UDP_BUFFER);
    let _ = socket.set_send_buffer_size(UDP_BUFFER);
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Whether the kernel offers `congestion` to TCP sockets of this process.
///
/// # Errors
/// What the kernel answered: `ENOENT` where it does not have it, `EPERM` where only
/// privileged processes may choose it.
pub(crate) fn probe_congestion(congestion: Congestion) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    set_congestion(&socket, congestion)
}

/// Gives a TCP or MPTCP socket its congestion control, at any time of its life.
///
/// # Errors
/// As [`probe_congestion`]; the former one then stays in use.
pub(crate) fn set_congestion(socket: impl AsFd, congestion: Congestion) -> io::Result<()> {
    Ok(sockopt::set_tcp_congestion(socket, congestion.name())?)
}
