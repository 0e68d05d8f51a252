//! Sockets to listen on: TCP (MPTCP where the kernel has it) and UDP of each address.

mod adopt;
mod plain;

use std::io;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;

use hikyaku_quic::Steering;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, Type};

use hikyaku_units::arm::Congestion;

use crate::handover::{Pool, Role};
use crate::mptcp::MptcpGate;
use crate::sections::ListenAddress;
pub(crate) use adopt::choose_among;
use adopt::{adopt_tcp, adopt_udp};
pub(crate) use plain::PlainListener;

/// Connections that may wait to be accepted, per address. The kernel grants at most `net.core.somaxconn`.
pub const BACKLOG: i32 = 4096;

/// Bytes that the kernel holds unsent of a connection (`TCP_NOTSENT_LOWAT`, tcp(7)); those of HTTP/2 have fewer
/// where they are slow. Beyond the bytes in flight they only take memory. Send buffers never shrink when a path
/// becomes slow. Less means more wakes a byte.
pub(crate) const UNSENT: u32 = 512 * 1024;

/// Receive and send buffer of a UDP socket, in bytes: what a fast path sends in the time
/// that the server may be busy elsewhere. The kernel grants at most `net.core.[rw]mem_max`.
pub const UDP_BUFFER: usize = 4 << 20;

/// Why an address can't be listened on.
#[derive(Debug, thiserror::Error)]
#[error("listening on {transport} {address}")]
pub struct ListenError {
    /// "TCP" or "UDP".
    pub transport: &'static str,
    /// The address asked for.
    pub address: ListenAddress,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// Sockets that listen on one address.
#[derive(Debug)]
pub(crate) struct Listener {
    /// The address that was asked for.
    pub asked: SocketAddr,
    /// The address, with the port that was chosen where 0 was asked for.
    pub address: SocketAddr,
    /// HTTP/1.1 and HTTP/2.
    pub tcp: Vec<TcpSocket>,
    /// HTTP/3: a socket for each worker.
    pub udp: Vec<QuicSocket>,
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

/// The socket of one worker.
#[derive(Debug)]
pub(crate) struct QuicSocket {
    /// The socket.
    pub socket: UdpSocket,
    /// Datagrams come to another worker's, which forwards them.
    pub only_sends: bool,
    /// The way to the process that has had the socket, and still has connections.
    pub link: Option<UnixDatagram>,
}

impl QuicSocket {
    const fn new(socket: UdpSocket) -> Self {
        Self {
            socket,
            only_sends: false,
            link: None,
        }
    }
}

impl Listener {
    /// Binds every address that is meant, or takes the sockets that were given for it.
    ///
    /// # Errors
    /// When one can't be bound; of those of a name, when none can.
    pub(crate) fn bind_all(
        addresses: &[ListenAddress],
        mptcp: bool,
        gate: Option<&MptcpGate>,
        steering: Steering,
        pool: &Pool,
    ) -> Result<Vec<Self>, ListenError> {
        let bind = |address| Self::take_or_bind(address, mptcp, gate, steering, pool);
        let mut listeners = Vec::new();
        for address in addresses {
            let absent = |error: &ListenError| is_absent(&error.source);
            let failed = |source| ListenError {
                transport: "TCP",
                address: address.clone(),
                source,
            };
            listeners.extend(bind_each(address, bind, absent, failed)?);
        }
        Ok(listeners)
    }

    /// Binds TCP and UDP of `asked`; an IPv6 wildcard takes IPv4, too. With a gate MPTCP is taken of the
    /// clients that it says.
    ///
    /// # Errors
    /// When either can't be bound.
    #[cfg(test)]
    pub(crate) fn bind(
        asked: SocketAddr,
        mptcp: bool,
        gate: Option<&MptcpGate>,
        steering: Steering,
    ) -> Result<Self, ListenError> {
        Self::take_or_bind(asked, mptcp, gate, steering, &Pool::default())
    }

