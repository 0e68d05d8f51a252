//! A connection that is read on after writing has failed.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection whose failed writes do not keep its peer's last words from being read.
///
/// A server may answer a request before it has taken the whole of it, and close: what is
/// still written then fails, while the response waits to be read (RFC 9112 §9.5). Writes
/// stand still instead, and whether the connection is of any use is for the reads to find
/// out, which end in an error or at the end.
pub(super) struct ReadOn<T> {
    io: T,
    has_failed: bool,
}

impl<T> ReadOn<T> {
    pub(super) const fn new(io: T) -> Self {
        Self {
            io,
            has_failed: false,
        }
    }

    fn unless_failed<R>(&mut self, written: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        match ready!(written) {
            Ok(written) => Poll::Ready(Ok(written)),
            Err(_) => {
                self.has_failed = true;
                Poll::Pending
            }
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for ReadOn<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for ReadOn<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.has_failed {
            return Poll::Pending;
        }
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.unless_failed(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.has_failed {
            return Poll::Pending;
        }
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.unless_failed(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.has_failed {
            return Poll::Pending;
        }
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.unless_failed(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.has_failed {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
