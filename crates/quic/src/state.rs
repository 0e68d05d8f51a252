//! The state of a connection, which its driver and its users share.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::BuildHasherDefault;
use std::ops::Deref;
use std::sync::Arc;
use std::task::Context;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use quinn_proto as proto;
use quinn_proto::{ConnectionError, ConnectionHandle, Dir, Event, StreamEvent, StreamId, VarInt};
use rustc_hash::FxHasher;

use crate::clock;
use crate::hub::Hub;
use crate::wakers::{Slot, Wakers};

/// The users of a connection, who all share this one; the driver has the [`Inner`] alone.
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
    /// The code with which the peer has stopped the stream, for who waits for that.
    pub(crate) code: Option<VarInt>,
    /// We have finished the stream, and the peer has not acknowledged all of it.
    pub(crate) is_finished: bool,
}

impl StreamWaiting {
    const fn is_empty(&self) -> bool {
        let nobody =
            self.readable.is_empty() && self.writable.is_empty() && self.stopped.is_empty();
        nobody && self.code.is_none() && !self.is_finished
    }

    fn wake(&mut self) -> usize {
        self.readable.wake() + self.writable.wake() + self.stopped.wake()
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
            Event::Stream(event) => self.on_stream(&event),
            Event::DatagramReceived | Event::DatagramsUnblocked => 0,
        }
    }

    fn on_stream(&mut self, event: &StreamEvent) -> usize {
        let (id, wake): (_, fn(&mut StreamWaiting) -> usize) = match *event {
            StreamEvent::Opened { dir } => return self.accepting[dir as usize].wake(),
            StreamEvent::Available { dir } => return self.opening[dir as usize].wake(),
            StreamEvent::Readable { id } => (id, |stream| stream.readable.wake()),
            StreamEvent::Writable { id } => (id, |stream| stream.writable.wake()),
            StreamEvent::Finished { id } => (id, |stream| {
                stream.is_finished = false;
                stream.stopped.wake()
            }),
            StreamEvent::Stopped { id, error_code } => {
                self.on_stopped(id, error_code);
                (id, |stream| stream.stopped.wake() + stream.writable.wake())
            }
        };
        self.change_waiting(id, wake).unwrap_or(0)
    }

    /// Resets a stream that the peer has stopped, if nobody writes to it any more. Otherwise who writes
    /// gets the code, and then the stream is reset (RFC 9000 §3.5).
    fn on_stopped(&mut self, id: StreamId, code: VarInt) {
        let finished = self.change_waiting(id, |stream| {
            // quinn-proto forgets it with the stream.
            stream.code = (!stream.stopped.is_empty()).then_some(code);
            std::mem::take(&mut stream.is_finished)
        });
        if finished == Some(true) && self.proto.send_stream(id).reset(code).is_ok() {
            self.is_scheduled = true;
        }
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

    /// Wakes all that wait for the streams so far, of which none is left.
    fn wake_streams(&mut self) -> usize {
        self.streams
            .drain()
            .map(|(_, mut stream)| stream.wake())
            .sum()
    }

    /// Those who wait for stream `id`.
    pub(crate) fn waiting(&mut self, id: StreamId) -> &mut StreamWaiting {
        self.streams.entry(id).or_default()
    }

    /// Has the task of `cx` woken when the peer opens a stream.
    pub(crate) fn wait_accept(&mut self, dir: Dir, cx: &Context<'_>) {
        self.accepting[dir as usize].add(cx);
    }

    /// Has the task of `cx` woken when the peer allows one more stream.
    pub(crate) fn wait_open(&mut self, dir: Dir, cx: &Context<'_>) {
        self.opening[dir as usize].add(cx);
    }

    /// Has the task of `cx` woken when the connection ends.
    pub(crate) fn wait_close(&mut self, cx: &Context<'_>) {
        self.closing.add(cx);
    }

    /// Whether streams that were opened as early data are of use: a server may have refused them.
    pub(crate) fn has_early_data(&self) -> bool {
        self.proto.is_handshaking() || self.proto.accepted_0rtt() || self.proto.side().is_server()
    }
}

impl Handle {
    pub(crate) const fn new(inner: Arc<Inner>) -> Self {
        Self(inner)
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

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
