//! A TCP connection whose socket can be asked for its state while it is served.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use hikyaku_core::arm::Congestion;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::{Snapshot, info};
use crate::listen::set_congestion;

/// A socket shared by the connection, which reads and writes it, and its meter.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    mptcp: bool,
    /// What had been acknowledged before anything was written.
    base: u64,
    written: AtomicU64,
    blocked: AtomicBool,
}

impl Socket {
    /// Takes a socket that was just accepted.
    ///
    /// # Errors
    /// When the socket can't tell its protocol or state.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Arc<Self>> {
        let protocol = SockRef::from(&stream).protocol()?;
        let mptcp = protocol == Some(socket2::Protocol::MPTCP);
        Ok(Arc::new(Self {
            base: info::read(&stream, mptcp)?.acked,
            stream,
            mptcp,
            written: AtomicU64::new(0),
            blocked: AtomicBool::new(false),
        }))
    }

    /// The connection's state; `acked` counts from the first byte written.
    ///
    /// # Errors
    /// Those of getsockopt(2).
    pub(crate) fn look(&self) -> io::Result<Snapshot> {
        let mut snapshot = info::read(&self.stream, self.mptcp)?;
        snapshot.acked = snapshot.acked.saturating_sub(self.base);
        Ok(snapshot)
    }

    /// Gives the socket another congestion control.
    ///
    /// # Errors
    /// When the kernel does not offer it; the former one then stays in use.
    pub(crate) fn set_congestion(&self, congestion: Congestion) -> io::Result<()> {
        set_congestion(&self.stream, congestion)
    }

    /// Bytes that the socket has taken so far, and whether it took no more at the last
    /// write, so that some may wait above it.
    pub(crate) fn written(&self) -> (u64, bool) {
        (
            self.written.load(Ordering::Relaxed),
            self.blocked.load(Ordering::Relaxed),
        )
    }
}

/// The reading and writing end of a [`Socket`].
#[derive(Debug)]
pub(crate) struct MeteredIo(pub(crate) Arc<Socket>);

impl MeteredIo {
    fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            if self.0.stream.poll_write_ready(cx)?.is_pending() {
                self.0.blocked.store(true, Ordering::Relaxed);
                return Poll::Pending;
            }
            match write(&self.0.stream) {
                Ok(n) => {
                    self.0.blocked.store(false, Ordering::Relaxed);
                    self.0.written.fetch_add(n as u64, Ordering::Relaxed);
                    return Poll::Ready(Ok(n));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncRead for MeteredIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = &self.0.stream;
        loop {
            ready!(stream.poll_read_ready(cx))?;
            match stream.try_read(buf.initialize_unfilled()) {
                Ok(n) => {
                    buf.advance(n);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for MeteredIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |stream| stream.try_write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |stream| stream.try_write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The kernel sends the FIN after what it still holds.
        let shut = rustix::net::shutdown(&self.0.stream, rustix::net::Shutdown::Write);
        Poll::Ready(shut.map_err(io::Error::from))
    }
}
