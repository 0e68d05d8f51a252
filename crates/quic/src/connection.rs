//! A QUIC connection, as its users have it.

use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::future::poll_fn;
use std::hash::BuildHasherDefault;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use quinn_proto as proto;
use quinn_proto::congestion::Controller;
use quinn_proto::{
    ConnectionError, ConnectionHandle, ConnectionStats, Dir, Event, StreamEvent, StreamId, VarInt,
};
use rustc_hash::FxHasher;

use crate::clock;
use crate::hub::Hub;
use crate::recv_stream::RecvStream;
use crate::send_stream::SendStream;
use crate::wakers::{Slot, Wakers};

/// A QUIC connection.
///
/// It is closed with code 0 when the last handle is dropped: all clones of this one, and all streams.
#[derive(Clone, Debug)]
pub struct Connection(pub(crate) Arc<Handle>);

/// What all users of a connection share; the driver does not.
#[derive(Debug)]
pub(crate) struct Handle(Arc<Inner>);

/// A connection with those who wait for it.
pub(crate) struct Inner {
    key: usize,
    hub: Arc<Hub>,
    state: Mutex<State>,
}

/// The state of a connection.
pub(crate) struct State {
    pub(crate) proto: proto::Connection,
    /// The driver will look at the connection.
    pub(crate) is_scheduled: bool,
    pub(crate) is_connected: bool,
    /// Why it has ended.
    pub(crate) error: Option<ConnectionError>,
    pub(crate) handshaking: Wakers,
    streams: Streams,
    accepting: [Wakers; 2],
    opening: [Wakers; 2],
    closing: Wakers,
}

/// Those who wait for a stream, by its id. Ids are given in order, and no peer can make them collide.
type Streams = HashMap<StreamId, StreamWaiting, BuildHasherDefault<FxHasher>>;

/// Those who wait for one stream.
#[derive(Debug, Default)]
pub(crate) struct StreamWaiting {
    pub(crate) readable: Slot,
    pub(crate) writable: Slot,
    pub(crate) stopped: Slot,
}

impl StreamWaiting {
    const fn is_empty(&self) -> bool {
        self.readable.is_empty() && self.writable.is_empty() && self.stopped.is_empty()
    }
}

impl Inner {
    pub(crate) fn new(handle: ConnectionHandle, proto: proto::Connection, hub: Arc<Hub>) -> Self {
        let state = State {
            proto,
            // `Core::insert` schedules it.
            is_scheduled: true,
            is_connected: false,
            error: None,
            handshaking: Wakers::default(),
            streams: Streams::default(),
            accepting: Default::default(),
            opening: Default::default(),
            closing: Wakers::default(),
        };
        Self {
            key: handle.0,
            hub,
            state: Mutex::new(state),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Has the driver look at the connection.
    pub(crate) fn schedule(&self, state: &mut State) {
        if !std::mem::replace(&mut state.is_scheduled, true) {
            self.hub.schedule(self.key);
        }
    }

    pub(crate) fn close(&self, code: VarInt, reason: Bytes) {
        let state = &mut *self.lock();
        if state.error.is_some() {
            return;
        }
        state.proto.close(clock::now(), code, reason);
        state.terminate(ConnectionError::LocallyClosed);
        self.schedule(state);
    }
}

impl State {
    /// Reports the events of the connection, and returns how many tasks were woken.
    pub(crate) fn report(&mut self) -> usize {
        let mut woken = 0;
        while let Some(event) = self.proto.poll() {
            woken += self.on_event(event);
        }
        woken
    }

    fn on_event(&mut self, event: Event) -> usize {
        match event {
            Event::HandshakeDataReady => self.handshaking.wake(),
            Event::Connected => {
                self.is_connected = true;
                // Streams of early data that the server refused end now.
                let refused = self.proto.side().is_client() && !self.proto.accepted_0rtt();
                let streams = if refused { self.wake_streams() } else { 0 };
                self.handshaking.wake() + streams
            }
            Event::ConnectionLost { reason } => self.terminate(reason),
            Event::Stream(event) => self.on_stream(event),
            Event::DatagramReceived | Event::DatagramsUnblocked => 0,
        }
    }

    fn on_stream(&mut self, event: StreamEvent) -> usize {
        let (id, wake): (_, fn(&mut StreamWaiting) -> usize) = match event {
            StreamEvent::Opened { dir } => return self.accepting[dir as usize].wake(),
            StreamEvent::Available { dir } => return self.opening[dir as usize].wake(),
            StreamEvent::Readable { id } => (id, |stream| stream.readable.wake()),
            StreamEvent::Writable { id } => (id, |stream| stream.writable.wake()),
            StreamEvent::Finished { id } => (id, |stream| stream.stopped.wake()),
            StreamEvent::Stopped { id, .. } => {
                (id, |stream| stream.stopped.wake() + stream.writable.wake())
            }
        };
        self.change_waiting(id, wake).unwrap_or(0)
    }

    /// Changes who waits for stream `id`, if anybody does.
    pub(crate) fn change_waiting<T>(
        &mut self,
        id: StreamId,
        change: impl FnOnce(&mut StreamWaiting) -> T,
    ) -> Option<T> {
        let Entry::Occupied(mut waiting) = self.streams.entry(id) else {
            return None;
        };
        let result = change(waiting.get_mut());
        if waiting.get().is_empty() {
            waiting.remove();
        }
        Some(result)
    }

    /// Notes why the connection has ended, and wakes all that wait for it. Returns how many.
    pub(crate) fn terminate(&mut self, reason: ConnectionError) -> usize {
        self.error.get_or_insert(reason);
        let dirs = self.accepting.iter_mut().chain(&mut self.opening);
        let woken: usize = dirs.map(Wakers::wake).sum();
        woken + self.handshaking.wake() + self.closing.wake() + self.wake_streams()
    }

    fn wake_streams(&mut self) -> usize {
        let streams = self.streams.values_mut();
        let woken =
            streams.map(|one| one.readable.wake() + one.writable.wake() + one.stopped.wake());
        woken.sum()
    }

    /// Those who wait for stream `id`.
    pub(crate) fn waiting(&mut self, id: StreamId) -> &mut StreamWaiting {
        self.streams.entry(id).or_default()
    }

    /// Whether streams that were opened as early data are of use: a server may have refused them.
    pub(crate) fn has_early_data(&self) -> bool {
        self.proto.is_handshaking() || self.proto.accepted_0rtt() || self.proto.side().is_server()
    }
}

impl Deref for Handle {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close(VarInt::from_u32(0), Bytes::new());
    }
}

impl Connection {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self(Arc::new(Handle(inner)))
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
        state.accepting[dir as usize].add(cx);
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
        state.opening[dir as usize].add(cx);
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
            state.closing.add(cx);
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

    /// What the handshake has agreed on. With rustls a [`HandshakeData`].
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

    /// Sets the bytes that may wait for the peer's acknowledgement.
    pub fn set_send_window(&self, bytes: u64) {
        self.change(|connection| connection.set_send_window(bytes));
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

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
