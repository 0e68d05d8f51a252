//! The bytes of a connection, in the clear or over TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// A connection that carries any version of HTTP.
pub(in crate::proxy) enum Transport {
    Tcp(TcpStream),
    Socket(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl From<TcpStream> for Transport {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(stream)
    }
}

impl From<TlsStream<TcpStream>> for Transport {
    fn from(stream: TlsStream<TcpStream>) -> Self {
        Self::Tls(Box::new(stream))
    }
}

impl Transport {
    /// Makes the connection send a reset when it is dropped.
    fn reset(&self) {
        let stream = match self {
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
            // It has no reset.
            Self::Socket(_) => return,
        };
        // It fails only if the connection is closed already.
        let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
    }
}

macro_rules! on_stream {
    ($this:expr, $stream:ident => $call:expr) => {
        match $this.get_mut() {
            Self::Tcp($stream) => $call,
            Self::Socket($stream) => $call,
            Self::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_stream!(self, stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => Pin::new(stream).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Socket(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

/// A connection that carries another protocol, after the bytes of it that have been received.
pub(in crate::proxy) struct Upgraded {
    pub(super) received: Bytes,
    pub(super) transport: Transport,
}

impl Upgraded {
    /// Resets the connection, instead of closing it.
    pub(in crate::proxy) fn reset(self) {
        self.transport.reset();
    }
}

impl AsyncRead for Upgraded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.received.is_empty() {
            return Pin::new(&mut self.transport).poll_read(cx, buf);
        }
        let length = self.received.len().min(buf.remaining());
        buf.put_slice(&self.received[..length]);
        self.received.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.transport).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(cx)
    }
}
