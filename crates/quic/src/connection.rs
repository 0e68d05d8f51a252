//! A QUIC connection, as its users have it.

use std::any::Any;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use quinn_proto as proto;
use quinn_proto::congestion::Controller;
use quinn_proto::{ConnectionError, ConnectionStats, Dir, StreamId, VarInt};

use crate::recv_stream::RecvStream;
use crate::send_stream::SendStream;
use crate::state::{Handle, Inner};

/// A QUIC connection.
///
/// It is closed with code 0 when the last handle is dropped: all clones of this one, and all streams.
#[derive(Clone, Debug)]
pub struct Connection(pub(crate) Arc<Handle>);

impl Connection {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self(Arc::new(Handle::new(inner)))
    }

    fn look<T>(&self, at: impl FnOnce(&proto::Connection) -> T) -> T {
        at(&self.0.lock().proto)
    }

    /// Accepts the next bidirectional stream of the peer.
    ///
    /// # Errors
    /// The error that ended the connection.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        poll_fn(|cx| self.poll_accept_bi(cx)).await
    }

    /// Accepts the next unidirectional stream of the peer.
    ///
    /// # Errors
    /// The error that ended the connection.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        poll_fn(|cx| self.poll_accept_uni(cx)).await
    }

    /// Opens a bidirectional stream, once the peer allows one more (RFC 9000 §4.6).
    ///
    /// # Errors
    /// The error that ended the connection.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        poll_fn(|cx| self.poll_open_bi(cx)).await
    }

    /// Opens a unidirectional stream, once the peer allows one more (RFC 9000 §4.6).
    ///
    /// # Errors
    /// The error that ended the connection.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        poll_fn(|cx| self.poll_open_uni(cx)).await
    }

    /// Polls for the next bidirectional stream of the peer; see [`Connection::accept_bi`].
    pub fn poll_accept_bi(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(SendStream, RecvStream), ConnectionError>> {
        self.poll_accept(Dir::Bi, cx)
            .map_ok(|(id, early)| self.both(id, early))
    }

    /// Polls for the next unidirectional stream of the peer; see [`Connection::accept_uni`].
    pub fn poll_accept_uni(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RecvStream, ConnectionError>> {
        let accepted = self.poll_accept(Dir::Uni, cx);
        accepted.map_ok(|(id, early)| RecvStream::new(self.clone(), id, early))
    }

    /// Polls for a new bidirectional stream; see [`Connection::open_bi`].
    pub fn poll_open_bi(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(SendStream, RecvStream), ConnectionError>> {
        self.poll_open(Dir::Bi, cx)
            .map_ok(|(id, early)| self.both(id, early))
    }

    /// Polls for a new unidirectional stream; see [`Connection::open_uni`].
    pub fn poll_open_uni(&self, cx: &mut Context<'_>) -> Poll<Result<SendStream, ConnectionError>> {
        let opened = self.poll_open(Dir::Uni, cx);
        opened.map_ok(|(id, early)| SendStream::new(self.clone(), id, early))
    }

    fn both(&self, id: StreamId, early: bool) -> (SendStream, RecvStream) {
        let send = SendStream::new(self.clone(), id, early);
        (send, RecvStream::new(self.clone(), id, early))
    }

    fn poll_accept(
        &self,
        dir: Dir,
        cx: &Context<'_>,
    ) -> Poll<Result<(StreamId, bool), ConnectionError>> {
        let state = &mut *self.0.lock();
        if let Some(id) = state.proto.streams().accept(dir) {
            let early = state.proto.is_handshaking();
            // More streams may be granted to the peer.
            self.0.schedule(state);
            return Poll::Ready(Ok((id, early)));
        }
        if let Some(error) = &state.error {
            return Poll::Ready(Err(error.clone()));
        }
        state.wait_accept(dir, cx);
        Poll::Pending
    }

    fn poll_open(
        &self,
        dir: Dir,
        cx: &Context<'_>,
    ) -> Poll<Result<(StreamId, bool), ConnectionError>> {
        let state = &mut *self.0.lock();
        if let Some(error) = &state.error {
            return Poll::Ready(Err(error.clone()));
        }
        if let Some(id) = state.proto.streams().open(dir) {
            let early = state.proto.side().is_client() && state.proto.is_handshaking();
            return Poll::Ready(Ok((id, early)));
        }
        state.wait_open(dir, cx);
        Poll::Pending
    }

    /// Closes the connection with an application's code and reason (RFC 9000 §10.2). Data that the peer
    /// has not got yet is given up.
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        self.0.close(code, Bytes::copy_from_slice(reason));
    }

    /// Waits until the connection has ended, and returns the reason.
    pub async fn closed(&self) -> ConnectionError {
        poll_fn(|cx| {
            let state = &mut *self.0.lock();
            if let Some(error) = &state.error {
                return Poll::Ready(error.clone());
            }
            state.wait_close(cx);
            Poll::Pending
        })
        .await
    }

    /// Why the connection has ended; `None` while it has not.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.0.lock().error.clone()
    }

    /// The peer's address by now. It changes when the peer migrates (RFC 9000 §9).
    pub fn remote_address(&self) -> SocketAddr {
        self.look(proto::Connection::remote_address)
    }

    /// The address of this host that the connection was made to, where the system reports it.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.look(proto::Connection::local_ip)
    }

    /// The smoothed round-trip time (RFC 9002 §5.3).
    pub fn rtt(&self) -> Duration {
        self.look(proto::Connection::rtt)
    }

    /// Counts since the beginning of the connection.
    pub fn stats(&self) -> ConnectionStats {
        self.look(proto::Connection::stats)
    }

    /// A copy of the congestion controller of the present path.
    pub fn congestion_state(&self) -> Box<dyn Controller> {
        self.look(|connection| connection.congestion_state().clone_box())
    }

    /// The handshake's agreements. With rustls a [`HandshakeData`].
    ///
    /// [`HandshakeData`]: quinn_proto::crypto::rustls::HandshakeData
    pub fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.look(|connection| connection.crypto_session().handshake_data())
    }

    /// The peer's certificates. With rustls a vector of `CertificateDer`.
    pub fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.look(|connection| connection.crypto_session().peer_identity())
    }

    /// Sets the bytes that the peer may have in flight. A larger window is announced at once.
    pub fn set_receive_window(&self, bytes: VarInt) {
        self.change(|connection| connection.set_receive_window(bytes));
    }

    /// Has the connection look again whether it may send. To be called when its congestion window was changed
    /// from outside.
    pub fn wake(&self) {
        self.change(|_| {});
    }

    /// Sets the bytes that may wait for the peer's acknowledgement.
    pub fn set_send_window(&self, bytes: u64) {
        self.change(|connection| connection.set_send_window(bytes));
    }

    /// Sets the priorities of streams, all at once; those that have ended are passed over. A stream whose bytes
    /// wait to be sent sends one packet more by its former priority.
    pub fn set_priorities(&self, priorities: impl IntoIterator<Item = (StreamId, i32)>) {
        let state = &mut *self.0.lock();
        for (stream, priority) in priorities {
            // It fails only if the stream has ended.
            let _ = state.proto.send_stream(stream).set_priority(priority);
        }
    }

    /// Sets how many streams of the kind `dir` the peer may have open.
    pub fn set_max_concurrent_streams(&self, dir: Dir, count: VarInt) {
        self.change(|connection| connection.set_max_concurrent_streams(dir, count));
    }

    fn change(&self, change: impl FnOnce(&mut proto::Connection)) {
        let state = &mut *self.0.lock();
        change(&mut state.proto);
        self.0.schedule(state);
    }

    /// A number that this connection has alone, as long as a handle of it exists.
    pub fn stable_id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}
