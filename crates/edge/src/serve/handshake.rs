//! TLS handshakes over TCP.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::{ProtocolVersion, ServerConfig, ServerConnection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::tls_io::Blocking;
use crate::behind::proxy_protocol;

/// A handshake under way.
#[derive(Debug)]
pub(super) struct Handshake<T> {
    io: T,
    tls: ServerConnection,
    /// The client's first message was taken.
    met: bool,
}

/// How a client begins.
pub(super) enum Beginning {
    /// Perhaps with TLS.
    Tls,
    /// With a method of HTTP in the clear: these bytes.
    Http(Vec<u8>),
    /// As a balancer, with a header of the PROXY protocol.
    Header,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Handshake<T> {
    /// A handshake of the client at the other end of `io`.
    ///
    /// # Errors
    /// When the configuration is for another protocol.
    pub(super) fn new(io: T, config: Arc<ServerConfig>) -> io::Result<Self> {
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Self {
            io,
            tls,
            met: false,
        })
    }

    /// Takes the client's first bytes, and computes nothing with them. To be called first.
    ///
    /// # Errors
    /// Those of reading, and `UnexpectedEof` where the client sends nothing.
    pub(super) fn poll_begin(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Beginning>> {
        let mut buffer = [0; FIRST];
        let mut buffer = ReadBuf::new(&mut buffer);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut buffer))?;
        let mut first = buffer.filled();
        // No record of TLS begins with a letter (RFC 8446 §5.1).
        match first.first() {
            None => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            Some(_) if proxy_protocol::begins(first) => return Poll::Ready(Ok(Beginning::Header)),
            Some(byte) if byte.is_ascii_alphabetic() => {
                return Poll::Ready(Ok(Beginning::Http(first.to_vec())));
            }
            Some(_) => {}
        }
        while !first.is_empty() {
            self.tls.read_tls(&mut first)?;
        }
        Poll::Ready(Ok(Beginning::Tls))
    }

    /// Goes on until the handshake is complete. The session tickets then wait for the first flush, so that
    /// they share a packet with the first response. Before anything is sent, `meet` is called once, when the
    /// client's first message is known.
    ///
    /// # Errors
    /// Those of reading and writing, of TLS, and `UnexpectedEof` where the client gives up.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut meet: impl FnMut(),
    ) -> Poll<io::Result<()>> {
        loop {
            self.process(cx)?;
            if self.tls.wants_write() && !std::mem::replace(&mut self.met, true) {
                meet();
            }
            let is_over = !self.tls.is_handshaking();
            // With TLS 1.2 the client waits for the last message of the server.
            if is_over && self.tls.protocol_version() != Some(ProtocolVersion::TLSv1_2) {
                return Poll::Ready(Ok(()));
            }
            while self.tls.wants_write() {
                let mut socket = Blocking::new(&mut self.io, cx);
                ready!(pending(self.tls.write_tls(&mut socket)))?;
            }
            if is_over {
                return Poll::Ready(Ok(()));
            }
            let mut socket = Blocking::new(&mut self.io, cx);
            if ready!(pending(self.tls.read_tls(&mut socket)))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    fn process(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Err(error) = self.tls.process_new_packets() else {
            return Ok(());
        };
        // The alert names the reason to the client; whether it gets it is all the same.
        let _ = self.tls.write_tls(&mut Blocking::new(&mut self.io, cx));
        Err(io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// The socket, of a client without TLS.
    pub(super) fn into_socket(self) -> T {
        self.io
    }

    /// The socket and the session, when the handshake is complete.
    pub(super) fn into_parts(self) -> (T, ServerConnection) {
        (self.io, self.tls)
    }
}

fn pending<R>(result: io::Result<R>) -> Poll<io::Result<R>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

/// Bytes that are read at first: a ClientHello with a key share of X25519MLKEM768 has some 1,700.
pub(super) const FIRST: usize = 4096;
