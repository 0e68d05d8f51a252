//! A connection's stream that writes few, full records of TLS and makes few system calls.

use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::session::Session;
use super::turns::Slice;
use crate::budget::Account;
use crate::live::Place;

/// Writes below this size are gathered: a response's head, a small body.
const SMALL: usize = 4096;
/// Most content of one TLS record (RFC 8446 §5.1), and most bytes that are gathered.
const RECORD: usize = 16 * 1024;
/// Encrypted bytes that make a system call worth it.
const WORTH_WRITING: usize = 4 * RECORD;
/// Pieces of content that are encrypted together.
const SLICES: usize = 128;

/// An established connection, of TLS or in the clear.
///
/// tokio-rustls would make a record and a system call of each write. Here small writes share records,
/// and records share system calls, until the flush. HTTP/2 gathers its output itself: it encrypts by
/// [`TlsIo::seal`], and reads by [`TlsIo::poll_decrypt`].
#[derive(Debug)]
pub(super) struct TlsIo<T> {
    io: T,
    session: Session,
    /// Plaintext of small writes; empty and without memory on an idle connection.
    gathered: BytesMut,
    /// Bytes for the socket that the session holds, at least.
    pending: usize,
    /// It waits, mostly for the socket.
    blocked: bool,
    /// Encrypted bytes that are worth a system call.
    batch: usize,
    /// Bytes that the socket has taken since it was last full.
    taken: usize,
    slice: Slice,
    closing: bool,
    account: Arc<Account>,
    /// Where the connection becomes a tunnel, this outlives what serves it.
    _place: Arc<Place>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> TlsIo<T> {
    /// A connection whose content counts for `account`, and that keeps its `place`.
    pub(super) fn new(
        (io, mut session): (T, Session),
        account: Arc<Account>,
        place: Arc<Place>,
    ) -> Self {
        session.set_buffer_limit(2 * WORTH_WRITING);
        Self {
            io,
            session,
            gathered: BytesMut::new(),
            pending: 0,
            blocked: false,
            batch: WORTH_WRITING,
            taken: 0,
            slice: Slice::default(),
            closing: false,
            account,
            _place: place,
        }
    }

    /// Whether encrypted bytes wait for the client.
    pub(super) const fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Whether so few encrypted bytes wait that more may join them.
    pub(super) const fn has_room(&self) -> bool {
        self.pending < self.batch
    }

    /// Bytes to encrypt at once: from a record to four. A socket that takes little at a time gets little, since
    /// encrypted bytes go before anything that is more urgent.
    pub(super) const fn batch(&self) -> usize {
        self.batch
    }

    /// Takes note that the socket is full.
    fn on_full(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        if taken > 0 {
            self.batch = taken.next_multiple_of(RECORD).min(WORTH_WRITING);
        }
    }

    /// Encrypts as much of `content` as there is room for.
    pub(super) fn seal(&mut self, content: &mut impl Buf) -> io::Result<()> {
        while content.has_remaining() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = content.chunks_vectored(&mut slices);
            let taken = self.session.write_vectored(&slices[..count])?;
            if taken == 0 {
                break;
            }
            self.pending += taken;
            content.advance(taken);
        }
        Ok(())
    }

    /// Decrypts the bytes that one read brings, and appends them to `into`; `false` at the
    /// connection's end.
    pub(super) fn poll_decrypt(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut Vec<u8>,
    ) -> Poll<io::Result<bool>> {
        loop {
            match self.session.arrived() {
                Ok([]) => return Poll::Ready(Ok(!into.is_empty())),
                Ok(content) => {
                    let length = content.len();
                    into.extend_from_slice(content);
                    self.session.take(length);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            if !into.is_empty() {
                return Poll::Ready(Ok(true));
            }
            ready!(self.poll_read_sealed(cx))?;
        }
    }

    /// Encrypts the gathered bytes.
    fn seal_gathered(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        self.pending += self.gathered.len();
        let result = self.session.write_all(&self.gathered);
        self.gathered = BytesMut::new();
        result
    }

    /// Writes ciphertext until there is none left; while it waits, the account has no room.
    pub(super) fn poll_write_sealed(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = self.poll_write_all(cx);
        self.set_blocked(written.is_pending());
        written
    }

    fn poll_write_all(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.session.has_output() {
            ready!(self.slice.poll(cx));
            match self.session.poll_send(&mut self.io, cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.taken = self.taken.saturating_add(count),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.on_full();
                    self.slice.pause();
                    return Poll::Pending;
                }
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
        let Poll::Ready(read) = self.session.poll_receive(&mut self.io, cx) else {
            self.slice.pause();
            return Poll::Pending;
        };
        let goes_on = read?;
        if let Err(error) = self.session.understand() {
            // The alert names the reason to the client; whether it gets it is all the same.
            let _ = self.poll_write_sealed(cx);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        // Answers of TLS itself, such as a key update; a full socket sends them later.
        if self.session.has_output()
            && let Poll::Ready(Err(error)) = self.poll_write_sealed(cx)
        {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(goes_on))
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
            match self.session.arrived() {
                Ok(content) => {
                    let n = content.len().min(buf.remaining());
                    buf.put_slice(&content[..n]);
                    self.session.take(n);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
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
            let written = self.session.write_vectored(bufs)?;
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
            self.session.close();
        }
        ready!(self.poll_write_sealed(cx))?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// An asynchronous socket as rustls wants it: a pending operation is an error.
pub(super) struct Blocking<'a, 'b, T> {
    io: &'a mut T,
    cx: &'a mut Context<'b>,
}

impl<'a, 'b, T> Blocking<'a, 'b, T> {
    pub(super) const fn new(io: &'a mut T, cx: &'a mut Context<'b>) -> Self {
        Self { io, cx }
    }
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
