//! Traffic over the link under test.

use std::io::{self, IoSliceMut, Read, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::CheckError;
use crate::link::{CLIENT_V4, Netns, SERVER_V4, Topology, become_realtime};

/// Longest wait of a check for expected packets.
const PATIENCE: Duration = Duration::from_secs(5);

/// Silence after which no further packet is expected, beyond the link's delay.
const SILENCE: Duration = Duration::from_millis(300);

/// Makes a UDP socket whose buffers hold all packets of a check, however long its reader waits for
/// a CPU.
pub(super) fn udp(netns: &Netns, ip: impl Into<IpAddr>) -> Result<UdpSocket, CheckError> {
    let ip = ip.into();
    let socket = netns.enter(|| UdpSocket::bind((ip, 0)))??;
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20)?;
    rustix::net::sockopt::set_socket_send_buffer_size_force(&socket, 64 << 20)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Sends `count` datagrams of `len` bytes, as super-packets if the kernel supports them. Returns
/// whether it does.
pub(super) fn send_burst(
    from: &UdpSocket,
    target: SocketAddr,
    len: usize,
    count: usize,
    ecn: Option<EcnCodepoint>,
) -> io::Result<bool> {
    let state = UdpSocketState::new(from.into())?;
    // A super-packet has at most 64 KiB with its headers.
    let at_once = state.max_gso_segments().min(65_000 / len).max(1);
    let content = vec![0x5a; len * at_once];
    let mut left = count;
    while left > 0 {
        let segments = left.min(at_once);
        let transmit = Transmit {
            destination: target,
            ecn,
            contents: &content[..segments * len],
            segment_size: (segments > 1).then_some(len),
            src_ip: None,
        };
        state.try_send(from.into(), &transmit)?;
        left -= segments;
    }
    Ok(at_once > 1)
}

/// Counts datagrams until no more come.
pub(super) fn count_datagrams(socket: &UdpSocket, delay: Duration) -> io::Result<u64> {
    socket.set_read_timeout(Some(delay + SILENCE))?;
    let (mut count, mut buffer) = (0, [0; 2_048]);
    loop {
        match socket.recv(&mut buffer) {
            Ok(_) => count += 1,
            Err(error) if is_timeout(&error) => return Ok(count),
            Err(error) => return Err(error),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// Receives `count` datagrams and returns their ECN fields.
pub(super) fn receive_ecn(
    socket: &UdpSocket,
    count: usize,
) -> Result<Vec<Option<EcnCodepoint>>, CheckError> {
    let state = UdpSocketState::new(socket.into())?;
    let (began, mut seen, mut buffer) = (Instant::now(), Vec::new(), vec![0; 1 << 16]);
    while seen.len() < count {
        let mut meta = [RecvMeta::default()];
        match state.recv(
            socket.into(),
            &mut [IoSliceMut::new(&mut buffer)],
            &mut meta,
        ) {
            Ok(_) => {
                let [meta] = meta;
                let datagrams = meta.len.div_ceil(meta.stride.max(1));
                seen.extend(std::iter::repeat_n(meta.ecn, datagrams));
            }
            Err(error) if is_timeout(&error) && began.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(seen)
}

/// The parameters of a flow's measurement.
pub(super) struct Flow {
    /// Receive buffer of the client in bytes. Half of it becomes the window.
    pub(super) buffer: usize,
    /// Time before the measurement.
    pub(super) warm_up: Duration,
    /// Time of the measurement.
    pub(super) time: Duration,
}

/// Returns the goodput in bit/s of a TCP connection from server to client.
pub(super) fn tcp_goodput(topology: &Topology, flow: &Flow) -> Result<f64, CheckError> {
    let listener = listen(topology.server(), SERVER_V4.into(), Protocol::TCP)?;
    let target = listener.local_addr()?;
    thread::scope(|scope| {
        scope.spawn(move || {
            let Ok((mut stream, _)) = listener.accept() else {
                return;
            };
            let chunk = [0; 1 << 16];
            // Sends until the client closes.
            while stream.write_all(&chunk).is_ok() {}
        });
        let mut stream = connect(topology.client(), &target, Protocol::TCP, Some(flow.buffer))?;
        let mut buffer = vec![0; 1 << 20];
        let mut read_for = |time: Duration| -> io::Result<f64> {
            let (start, mut bytes) = (Instant::now(), 0);
            loop {
                bytes += stream.read(&mut buffer)?;
                let elapsed = start.elapsed();
                if elapsed >= time {
                    return Ok(bytes as f64 * 8.0 / elapsed.as_secs_f64());
                }
            }
        };
        read_for(flow.warm_up)?;
        Ok(read_for(flow.time)?)
    })
}

/// Returns the round-trip times in seconds of `count` small datagrams, one each `gap`.
///
/// Both ends run in real time if that is allowed, so that the time is the link's, and excludes the
/// wait for a CPU.
pub(super) fn round_trips(
    topology: &Topology,
    count: usize,
    gap: Duration,
) -> Result<Vec<f64>, CheckError> {
    let echo = udp(topology.server(), SERVER_V4)?;
    let ping = udp(topology.client(), CLIENT_V4)?;
    let target = echo.local_addr()?;
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = become_realtime();
            let mut buffer = [0; 64];
            while let Ok((len, from)) = echo.recv_from(&mut buffer) {
                if len == 0 || echo.send_to(&buffer[..len], from).is_err() {
                    return;
                }
            }
        });
        let receiver = scope.spawn(|| {
            let _ = become_realtime();
            let (mut rtts, mut buffer) = (Vec::with_capacity(count), [0; 8]);
            while rtts.len() < count {
                ping.recv(&mut buffer)?;
                let sent = f64::from_ne_bytes(buffer);
                rtts.push(start.elapsed().as_secs_f64() - sent);
            }
            Ok(rtts)
        });
        let sent = (0..count).try_for_each(|_| {
            thread::sleep(gap);
            let now = start.elapsed().as_secs_f64();
            ping.send_to(&now.to_ne_bytes(), target).map(drop)
        });
        let rtts: io::Result<Vec<f64>> = receiver
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // An empty datagram ends the echo.
        ping.send_to(&[], target)?;
        sent?;
        Ok(rtts?)
    })
}

/// Sends `content` from server to client over a stream socket of `protocol`. Returns the bytes that
/// arrive.
pub(super) fn stream(
    topology: &Topology,
    server: IpAddr,
    protocol: Protocol,
    content: &[u8],
) -> Result<Vec<u8>, CheckError> {
    let listener = listen(topology.server(), server, protocol)?;
    let target = listener.local_addr()?;
    thread::scope(|scope| {
        let sender = scope.spawn(|| listener.accept()?.0.write_all(content));
        let mut socket = connect(topology.client(), &target, protocol, None)?;
        let mut received = Vec::new();
        socket.read_to_end(&mut received)?;
        let sent = sender
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        sent?;
        Ok(received)
    })
}

fn listen(netns: &Netns, ip: IpAddr, protocol: Protocol) -> Result<Socket, CheckError> {
    let listen = || -> io::Result<Socket> {
        let address = SocketAddr::from((ip, 0));
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(protocol))?;
        socket.bind(&address.into())?;
        socket.listen(1)?;
        // Bounds the wait for a client that could not connect.
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(socket)
    };
    Ok(netns.enter(listen)??)
}

fn connect(
    netns: &Netns,
    target: &SockAddr,
    protocol: Protocol,
    buffer: Option<usize>,
) -> Result<Socket, CheckError> {
    let connect = || -> io::Result<Socket> {
        let socket = Socket::new(target.domain(), Type::STREAM, Some(protocol))?;
        if let Some(buffer) = buffer {
            // Before the handshake, which negotiates the window's scale.
            rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, buffer)?;
        }
        socket.connect_timeout(target, PATIENCE)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(socket)
    };
    Ok(netns.enter(connect)??)
}
