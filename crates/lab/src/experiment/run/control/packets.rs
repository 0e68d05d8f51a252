//! Packets that contain their time and route, with their sender and their receiver.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use super::super::error::{Attempt, RunError};
use super::clock;
use super::net::{Peer, SERVER};
use hikyaku_emulator::link::Netns;

/// A route by which the server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Packets from the server's default address.
    Plain,
    /// Packets from a path's EPE address.
    From(Peer),
    /// Packets with a path's mark.
    Marked(Peer),
}

/// A packet that came to a transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) sent: Duration,
    /// Time of its reading, which is after its arrival.
    pub(super) read: Duration,
    /// Index of the sender's routes.
    pub(super) route: u16,
    /// Index of the sender's targets.
    pub(super) target: u16,
}

/// Destination port of packets, on every address.
const PORT: u16 = 4739;
/// Length of a packet: its time, route and target.
const SIZE: usize = 12;
/// First of the marks of paths.
const MARK: u32 = 0x0068_0000;
/// Time within which a thread notices that it must end.
const TICK: Duration = Duration::from_millis(20);
/// Buffer of packets that wait to be read.
const BUFFER: usize = 16 << 20;

/// A sender that sends until it is dropped.
#[derive(Debug)]
pub(super) struct Sender {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Sender {
    /// Sends one packet by each route to each target in every `interval`, evenly.
    pub(super) fn start(
        server: &Netns,
        routes: &[Route],
        targets: &[Ipv6Addr],
        interval: Duration,
    ) -> Result<Self, RunError> {
        let sockets = server
            .enter(|| {
                routes
                    .iter()
                    .map(|route| route.socket())
                    .collect::<io::Result<Vec<_>>>()
            })?
            .attempt(|| "opening sockets to send from".to_owned())?;
        let targets = targets.to_vec();
        let (stop, sent) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let work = {
            let (stop, sent) = (Arc::clone(&stop), Arc::clone(&sent));
            move || send(&sockets, &targets, interval, &stop, &sent)
        };
        let thread = thread::Builder::new()
            .name("packets".to_owned())
            .spawn(work)
            .attempt(|| "starting a thread".to_owned())?;
        Ok(Self {
            stop,
            sent,
            thread: Some(thread),
        })
    }

    /// Number of packets that the kernel took.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it returns nothing
        }
    }
}

impl Route {
    fn socket(self) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
        let from = match self {
            Self::Plain | Self::Marked(_) => SERVER,
            Self::From(peer) => peer.epe(),
        };
        if let Self::Marked(peer) = self {
            socket.set_mark(MARK + u32::from(peer.number))?;
        }
        socket.bind(&SocketAddr::from((from, 0)).into())?;
        Ok(socket.into())
    }
}

fn send(
    sockets: &[UdpSocket],
    targets: &[Ipv6Addr],
    interval: Duration,
    stop: &AtomicBool,
    sent: &AtomicU64,
) {
    let gap = interval / (targets.len().max(1) as u32);
    let mut due = Instant::now();
    for (target, address) in targets.iter().enumerate().cycle() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        thread::sleep(due.saturating_duration_since(Instant::now()));
        // A late sender does not hurry.
        due = due.max(Instant::now() - interval) + gap;
        for (route, socket) in sockets.iter().enumerate() {
            let packet = packet(clock::now(), route as u16, target as u16);
            // A path that does not reach the target is part of the measurement.
            if socket.send_to(&packet, (*address, PORT)).is_ok() {
                sent.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn packet(at: Duration, route: u16, target: u16) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes[..8].copy_from_slice(&(at.as_nanos() as u64).to_be_bytes());
    bytes[8..10].copy_from_slice(&route.to_be_bytes());
    bytes[10..].copy_from_slice(&target.to_be_bytes());
    bytes
}

fn parse(bytes: &[u8], read: Duration) -> Option<Arrival> {
    let bytes: &[u8; SIZE] = bytes.try_into().ok()?;
    let [time @ .., w0, w1, t0, t1] = *bytes;
    Some(Arrival {
        sent: Duration::from_nanos(u64::from_be_bytes(time)),
        read,
        route: u16::from_be_bytes([w0, w1]),
        target: u16::from_be_bytes([t0, t1]),
    })
}

/// A receiver of all packets to a transit.
#[derive(Debug)]
pub(super) struct Sink {
    stop: Arc<AtomicBool>,
    /// Time at which the last received packet was sent, in ns.
    last: Arc<AtomicU64>,
    thread: Option<JoinHandle<Vec<Arrival>>>,
}

impl Sink {
    pub(super) fn start(transit: &Netns) -> Result<Self, RunError> {
        let socket = transit
            .enter(listen)?
            .attempt(|| format!("taking packets in {}", transit.name()))?;
        let (stop, last) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let work = {
            let (stop, last) = (Arc::clone(&stop), Arc::clone(&last));
            move || take(&socket, &stop, &last)
        };
        let thread = thread::Builder::new()
            .name("sink".to_owned())
            .spawn(work)
            .attempt(|| "starting a thread".to_owned())?;
        Ok(Self {
            stop,
            last,
            thread: Some(thread),
        })
    }

    /// Returns the time at which the last packet received so far was sent; `None` if none has come.
    pub(super) fn last(&self) -> Option<Duration> {
        match self.last.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// Returns the received packets in their order.
    pub(super) fn end(mut self) -> Vec<Arrival> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take();
        let ended = thread.map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        ended.unwrap_or_default()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn listen() -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER)?;
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT)).into())?;
    socket.set_read_timeout(Some(TICK))?;
    Ok(socket.into())
}

fn take(socket: &UdpSocket, stop: &AtomicBool, last: &AtomicU64) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    let mut buffer = [0; 64];
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                if let Some(arrival) = parse(&buffer[..length], clock::now()) {
                    last.fetch_max(arrival.sent.as_nanos() as u64, Ordering::Relaxed);
                    arrivals.push(arrival);
                }
            }
            // Packets that had come before are read first.
            Err(_) if stop.load(Ordering::Relaxed) => return arrivals,
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_contains_its_description() {
        let (sent, read) = (
            Duration::from_nanos(1_234_567_890_123),
            Duration::from_secs(2_000),
        );
        let bytes = packet(sent, 7, 300);
        let want = Arrival {
            sent,
            read,
            route: 7,
            target: 300,
        };
        assert_eq!(parse(&bytes, read), Some(want));
        assert_eq!(parse(&bytes[..11], read), None);
    }
}
