//! The session over a connection's socket: of TLS, or none where HTTP is in the clear.

use std::io::{self, BufRead as _, IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::tls_io::Blocking;

/// The session of a connection: bytes of HTTP on the one side, those of the socket on the other.
// A box would cost each call an indirection, and there is one session a connection.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub(super) enum Session {
    Tls(ServerConnection),
    Clear(Clear),
}

/// Bytes in the clear, gathered as those of TLS are.
#[derive(Debug, Default)]
pub(super) struct Clear {
    /// Bytes that have arrived, of which so many were taken.
    input: Vec<u8>,
    taken: usize,
    /// The client sends no more.
    is_over: bool,
    /// Bytes for the client, of which so many were written.
    output: Vec<u8>,
    written: usize,
    /// Most bytes that wait for the socket.
    limit: usize,
}

impl Clear {
    /// A session of a client that has begun with these bytes.
    pub(super) fn beginning(first: Vec<u8>) -> Self {
        Self {
            input: first,
            limit: usize::MAX,
            ..Self::default()
        }
    }

    fn poll_receive(
        &mut self,
        io: &mut (impl AsyncRead + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<bool>> {
        let mut buffer = [const { MaybeUninit::uninit() }; READ];
        let mut buffer = ReadBuf::uninit(&mut buffer);
        ready!(Pin::new(io).poll_read(cx, &mut buffer))?;
        self.input.extend_from_slice(buffer.filled());
        self.is_over |= buffer.filled().is_empty();
        Poll::Ready(Ok(!self.is_over))
    }

    fn arrived(&self) -> io::Result<&[u8]> {
        match &self.input[self.taken..] {
            [] if !self.is_over => Err(io::ErrorKind::WouldBlock.into()),
            arrived => Ok(arrived),
        }
    }

    fn take(&mut self, count: usize) {
        self.taken += count;
        if self.taken == self.input.len() {
            // An idle connection holds no memory for them.
            (self.input, self.taken) = (Vec::new(), 0);
        }
    }

    /// Takes as many bytes as there is room for.
    fn accept(&mut self, bufs: &[IoSlice<'_>]) -> usize {
        let mut room = self.limit - (self.output.len() - self.written);
        let before = room;
        for buf in bufs {
            let count = buf.len().min(room);
            self.output.extend_from_slice(&buf[..count]);
            room -= count;
        }
        before - room
    }

    fn poll_send(
        &mut self,
        io: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(io).poll_write(cx, &self.output[self.written..]))?;
        self.written += count;
        if self.written == self.output.len() {
            (self.output, self.written) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(count))
    }
}

impl Session {
    /// Bounds the bytes that wait for the socket.
    pub(super) fn set_buffer_limit(&mut self, bytes: usize) {
        match self {
            Self::Tls(tls) => tls.set_buffer_limit(Some(bytes)),
            Self::Clear(clear) => clear.limit = bytes,
        }
    }

    /// Bytes of HTTP that have arrived; none of them at the connection's end.
    ///
    /// # Errors
    /// `WouldBlock` where the socket has to be read first.
    pub(super) fn arrived(&mut self) -> io::Result<&[u8]> {
        match self {
            Self::Tls(tls) => match tls.reader().into_first_chunk() {
                // The client has gone without saying so (`close_notify`). HTTP itself shows whether
                // anything is missing (RFC 9112 §9.8).
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(&[]),
                arrived => arrived,
            },
            Self::Clear(clear) => clear.arrived(),
        }
    }

    /// Takes bytes that have arrived.
    pub(super) fn take(&mut self, count: usize) {
        match self {
            Self::Tls(tls) => tls.reader().consume(count),
            Self::Clear(clear) => clear.take(count),
        }
    }

    /// Takes as many bytes of HTTP for the client as there is room for.
    ///
    /// # Errors
    /// Those of TLS.
    pub(super) fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tls(tls) => tls.writer().write_vectored(bufs),
            Self::Clear(clear) => Ok(clear.accept(bufs)),
        }
    }

