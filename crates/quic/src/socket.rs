//! Sockets that a driver can use.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll, ready};

use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use tokio::io::Interest;

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
    state: UdpSocketState,
}

impl UdpSocket {
    /// Takes a socket that is bound.
    ///
    /// # Errors
    /// When its options can't be set, or outside of a tokio runtime.
    pub fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
        Ok(Self {
            state: UdpSocketState::new((&socket).into())?,
            io: tokio::net::UdpSocket::from_std(socket)?,
        })
    }

    /// Sends `transmit`, even if the socket is not known to have room.
    ///
    /// # Errors
    /// The system's.
    pub fn send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.state.send((&self.io).into(), transmit)
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
                let count = self.state.recv((&self.io).into(), bufs, meta)?;
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
        self.state.max_gso_segments()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }
}