    fn take_or_bind(
        asked: SocketAddr,
        mptcp: bool,
        gate: Option<&MptcpGate>,
        steering: Steering,
        pool: &Pool,
    ) -> Result<Self, ListenError> {
        let failed = |transport, address| {
            move |source| ListenError {
                transport,
                address: ListenAddress::Ip(address),
                source,
            }
        };
        let given = pool.take(Role::Tcp, asked);
        let tcp = match given.is_empty() {
            true => listen_tcp(asked, mptcp, gate),
            false => adopt_tcp(given, gate),
        };
        let (tcp, mptcp) = tcp.map_err(failed("TCP", asked))?;
        // Port 0 asks for any port: the others take the one that TCP got.
        let address = match tcp.first() {
            Some(first) => first.listener.local_addr(),
            None => Ok(asked),
        };
        let address = address.map_err(failed("TCP", asked))?;
        let given = pool.take(Role::Udp, asked);
        let udp = match given.is_empty() {
            true => bind_udp(address, steering),
            false => adopt_udp(given, steering),
        };
        Ok(Self {
            asked,
            address,
            tcp,
            udp: udp.map_err(failed("UDP", address))?,
            mptcp,
        })
    }
}

/// Listens on TCP; returns whether clients may use MPTCP, too.
fn listen_tcp(
    asked: SocketAddr,
    mptcp: bool,
    gate: Option<&MptcpGate>,
) -> io::Result<(Vec<TcpSocket>, bool)> {
    let (socket, mptcp) = tcp_socket(asked, mptcp)?;
    bind_tcp(&socket, asked)?;
    let gate = gate.filter(|_| mptcp);
    if gate.is_some() {
        // Only now: others that want the address have to see that it is taken.
        socket.set_reuse_port(true)?;
    }
    socket.listen(BACKLOG)?;
    let first = TcpListener::from(socket);
    let address = first.local_addr()?;
    let mut tcp = vec![TcpSocket {
        listener: first,
        refused: false,
    }];
    if let Some(gate) = gate {
        tcp.extend(behind(gate, address)?);
    }
    Ok((tcp, mptcp))
}

/// Binds a socket for each worker.
fn bind_udp(address: SocketAddr, steering: Steering) -> io::Result<Vec<QuicSocket>> {
    let (sockets, _) = steering.bind(address, prepare_udp)?;
    Ok(sockets.into_iter().map(QuicSocket::new).collect())
}

/// Binds the socket addresses of a configured one: of a name, those that this machine has. Where the
/// kernel has no IPv6, the IPv6 wildcard becomes that of IPv4. `failed` makes an error of a name.
pub(crate) fn bind_each<T, E>(
    address: &ListenAddress,
    bind: impl Fn(SocketAddr) -> Result<T, E>,
    is_absent: impl Fn(&E) -> bool,
    failed: impl Fn(io::Error) -> E,
) -> Result<Vec<T>, E> {
    let mut bound = Vec::new();
    let mut last = None;
    for one in address.resolve().map_err(&failed)? {
        let any = SocketAddr::from(([0, 0, 0, 0], one.port()));
        match bind(one) {
            Ok(listener) => bound.push(listener),
            Err(error) if !is_absent(&error) => return Err(error),
            Err(_) if one.ip() == Ipv6Addr::UNSPECIFIED => {
                tracing::info!("this kernel has no IPv6: listening on {any}");
                bound.push(bind(any)?);
            }
            Err(error) => last = Some(error),
        }
    }
    match last {
        Some(error) if bound.is_empty() => Err(error),
        None if bound.is_empty() => Err(failed(io::ErrorKind::NotFound.into())),
        _ => Ok(bound),
    }
}

/// Binds TCP of an address as a server would, and lets it go without having listened on it.
///
/// # Errors
/// When it can't be bound; of the addresses of a name, when none can.
pub fn try_tcp(address: &ListenAddress) -> io::Result<()> {
    let bind = |address| {
        let (socket, _) = tcp_socket(address, false)?;
        bind_tcp(&socket, address)
    };
    bind_each(address, bind, is_absent, |error| error).map(drop)
}

/// Binds UDP of an address as a server would, and lets it go.
///
/// # Errors
/// As [`try_tcp`].
pub fn try_udp(address: &ListenAddress) -> io::Result<()> {
    let bind = |address: SocketAddr| {
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        prepare_udp(&socket)?;
        socket.bind(&address.into())
    };
    bind_each(address, bind, is_absent, |error| error).map(drop)
}

/// Whether this machine lacks the address, or its family.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(libc::EAFNOSUPPORT)
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
    set_tcp(socket)?;
    socket.bind(&address.into())
}

fn set_tcp(socket: &Socket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    // Connections inherit both, so that none of them costs a system call.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(UNSENT)
}

fn prepare_udp(socket: &Socket) -> io::Result<()> {
    if socket.domain()? == Domain::IPV6 {
        socket.set_only_v6(false)?;
    }
    set_udp(socket)
}

fn set_udp(socket: &Socket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    // As large as the kernel allows; smaller ones work, too.
    let _ = socket.set_recv_buffer_size(UDP_BUFFER);
    let _ = socket.set_send_buffer_size(UDP_BUFFER);
    Ok(())
}

/// Whether the kernel offers `congestion` to TCP sockets of this process.
///
/// # Errors
/// The kernel's own error: `ENOENT` where it does not have it, `EPERM` where only
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_this_machine_lacks_are_left_out() {
        let family = || io::Error::from_raw_os_error(libc::EAFNOSUPPORT);
        let lacks_v6 = |address: SocketAddr| match address.is_ipv6() {
            true => Err(family()),
            false => Ok(address.to_string()),
        };
        let bind = |text: &str| {
            let address = text.parse().unwrap();
            bind_each(&address, lacks_v6, is_absent, |error| error)
        };
        assert_eq!(bind(":443").unwrap(), ["0.0.0.0:443"]);
        assert_eq!(bind("127.0.0.1:443").unwrap(), ["127.0.0.1:443"]);
        assert_eq!(bind("localhost:443").unwrap(), ["127.0.0.1:443"]);
        assert!(is_absent(&bind("[::1]:443").unwrap_err()));
        assert!(bind("nobody.invalid:443").is_err());
        let in_use = |_| Err::<(), _>(io::Error::from(io::ErrorKind::AddrInUse));
        let address = "localhost:443".parse().unwrap();
        let error = bind_each(&address, in_use, is_absent, |error| error).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