    /// Takes all of these bytes.
    ///
    /// # Errors
    /// Those of TLS, and where there is no room for them.
    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tls(tls) => tls.writer().write_all(bytes),
            Self::Clear(clear) => match clear.accept(&[IoSlice::new(bytes)]) {
                count if count == bytes.len() => Ok(()),
                _ => Err(io::ErrorKind::WriteZero.into()),
            },
        }
    }

    /// Whether bytes wait for the socket.
    pub(super) fn has_output(&self) -> bool {
        match self {
            Self::Tls(tls) => tls.wants_write(),
            Self::Clear(clear) => !clear.output.is_empty(),
        }
    }

    /// Writes once to the socket.
    pub(super) fn poll_send(
        &mut self,
        io: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Tls(tls) => blocked(tls.write_tls(&mut Blocking::new(io, cx))),
            Self::Clear(clear) => clear.poll_send(io, cx),
        }
    }

    /// Reads once from the socket; `false` at its end. The bytes of TLS have yet to be understood, by
    /// [`Session::understand`].
    pub(super) fn poll_receive(
        &mut self,
        io: &mut (impl AsyncRead + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<bool>> {
        match self {
            Self::Tls(tls) => {
                let read = ready!(blocked(tls.read_tls(&mut Blocking::new(io, cx))));
                Poll::Ready(read.map(|count| count > 0))
            }
            Self::Clear(clear) => clear.poll_receive(io, cx),
        }
    }

    /// Decrypts the bytes that were read.
    ///
    /// # Errors
    /// Those of TLS. An alert then waits for the socket.
    pub(super) fn understand(&mut self) -> Result<(), rustls::Error> {
        match self {
            Self::Tls(tls) => tls.process_new_packets().map(drop),
            Self::Clear(_) => Ok(()),
        }
    }

    /// Has the client know that nothing follows.
    pub(super) fn close(&mut self) {
        if let Self::Tls(tls) = self {
            tls.send_close_notify();
        }
    }
}

fn blocked<R>(result: io::Result<R>) -> Poll<io::Result<R>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

/// Bytes in the clear that are read at once.
const READ: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn clear(first: &[u8]) -> Session {
        let mut session = Session::Clear(Clear::beginning(first.to_vec()));
        session.set_buffer_limit(8);
        session
    }

    #[test]
    fn bytes_in_the_clear_come_as_they_were_sent() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut session = clear(b"GET ");
        assert_eq!(session.arrived().unwrap(), b"GET ");
        session.take(3);
        assert_eq!(session.arrived().unwrap(), b" ");
        session.take(1);
        let error = session.arrived().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let mut rest: &[u8] = b"/ HTTP/1.1";
        assert!(session.poll_receive(&mut rest, &mut cx).is_ready());
        assert_eq!(session.arrived().unwrap(), b"/ HTTP/1.1");
        session.take(10);
        let ended = session.poll_receive(&mut rest, &mut cx);
        assert!(matches!(ended, Poll::Ready(Ok(false))));
        assert_eq!(session.arrived().unwrap(), b"");
    }

    #[test]
    fn as_many_bytes_wait_as_there_is_room_for() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut session = clear(b"");
        assert!(!session.has_output());
        let bufs = [IoSlice::new(b"01234"), IoSlice::new(b"56789")];
        assert_eq!(session.write_vectored(&bufs).unwrap(), 8);
        assert!(session.write_all(b"8").is_err());
        let mut sent = Vec::new();
        while session.has_output() {
            assert!(session.poll_send(&mut sent, &mut cx).is_ready());
        }
        assert_eq!(sent, b"01234567");
        session.write_all(b"89").unwrap();
        assert!(session.poll_send(&mut sent, &mut cx).is_ready());
        assert_eq!(sent, b"0123456789");
    }
}
