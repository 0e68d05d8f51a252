//! The state that the streams of a connection share.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use futures_util::task::AtomicWaker;
use hikyaku_h3::connection::{Connection, End};
use hikyaku_h3::error::{Code, Error};
use hikyaku_quic::Backlog;
use hikyaku_quic::proto::{StreamId, VarInt};
use parking_lot::{Mutex, MutexGuard};

use crate::order::Order;

/// A connection, shared by its driver and its streams.
pub(crate) struct Shared {
    pub(crate) quic: hikyaku_quic::Connection,
    http: Mutex<State>,
    /// Of a server's responses.
    order: Mutex<Order>,
    /// Bytes that QUIC holds at most.
    max_backlog: u64,
    /// Wakes the driver of unidirectional streams.
    pub(crate) driver: AtomicWaker,
    /// Whether the server takes no more requests.
    pub(crate) going_away: AtomicBool,
    /// Readers whose sections wait for the peer's QPACK encoder, by their streams.
    blocked: Mutex<HashMap<u64, Waker>>,
}

struct State {
    http: Connection,
    /// Room for the heads of the next responses, which share its allocation.
    heads: BytesMut,
}

impl Shared {
    /// `max_backlog` is in bytes.
    pub(crate) fn new(
        quic: hikyaku_quic::Connection,
        http: Connection,
        max_backlog: u64,
    ) -> Arc<Self> {
        Arc::new(Self {
            quic,
            http: Mutex::new(State {
                http,
                heads: BytesMut::new(),
            }),
            order: Mutex::new(Order::new()),
            max_backlog,
            driver: AtomicWaker::new(),
            going_away: AtomicBool::new(false),
            blocked: Mutex::default(),
        })
    }

    /// Locks the engine. The driver then sends the bytes that the engine has for it.
    pub(crate) fn http(&self) -> Engine<'_> {
        Engine {
            state: self.http.lock(),
            driver: &self.driver,
        }
    }

    /// Changes the order of responses. QUIC then has their levels.
    pub(crate) fn reorder(&self, change: impl FnOnce(&mut Order)) {
        let order = &mut *self.order.lock();
        change(order);
        let mut changes = order.changes().peekable();
        if changes.peek().is_some() {
            let of = |(stream, level)| (stream_id(stream), level);
            self.quic.set_priorities(changes.map(of));
        }
    }

    /// The room for a response.
    pub(crate) fn backlog(&self, stream: u64) -> Backlog {
        let headroom = self.order.lock().headroom(stream);
        Backlog {
            max: self.max_backlog,
            headroom: headroom.own,
            most_headroom: headroom.most,
        }
    }

    /// Closes the connection after an error of the engine.
    pub(crate) fn close(&self, code: Code, reason: &str) {
        self.quic.close(varint(code.value()), reason.as_bytes());
    }

    /// Closes the connection if the result is an error of the whole connection.
    pub(crate) fn check<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result
            && error.is_of_connection()
        {
            self.close(error.code(), error.reason());
        }
        result
    }

    /// Registers a waker for the time when the section of `stream` can be decoded.
    pub(crate) fn wait_unblocked(&self, stream: u64, waker: &Waker) {
        self.blocked.lock().insert(stream, waker.clone());
    }

    /// Wakes the reader of `stream`.
    pub(crate) fn unblocked(&self, stream: u64) {
        let waker = self.blocked.lock().remove(&stream);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Notes that an incomplete message of `stream` is not read any more.
    pub(crate) fn abandon(&self, stream: u64) {
        self.blocked.lock().remove(&stream);
        let abandoned = self.http().abandon(stream);
        // An error closes the connection, and no caller is here to get it.
        let _ = self.check(abandoned);
    }
}

/// The locked engine. When dropped, it wakes the driver if there is something to send.
pub(crate) struct Engine<'a> {
    state: MutexGuard<'a, State>,
    driver: &'a AtomicWaker,
}

impl Engine<'_> {
    /// Returns the bytes that `write` appends.
    pub(crate) fn head<E>(
        &mut self,
        write: impl FnOnce(&mut Connection, &mut BytesMut) -> Result<(), E>,
    ) -> Result<Bytes, E> {
        let State { http, heads } = &mut *self.state;
        if heads.capacity() < MIN_HEAD {
            heads.reserve(HEADS);
        }
        // Nothing is appended where it fails.
        write(http, heads)?;
        Ok(heads.split().freeze())
    }

    /// Gives memory back that an idle connection does not need.
    fn release(&mut self) {
        if self.state.http.open_requests() == 0 {
            self.state.heads = BytesMut::new();
        }
    }
}

impl Deref for Engine<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.state.http
    }
}

impl DerefMut for Engine<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.state.http
    }
}

impl Drop for Engine<'_> {
    fn drop(&mut self) {
        if self.state.http.has_output() {
            self.driver.wake();
        }
    }
}

/// A request with its response. Both sides share it, and it ends when both are dropped.
pub(crate) struct Exchange {
    shared: Arc<Shared>,
    stream: u64,
    complete: AtomicBool,
    cancelled: AtomicBool,
}

impl Exchange {
    pub(crate) fn new(shared: Arc<Shared>, stream: u64) -> Arc<Self> {
        Arc::new(Self {
            shared,
            stream,
            complete: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
        })
    }

    /// Notes that the response was sent, or received, to its end.
    pub(crate) fn complete(&self) {
        self.complete.store(true, Ordering::Relaxed);
    }

    /// Notes that the peer gave the request up, or broke the protocol.
    pub(crate) fn cancelled(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let end = match (self.complete.get_mut(), self.cancelled.get_mut()) {
            (true, _) => End::Complete,
            (false, true) => End::Cancelled,
            (false, false) => End::Failed,
        };
        let mut http = self.shared.http();
        let ended = http.end(self.stream, end, Instant::now());
        http.release();
        drop(http);
        // An error closes the connection, and no caller is here to get it.
        let _ = self.shared.check(ended);
    }
}

/// Memory that is taken for heads at once, in bytes: for some twenty.
const HEADS: usize = 4096;

/// Room for a head of usual size, in bytes. A larger one moves to more memory while it is written.
const MIN_HEAD: usize = 256;

/// A stream by its number.
fn stream_id(number: u64) -> StreamId {
    varint(number).into()
}

/// A code as an integer of QUIC; all codes of HTTP/3 fit.
pub(crate) fn varint(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

/// A stream's identifier as a number (RFC 9000 §2.1).
pub(crate) fn number(id: StreamId) -> u64 {
    VarInt::from(id).into_inner()
}
