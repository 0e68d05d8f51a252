//! The endpoint of a worker with its connections: what the driver drives.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use quinn_proto as proto;
use quinn_proto::{ConnectionHandle, DatagramEvent, VarInt};
use quinn_udp::RecvMeta;

use crate::forwarding::{Forwarded, Forwarder};
use crate::hub::Hub;
use crate::sending::{Outbox, Sent};
use crate::socket::Socket;
use crate::state::{Inner, State};
use crate::timers::Wheel;
use crate::wakers::Wakers;

/// Messages that one receive takes at most. Each can be a train of datagrams (GRO).
const MESSAGES: usize = 16;
/// Longest message: what UDP can carry.
const MESSAGE_LEN: usize = 1 << 16;

/// An endpoint and its connections.
pub(crate) struct Core {
    pub(crate) endpoint: proto::Endpoint,
    /// By the index of their handles.
    connections: Vec<Option<Arc<Inner>>>,
    count: usize,
    pub(crate) timers: Wheel,
    pub(crate) outbox: Outbox,
    pub(crate) incoming: VecDeque<proto::Incoming>,
    pub(crate) accepting: Wakers,
    /// Set when the endpoint takes no more connections.
    pub(crate) closed: Option<(VarInt, Bytes)>,
    forwarder: Option<Forwarder>,
    /// Reused, and only while datagrams are received.
    received: Box<[u8]>,
    /// Connections to look at, by their keys.
    pub(crate) dirty: Vec<usize>,
    /// Reused, and empty between its uses.
    due: Vec<usize>,
}

impl Core {
    pub(crate) fn new(
        endpoint: proto::Endpoint,
        now: Instant,
        forwarder: Option<Forwarder>,
    ) -> Self {
        Self {
            endpoint,
            connections: Vec::new(),
            count: 0,
            timers: Wheel::new(now),
            outbox: Outbox::default(),
            incoming: VecDeque::new(),
            accepting: Wakers::default(),
            closed: None,
            forwarder,
            received: vec![0; MESSAGES * MESSAGE_LEN].into(),
            dirty: Vec::new(),
            due: Vec::new(),
        }
    }

