//! Sockets that a driver can use.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use tokio::io::Interest;

use crate::clock;

/// For how long the system is not asked again to cut trains: routes change.
const UNCUT: Duration = Duration::from_secs(60);
/// Between warnings of datagrams that the system does not take.
const WARNINGS: Duration = Duration::from_secs(60);

/// Sends and receives datagrams for a driver. One task polls it.
pub trait Socket: fmt::Debug + Send + Sync + 'static {
    /// Sends all datagrams of `transmit`. One that the network cannot take counts as sent: QUIC repairs
    /// losses.
    ///
    /// # Errors
    /// `WouldBlock` while there is no room; then [`Socket::poll_writable`] gets ready when there is.
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()>;

    /// Ready when there may be room to send. It remembers one waker.
    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Receives into `bufs`, and returns how many of them have datagrams, as `meta` describes them. It
    /// remembers one waker.
    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>>;

    /// The address that the socket is bound to.
    ///
    /// # Errors
    /// The system's.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// Datagrams that one [`Transmit`] may have (GSO). At least 1.
    fn max_transmit_segments(&self) -> usize {
        1
    }

    /// Whether datagrams may be cut on their way, so that the path's MTU cannot be searched
    /// (RFC 9000 §14).
    fn may_fragment(&self) -> bool {
        true
    }
}

/// A UDP socket of the system: GSO, GRO, ECN, and the address that each datagram came to.
#[derive(Debug)]
pub struct UdpSocket {
    io: tokio::net::UdpSocket,
    state: RwLock<UdpSocketState>,
    /// Until when trains are not sent in one call; `None` unless the system has refused to cut one.
    uncut_until: Mutex<Option<Instant>>,
    warned_at: Mutex<Option<Instant>>,
}

impl UdpSocket {
    /// Takes a socket that is bound.
    ///
    /// # Errors
    /// When its options can't be set, or outside of a tokio runtime.
    pub fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
        Ok(Self {
            state: RwLock::new(UdpSocketState::new((&socket).into())?),
            io: tokio::net::UdpSocket::from_std(socket)?,
            uncut_until: Mutex::new(None),
            warned_at: Mutex::new(None),
        })
    }

    /// Sends `transmit`, even if the socket is not known to have room. Where the system can't cut it, its
    /// datagrams go one by one. Those that the system refuses count as sent.
    ///
    /// # Errors
    /// `WouldBlock` while there is no room. Datagrams of `transmit` may have been sent then.
    pub fn send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        match self.send_once(transmit) {
            Err(error) if refuses_segments(&error) => self.send_uncut(transmit, &error),
            sent => self.settle(transmit, sent),
        }
    }

    /// Sends in one call.
    fn send_once(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let state = self.state.read();
        let sent = state.try_send((&self.io).into(), transmit);
        drop(state);
        if sent.as_ref().is_err_and(refuses_segments) {
            self.forget_refusal();
        }
        sent
    }

    /// Sends datagrams one by one that the system did not take together because of `error`.
    fn send_uncut(&self, transmit: &Transmit<'_>, error: &io::Error) -> io::Result<()> {
        let size = transmit.segment_size.unwrap_or(usize::MAX).max(1);
        if size >= transmit.contents.len() {
            self.warn(transmit, error);
            return Ok(());
        }
        for contents in transmit.contents.chunks(size) {
            let one = Transmit {
                contents,
                segment_size: None,
                destination: transmit.destination,
                ecn: transmit.ecn,
                src_ip: transmit.src_ip,
            };
            let sent = self.send_once(&one);
            if sent.is_err() {
                return self.settle(&one, sent);
            }
        }
        tracing::debug!("sending a train of datagrams: {error}; one by one now");
        *self.uncut_until.lock() = Some(clock::now() + UNCUT);
        Ok(())
    }

    /// Has quinn-udp use GSO and ECN again. It takes each of these errors for a lack of either, for ever
    /// and towards everybody. But they also come of a single path, or of an address that this host has
    /// lost.
    fn forget_refusal(&self) {
        match UdpSocketState::new((&self.io).into()) {
            Ok(state) => *self.state.write() = state,
            Err(error) => tracing::debug!("setting up a UDP socket again: {error}"),
        }
    }

    /// Has datagrams that the system did not take count as sent, unless it only lacks room.
    fn settle(&self, transmit: &Transmit<'_>, sent: io::Result<()>) -> io::Result<()> {
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
            // The search for a path's MTU ends by this, and QUIC finds out if that has shrunk.
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => Ok(()),
            Err(error) => {
                self.warn(transmit, &error);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn warn(&self, transmit: &Transmit<'_>, error: &io::Error) {
        let (mut warned_at, now) = (self.warned_at.lock(), clock::now());
        if warned_at.is_none_or(|at| now.saturating_duration_since(at) >= WARNINGS) {
            *warned_at = Some(now);
            let (to, from) = (transmit.destination, transmit.src_ip);
            tracing::warn!("sending QUIC datagrams to {to} (from {from:?}): {error}");
        }
    }

    /// Sends by `send`, if the socket is known to have room. Once `send` returns `WouldBlock`, it has
    /// none until the system reports some.
    ///
    /// # Errors
    /// `WouldBlock` while there is no room, and the errors of `send`.
    pub fn try_send_by(&self, send: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.io.try_io(Interest::WRITABLE, send)
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

impl Socket for UdpSocket {
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.try_send_by(|| self.send(transmit))
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_send_ready(cx)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let room = bufs.len();
        loop {
            ready!(self.io.poll_recv_ready(cx))?;
            let mut short = None;
            let received = self.io.try_io(Interest::READABLE, || {
                let count = self.state.read().recv((&self.io).into(), bufs, meta)?;
                if count < room {
                    // The queue is empty, and asking again would cost a call. This error has the socket
                    // count as not readable, until more datagrams come.
                    short = Some(count);
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Ok(count)
            });
            match (short, received) {
                (Some(count), _) => return Poll::Ready(Ok(count)),
                (None, Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                (None, received) => return Poll::Ready(received),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        let uncut_until = *self.uncut_until.lock();
        if uncut_until.is_some_and(|until| clock::now() < until) {
            return 1;
        }
        self.state.read().max_gso_segments()
    }

    fn may_fragment(&self) -> bool {
        self.state.read().may_fragment()
    }
}

/// Whether the system could not cut datagrams out of one send. It reports that of the interface (`EIO`),
/// of the size (`EINVAL`), and of routes that encapsulate where the interface behind has no checksum
/// offload (`ENOMEM`). Each can have other reasons.
pub fn refuses_segments(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::EINVAL | libc::ENOMEM)
    )
}
