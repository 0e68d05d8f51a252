//! A QUIC connection as `h3` sees it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::stream::{self, Stream};
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming};
use quinn::{ConnectionError, VarInt};

use super::error;
use super::guard::FrameGuard;
use super::payload::Payload;
use super::stream::{BidiStream, FinishObserver, RecvStream, SendStream};

type Incoming<T> = Pin<Box<dyn Stream<Item = Result<T, ConnectionError>> + Send + Sync>>;
type Pair = (quinn::SendStream, quinn::RecvStream);

/// A QUIC connection as `h3` sees it, on a server or a client.
pub struct Connection {
    opener: OpenStreams,
    incoming_bidi: Incoming<Pair>,
    incoming_uni: Incoming<quinn::RecvStream>,
    observer: Option<Arc<dyn FinishObserver>>,
}

impl Connection {
    /// Makes `connection` usable by `h3`.
    pub fn new(connection: quinn::Connection) -> Self {
        // quinn's futures forget their wakers when dropped, so each is kept in a stream
        // that lives as long as the connection.
        let bidi = stream::unfold(connection.clone(), |connection| async {
            Some((connection.accept_bi().await, connection))
        });
        let uni = stream::unfold(connection.clone(), |connection| async {
            Some((connection.accept_uni().await, connection))
        });
        Self {
            incoming_bidi: Box::pin(bidi),
            incoming_uni: Box::pin(uni),
            opener: OpenStreams::new(connection),
            observer: None,
        }
    }

    /// Has `observer` told of every request stream that is finished.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn FinishObserver>) -> Self {
        self.observer = Some(observer);
        self
    }
}

impl quic::Connection<Payload> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = OpenStreams;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RecvStream, ConnectionErrorIncoming>> {
        let stream = ready!(poll_incoming(&mut self.incoming_uni, cx))?;
        let guard = FrameGuard::unidirectional();
        Poll::Ready(Ok(RecvStream::new(stream, guard)))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream, ConnectionErrorIncoming>> {
        let (send, recv) = ready!(poll_incoming(&mut self.incoming_bidi, cx))?;
        Poll::Ready(Ok(BidiStream::new(
            SendStream::new(send, self.observer.clone()),
            RecvStream::new(recv, FrameGuard::request()),
        )))
    }

    fn opener(&self) -> OpenStreams {
        self.opener.clone()
    }
}

impl quic::OpenStreams<Payload> for Connection {
    type BidiStream = BidiStream;
    type SendStream = SendStream;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream, StreamErrorIncoming>> {
        self.opener.poll_open_bidi(cx)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream, StreamErrorIncoming>> {
        self.opener.poll_open_send(cx)
    }

    fn close(&mut self, code: h3::error::Code, reason: &[u8]) {
        self.opener.close(code, reason);
    }
}

/// Opens streams on a connection.
pub struct OpenStreams {
    connection: quinn::Connection,
    opening_bidi: Option<Incoming<Pair>>,
    opening_uni: Option<Incoming<quinn::SendStream>>,
}

impl OpenStreams {
    fn new(connection: quinn::Connection) -> Self {
        Self {
            connection,
            opening_bidi: None,
            opening_uni: None,
        }
    }
}

impl Clone for OpenStreams {
    fn clone(&self) -> Self {
        Self::new(self.connection.clone())
    }
}

impl quic::OpenStreams<Payload> for OpenStreams {
    type BidiStream = BidiStream;
    type SendStream = SendStream;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream, StreamErrorIncoming>> {
        let opening = self.opening_bidi.get_or_insert_with(|| {
            Box::pin(stream::unfold(self.connection.clone(), |c| async {
                Some((c.open_bi().await, c))
            }))
        });
        let (send, recv) = ready!(poll_incoming(opening, cx)).map_err(on_stream)?;
        Poll::Ready(Ok(BidiStream::new(
            SendStream::new(send, None),
            RecvStream::new(recv, FrameGuard::request()),
        )))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream, StreamErrorIncoming>> {
        let opening = self.opening_uni.get_or_insert_with(|| {
            Box::pin(stream::unfold(self.connection.clone(), |c| async {
                Some((c.open_uni().await, c))
            }))
        });
        let stream = ready!(poll_incoming(opening, cx)).map_err(on_stream)?;
        Poll::Ready(Ok(SendStream::new(stream, None)))
    }

    fn close(&mut self, code: h3::error::Code, reason: &[u8]) {
        let code = VarInt::from_u64(code.value()).unwrap_or(VarInt::MAX);
        self.connection.close(code, reason);
    }
}

fn poll_incoming<T>(
    incoming: &mut Incoming<T>,
    cx: &mut Context<'_>,
) -> Poll<Result<T, ConnectionErrorIncoming>> {
    match ready!(incoming.as_mut().poll_next(cx)) {
        Some(Ok(stream)) => Poll::Ready(Ok(stream)),
        Some(Err(error)) => Poll::Ready(Err(error::connection(error))),
        // Unfolding never ends; kept total so that no peer can reach a panic.
        None => Poll::Ready(Err(ConnectionErrorIncoming::InternalError(
            "no more streams".to_owned(),
        ))),
    }
}

fn on_stream(connection_error: ConnectionErrorIncoming) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error }
}
