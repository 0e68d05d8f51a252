//! A connection's stream, of which hyper gets the requests that it is to answer.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::tls_io::TlsIo;
use crate::ledger::Ledger;

/// The bytes that have arrived, and who may read them.
#[derive(Debug)]
pub(super) struct Front<T> {
    pub(super) tls: TlsIo<T>,
    /// Bytes that have arrived, from the first that nobody has read on.
    pub(super) input: Vec<u8>,
    /// The client sends no more.
    pub(super) is_over: bool,
    /// Of `input`, the bytes that hyper may read: a request. All there ever will be, if `None`.
    given: Option<usize>,
    /// The request that hyper has is over when the ledger counts so many, and none is open.
    expected: u64,
    /// hyper has since written all of the response.
    written: bool,
    /// hyper closes the connection.
    closing: bool,
    ledger: Arc<Ledger>,
}

/// Bytes that may arrive while a request before them is answered.
const AHEAD: usize = 16 * 1024;

impl<T: AsyncRead + AsyncWrite + Unpin> Front<T> {
    pub(super) const fn new(tls: TlsIo<T>, ledger: Arc<Ledger>) -> Self {
        Self {
            tls,
            input: Vec::new(),
            is_over: false,
            given: Some(0),
            expected: 0,
            written: false,
            closing: false,
            ledger,
        }
    }

    /// Reads once, until something has arrived or the client sends no more.
    pub(super) fn poll_arrival(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        thread_local! {
            /// Decrypted bytes, which connections need one after the other.
            static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
        }
        let mut buffer = BUFFER.take();
        buffer.clear();
        let read = self.tls.poll_decrypt(cx, &mut buffer);
        self.input.extend_from_slice(&buffer);
        BUFFER.set(buffer);
        self.is_over |= !ready!(read)?;
        Poll::Ready(Ok(()))
    }

    /// Takes bytes that were understood.
    pub(super) fn consume(&mut self, length: usize) {
        match length == self.input.len() {
            // An idle connection holds no memory for them.
            true => self.input = Vec::new(),
            false => drop(self.input.drain(..length)),
        }
    }

    /// Has hyper answer the request in the first `length` bytes.
    pub(super) fn give(&mut self, length: usize) {
        self.given = Some(length);
        self.expected = self.ledger.requests() + 1;
        self.written = false;
    }

    /// Leaves the connection to hyper for good.
    pub(super) const fn give_all(&mut self) {
        self.given = None;
    }

    /// Whether hyper has answered the request that it was given, and would wait for another.
    pub(super) fn is_back(&self) -> bool {
        self.written && !self.closing && self.is_answered()
    }

    fn is_answered(&self) -> bool {
        self.given == Some(0)
            && self.ledger.requests() >= self.expected
            && self.ledger.load().in_flight == 0
    }

    fn poll_give(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let length = self.given.unwrap_or(self.input.len());
        let length = length.min(buf.remaining());
        if length > 0 {
            buf.put_slice(&self.input[..length]);
            self.consume(length);
            self.given = self.given.map(|given| given - length);
            return Poll::Ready(Ok(()));
        }
        if self.given.is_none() {
            return match self.is_over {
                true => Poll::Ready(Ok(())),
                false => Pin::new(&mut self.tls).poll_read(cx, buf),
            };
        }
        // hyper has to notice when the client goes. What it sends on has its turn.
        while !self.is_over && self.input.len() < AHEAD {
            ready!(self.poll_arrival(cx))?;
        }
        match self.is_over && self.input.is_empty() {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }
}

/// The stream as hyper has it.
#[derive(Debug)]
pub(super) struct Given<T>(pub(super) Arc<Mutex<Front<T>>>);

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Given<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.lock().poll_give(cx, buf)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Given<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0.lock().tls).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0.lock().tls).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut front = self.0.lock();
        ready!(Pin::new(&mut front.tls).poll_flush(cx))?;
        // hyper flushes when it has handed over all it has.
        front.written |= front.is_answered();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut front = self.0.lock();
        front.closing = true;
        Pin::new(&mut front.tls).poll_shutdown(cx)
    }
}
