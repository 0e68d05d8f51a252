//! A TLS connection that writes few, full records and makes few system calls.

use std::io::{self, BufRead, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use parking_lot::Mutex;
use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::turns::Slice;
use crate::budget::Account;
use crate::live::Place;

/// Writes below this size are gathered: a response's head, a small body.
const SMALL: usize = 4096;
/// Most content of one TLS record (RFC 8446 §5.1), and what is gathered at most.
const RECORD: usize = 16 * 1024;
/// Encrypted bytes that make a system call worth it.
const WORTH_WRITING: usize = 4 * RECORD;

/// An established TLS connection.
///
/// HTTP/2 writes each frame by itself. tokio-rustls would make a record and a system call
/// of each; here small writes share records, and records share system calls, until the
/// flush.
#[derive(Debug)]
pub(super) struct TlsIo<T> {
    io: T,
    tls: ServerConnection,
    /// Plaintext of small writes; empty and without memory on an idle connection.
    gathered: BytesMut,
    /// Ciphertext that rustls holds, at least.
    pending: usize,
    /// It waits, mostly for the socket.
    blocked: bool,
    slice: Slice,
    closing: bool,
    account: Arc<Account>,
    /// Where the connection becomes a tunnel, this outlives what serves it.
    _place: Arc<Place>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> TlsIo<T> {
    /// A connection whose content counts for `account`, and that keeps its `place`.
    pub(super) fn new(stream: TlsStream<T>, account: Arc<Account>, place: Arc<Place>) -> Self {
        let (io, mut tls) = stream.into_inner();
        tls.set_buffer_limit(Some(2 * WORTH_WRITING));
        Self {
            io,
            tls,
            gathered: BytesMut::new(),
            pending: 0,
            blocked: false,
            slice: Slice::default(),
            closing: false,
            account,
            _place: place,
        }
    }

    /// Encrypts what was gathered.
    fn seal_gathered(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        self.pending += self.gathered.len();
        let result = self.tls.writer().write_all(&self.gathered);
        self.gathered = BytesMut::new();
        result
    }

    /// Writes ciphertext until there is none left; while it waits, the account has no room.
    fn poll_write_sealed(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = self.poll_write_all(cx);
        self.set_blocked(written.is_pending());
        written
    }

    fn poll_write_all(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tls.wants_write() {
            ready!(self.slice.poll(cx));
            let mut socket = Blocking {
                io: &mut self.io,
                cx,
            };
            match self.tls.write_tls(&mut socket) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.slice.pause();
                    return Poll::Pending;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.pending = 0;
        Poll::Ready(Ok(()))
    }

    fn set_blocked(&mut self, blocked: bool) {
        if std::mem::replace(&mut self.blocked, blocked) != blocked {
            self.account.set_blocked(blocked);
        }
    }

    /// Reads ciphertext; `false` at the connection's end.
    fn poll_read_sealed(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        ready!(self.slice.poll(cx));
        let mut socket = Blocking {
            io: &mut self.io,
            cx,
        };
        let read = match self.tls.read_tls(&mut socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.slice.pause();
                return Poll::Pending;
            }
            read => read?,
        };
        if let Err(error) = self.tls.process_new_packets() {
            // The alert tells the client why; whether it gets it is all the same.
            let _ = self.poll_write_sealed(cx);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        // Answers of TLS itself, such as a key update; a full socket sends them later.
        if self.tls.wants_write()
            && let Poll::Ready(Err(error)) = self.poll_write_sealed(cx)
        {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(read > 0))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            // Copied rather than read into `buf`, which would first have to be zeroed whole.
            let mut reader = self.tls.reader();
            match reader.fill_buf() {
                Ok(content) => {
                    let n = content.len().min(buf.remaining());
                    buf.put_slice(&content[..n]);
                    reader.consume(n);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The client has gone without saying so (`close_notify`). HTTP tells by
                // itself whether anything is missing (RFC 9112 §9.8).
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Poll::Ready(Ok(()));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
            ready!(self.poll_read_sealed(cx))?;
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsIo<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length: usize = bufs.iter().map(|buf| buf.len()).sum();
        let small = length < SMALL;
        if !small || self.gathered.len() + length > RECORD {
            self.seal_gathered()?;
        }
        if self.pending >= WORTH_WRITING {
            ready!(self.poll_write_sealed(cx))?;
        }
        if !small {
            let written = self.tls.writer().write_vectored(bufs)?;
            self.pending += written;
            return Poll::Ready(Ok(written));
        }
        if self.gathered.capacity() == 0 {
            self.gathered.reserve(RECORD);
        }
        for buf in bufs {
            self.gathered.extend_from_slice(buf);
        }
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.seal_gathered()?;
        ready!(self.poll_write_sealed(cx))?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.seal_gathered()?;
        if !std::mem::replace(&mut self.closing, true) {
            self.tls.send_close_notify();
        }
        ready!(self.poll_write_sealed(cx))?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// A TLS connection that its driver flushes, after all that was to be written is.
///
/// `h2` flushes after every DATA frame, though it may have more.
#[derive(Debug)]
pub(super) struct FlushedByDriver<T>(Arc<Mutex<TlsIo<T>>>);

impl<T: AsyncRead + AsyncWrite + Unpin> FlushedByDriver<T> {
    pub(super) fn new(tls: TlsIo<T>) -> (Self, Flush<T>) {
        let tls = Arc::new(Mutex::new(tls));
        (Self(Arc::clone(&tls)), Flush(tls))
    }
}

/// The driver's end of a [`FlushedByDriver`].
#[derive(Debug)]
pub(super) struct Flush<T>(Arc<Mutex<TlsIo<T>>>);

impl<T: AsyncRead + AsyncWrite + Unpin> Flush<T> {
    /// Flushes; pending, the task is woken when the socket takes more.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_flush(cx)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for FlushedByDriver<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_read(cx, buf)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for FlushedByDriver<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.lock()).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.lock()).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_shutdown(cx)
    }
}

/// An asynchronous socket as rustls wants it: what is pending is an error.
struct Blocking<'a, 'b, T> {
    io: &'a mut T,
    cx: &'a mut Context<'b>,
}

fn pending_is_an_error<R>(poll: Poll<io::Result<R>>) -> io::Result<R> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl<T: AsyncRead + Unpin> Read for Blocking<'_, '_, T> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut buf = ReadBuf::new(buf);
        pending_is_an_error(Pin::new(&mut *self.io).poll_read(self.cx, &mut buf))?;
        Ok(buf.filled().len())
    }
}

impl<T: AsyncWrite + Unpin> Write for Blocking<'_, '_, T> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        pending_is_an_error(Pin::new(&mut *self.io).poll_write(self.cx, buf))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        pending_is_an_error(Pin::new(&mut *self.io).poll_write_vectored(self.cx, bufs))
    }

    fn flush(&mut self) -> io::Result<()> {
        pending_is_an_error(Pin::new(&mut *self.io).poll_flush(self.cx))
    }
}