    /// Number of connections that have not ended.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn connections(&self) -> impl Iterator<Item = &Arc<Inner>> {
        self.connections.iter().flatten()
    }

    fn get(&self, key: usize) -> Option<Arc<Inner>> {
        self.connections.get(key)?.clone()
    }

    /// Takes a new connection in.
    pub(crate) fn insert(
        &mut self,
        handle: ConnectionHandle,
        connection: proto::Connection,
        hub: &Arc<Hub>,
    ) -> Arc<Inner> {
        let inner = Arc::new(Inner::new(handle, connection, Arc::clone(hub)));
        if handle.0 >= self.connections.len() {
            self.connections.resize(handle.0 + 1, None);
        }
        self.connections[handle.0] = Some(Arc::clone(&inner));
        self.count += 1;
        hub.schedule(handle.0);
        inner
    }

    /// Receives a batch of datagrams, and passes them on. Ready if there may be more.
    pub(crate) fn receive(
        &mut self,
        cx: &mut Context<'_>,
        socket: &dyn Socket,
        now: Instant,
    ) -> Poll<std::io::Result<()>> {
        let mut received = std::mem::take(&mut self.received);
        let mut meta = [RecvMeta::default(); MESSAGES];
        let result = {
            let mut chunks = received.chunks_mut(MESSAGE_LEN);
            let mut bufs: [IoSliceMut<'_>; MESSAGES] =
                std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
            socket.poll_recv(cx, &mut bufs, &mut meta)
        };
        if let Poll::Ready(Ok(count)) = &result {
            let messages = received.chunks(MESSAGE_LEN).zip(&meta).take(*count);
            for (message, meta) in messages {
                let message = &message[..meta.len];
                for datagram in message.chunks(meta.stride.max(1)) {
                    self.sort(datagram, meta, socket, now);
                }
            }
        }
        self.received = received;
        result.map_ok(drop)
    }

    /// Handles a datagram, or hands it over to the worker that has its connection.
    fn sort(&mut self, datagram: &[u8], meta: &RecvMeta, socket: &dyn Socket, now: Instant) {
        if meta.addr.port() == 0 {
            // Nobody can be answered there, and the system refuses to try.
            return;
        }
        let forwarder = self.forwarder.as_ref();
        if !forwarder.is_some_and(|forwarder| forwarder.forward(datagram, meta)) {
            let datagram = Forwarded::new(datagram, meta);
            self.handle(datagram, socket, now);
        }
    }

    /// Handles a datagram of this worker.
    pub(crate) fn handle(&mut self, datagram: Forwarded, socket: &dyn Socket, now: Instant) {
        let Forwarded {
            contents,
            remote,
            local_ip,
            ecn,
        } = datagram;
        let buffer = self.outbox.buffer();
        let event = self
            .endpoint
            .handle(now, remote, local_ip, ecn, contents, buffer);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(inner) = self.get(handle.0) {
                    let mut state = inner.lock();
                    state.proto.handle_event(event);
                    self.touch(&mut state, handle.0);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.closed.is_none() => {
                self.incoming.push_back(incoming);
                self.accepting.wake();
            }
            // The client asks again, and may reach a server that was started anew.
            Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
            Some(DatagramEvent::Response(transmit)) => self.outbox.respond(&transmit, socket),
            None => {}
        }
    }

    /// Lists a connection as one to look at.
    fn touch(&mut self, state: &mut State, key: usize) {
        if !state.is_scheduled {
            state.is_scheduled = true;
            self.dirty.push(key);
        }
    }

    /// Handles the timers that are due.
    pub(crate) fn expire(&mut self, now: Instant) {
        let mut due = std::mem::take(&mut self.due);
        self.timers.expire(now, |key| due.push(key));
        for key in due.drain(..) {
            let Some(inner) = self.get(key) else { continue };
            let mut state = inner.lock();
            match state.proto.poll_timeout() {
                Some(at) if at <= now => {
                    state.proto.handle_timeout(now);
                    self.touch(&mut state, key);
                }
                // Deadlines that move later are not set anew each time.
                Some(at) => self.timers.set(key, at),
                None => {}
            }
        }
        self.due = due;
    }

    /// Moves events between the endpoint, the connections to look at, and those who use them. Returns how
    /// many tasks were woken.
    pub(crate) fn report(&mut self) -> usize {
        let dirty = std::mem::take(&mut self.dirty);
        let mut woken = 0;
        for &key in &dirty {
            if let Some(inner) = self.get(key) {
                woken += self.exchange(key, &mut inner.lock());
            }
        }
        self.dirty = dirty;
        woken
    }

    fn exchange(&mut self, key: usize, state: &mut State) -> usize {
        while let Some(event) = state.proto.poll_endpoint_events() {
            let is_drained = event.is_drained();
            if is_drained {
                self.remove(key);
            }
            let answer = self.endpoint.handle_event(ConnectionHandle(key), event);
            if let Some(answer) = answer {
                state.proto.handle_event(answer);
                // It has new connection ids to send.
                state.is_scheduled = true;
            }
            if is_drained {
                break;
            }
        }
        state.report()
    }

    fn remove(&mut self, key: usize) {
        self.timers.cancel(key);
        if self.connections[key].take().is_some() {
            self.count -= 1;
        }
    }

    /// Has the connections to look at send what they may. Those that have more to send stay listed.
    /// Returns how many tasks were woken.
    pub(crate) fn transmit(&mut self, socket: &dyn Socket, now: Instant) -> usize {
        let mut dirty = std::mem::take(&mut self.dirty);
        let mut woken = 0;
        dirty.retain(|&key| {
            let Some(inner) = self.get(key) else {
                return false;
            };
            let mut state = inner.lock();
            let sent = self.outbox.transmit(&mut state.proto, socket, now);
            state.is_scheduled = sent != Sent::All;
            woken += self.exchange(key, &mut state);
            self.arm(key, &mut state);
            state.is_scheduled
        });
        debug_assert!(self.dirty.is_empty(), "sending lists no connections");
        self.dirty = dirty;
        woken
    }

    /// Sets the timer of a connection, unless it is looked at before anyhow.
    fn arm(&mut self, key: usize, state: &mut State) {
        match state.proto.poll_timeout() {
            Some(at) if self.timers.get(key).is_none_or(|set| at < set) => self.timers.set(key, at),
            Some(_) => {}
            None => self.timers.cancel(key),
        }
    }

    /// Ends all connections, since there is no driver for them any more.
    pub(crate) fn abandon(&mut self, reason: &proto::ConnectionError) {
        self.closed.get_or_insert_with(Default::default);
        for incoming in self.incoming.drain(..) {
            self.endpoint.ignore(incoming);
        }
        self.accepting.wake();
        for inner in self.connections.drain(..).flatten() {
            inner.lock().terminate(reason.clone());
        }
        self.count = 0;
    }
}
