//! Connections that begin.

use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use quinn_proto as proto;
use quinn_proto::{ConnectionError, ConnectionId, ServerConfig};

use crate::clock;
use crate::connection::Connection;
use crate::hub::Hub;

/// A client that wants to connect. One that is dropped is refused.
pub struct Incoming {
    /// `None` once it was decided about.
    incoming: Option<proto::Incoming>,
    about: About,
    hub: Arc<Hub>,
}

/// The facts about a client that wants to connect.
#[derive(Clone, Copy, Debug)]
struct About {
    remote: SocketAddr,
    local_ip: Option<IpAddr>,
    validated: bool,
    may_retry: bool,
    id: ConnectionId,
}

impl Incoming {
    pub(crate) fn new(incoming: proto::Incoming, hub: Arc<Hub>) -> Self {
        let about = About {
            remote: incoming.remote_address(),
            local_ip: incoming.local_ip(),
            validated: incoming.remote_address_validated(),
            may_retry: incoming.may_retry(),
            id: *incoming.orig_dst_cid(),
        };
        Self {
            incoming: Some(incoming),
            about,
            hub,
        }
    }

    /// Begins the handshake, with the endpoint's settings.
    ///
    /// # Errors
    /// When the first packet is invalid, or came too long ago, or the endpoint is closed.
    pub fn accept(self) -> Result<Connecting, ConnectionError> {
        self.accept_as(None)
    }

    /// Begins the handshake, with settings of its own.
    ///
    /// # Errors
    /// When the first packet is invalid, or came too long ago, or the endpoint is closed.
    pub fn accept_with(self, config: Arc<ServerConfig>) -> Result<Connecting, ConnectionError> {
        self.accept_as(Some(config))
    }

    fn accept_as(
        mut self,
        config: Option<Arc<ServerConfig>>,
    ) -> Result<Connecting, ConnectionError> {
        let Some(incoming) = self.incoming.take() else {
            return Err(ConnectionError::LocallyClosed);
        };
        let core = &mut *self.hub.core.lock();
        if core.closed.is_some() {
            // Nobody would end the connection any more.
            core.endpoint.ignore(incoming);
            return Err(ConnectionError::LocallyClosed);
        }
        let now = clock::now();
        let buffer = core.outbox.buffer();
        match core.endpoint.accept(incoming, now, buffer, config) {
            Ok((handle, connection)) => {
                let inner = core.insert(handle, connection, &self.hub);
                Ok(Connecting::new(Connection::new(inner)))
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    core.outbox.respond(&transmit, &*self.hub.socket);
                }
                Err(error.cause)
            }
        }
    }

    /// Answers that the connection is refused.
    pub fn refuse(mut self) {
        self.refuse_now();
    }

    fn refuse_now(&mut self) {
        if let Some(incoming) = self.incoming.take() {
            let core = &mut *self.hub.core.lock();
            let transmit = core.endpoint.refuse(incoming, core.outbox.buffer());
            core.outbox.respond(&transmit, &*self.hub.socket);
        }
    }

    /// Asks the client to prove its address (RFC 9000 §8.1.2).
    ///
    /// # Errors
    /// The client itself, where [`Incoming::may_retry`] is false.
    #[allow(
        clippy::result_large_err,
        reason = "a box would cost an allocation for each retry"
    )]
    pub fn retry(mut self) -> Result<(), Self> {
        let Some(incoming) = self.incoming.take_if(|_| self.about.may_retry) else {
            return Err(self);
        };
        let mut core = self.hub.core.lock();
        let buffers = &mut *core;
        let result = buffers.endpoint.retry(incoming, buffers.outbox.buffer());
        match result {
            Ok(transmit) => {
                buffers.outbox.respond(&transmit, &*self.hub.socket);
                Ok(())
            }
            Err(error) => {
                drop(core);
                self.incoming = Some(error.into_incoming());
                Err(self)
            }
        }
    }

    /// Drops the attempt without an answer.
    pub fn ignore(mut self) {
        if let Some(incoming) = self.incoming.take() {
            self.hub.core.lock().endpoint.ignore(incoming);
        }
    }

    /// The client's address.
    pub const fn remote_address(&self) -> SocketAddr {
        self.about.remote
    }

    /// The address of this host that the client sent to, where the system reports it.
    pub const fn local_ip(&self) -> Option<IpAddr> {
        self.about.local_ip
    }

    /// Whether the client has proved its address by a token (RFC 9000 §8.1).
    pub const fn remote_address_validated(&self) -> bool {
        self.about.validated
    }

    /// Whether the client may be asked to prove its address.
    pub const fn may_retry(&self) -> bool {
        self.about.may_retry
    }

    /// The id that the client has drawn for its first packet.
    pub const fn orig_dst_cid(&self) -> ConnectionId {
        self.about.id
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.refuse_now();
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.about.fmt(f)
    }
}

/// A connection whose handshake is under way. It resolves when that is complete.
#[derive(Debug)]
#[must_use = "a connection that is dropped is closed"]
pub struct Connecting(Option<Connection>);

impl Connecting {
    pub(crate) const fn new(connection: Connection) -> Self {
        Self(Some(connection))
    }

    /// Waits for what the handshake agrees on first, such as the server's name. With rustls a
    /// [`HandshakeData`].
    ///
    /// [`HandshakeData`]: quinn_proto::crypto::rustls::HandshakeData
    ///
    /// # Errors
    /// The error that ended the handshake.
    pub async fn handshake_data(&mut self) -> Result<Box<dyn Any>, ConnectionError> {
        poll_fn(|cx| {
            let Some(connection) = &self.0 else {
                return Poll::Ready(Err(ConnectionError::LocallyClosed));
            };
            let state = &mut *connection.0.lock();
            if let Some(data) = state.proto.crypto_session().handshake_data() {
                return Poll::Ready(Ok(data));
            }
            if let Some(error) = &state.error {
                return Poll::Ready(Err(error.clone()));
            }
            state.handshaking.add(cx);
            Poll::Pending
        })
        .await
    }

    /// Uses the connection before the handshake is complete: a server always can, and a client where it
    /// resumes a session. Others may replay early data (RFC 9001 §9.2).
    ///
    /// # Errors
    /// The handshake itself, where there is no early data.
    pub fn into_0rtt(mut self) -> Result<(Connection, ZeroRttAccepted), Self> {
        let can = |connection: &mut Connection| {
            let state = connection.0.lock();
            state.proto.side().is_server() || state.proto.has_0rtt()
        };
        let Some(connection) = self.0.take_if(can) else {
            return Err(self);
        };
        Ok((connection.clone(), ZeroRttAccepted(connection)))
    }

    /// The peer's address; `None` once the handshake is complete.
    pub fn remote_address(&self) -> Option<SocketAddr> {
        Some(self.0.as_ref()?.remote_address())
    }

    /// The address of this host, where the system reports it.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.0.as_ref()?.local_ip()
    }
}

impl Future for Connecting {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(connection) = &self.0 else {
            return Poll::Ready(Err(ConnectionError::LocallyClosed));
        };
        let mut state = connection.0.lock();
        if !state.is_connected {
            if let Some(error) = &state.error {
                return Poll::Ready(Err(error.clone()));
            }
            state.handshaking.add(cx);
            return Poll::Pending;
        }
        drop(state);
        let connection = self.0.take();
        Poll::Ready(connection.ok_or(ConnectionError::LocallyClosed))
    }
}

/// Resolves when the handshake is complete, to whether the peer took early data. It is false if the
/// handshake failed.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct ZeroRttAccepted(Connection);

impl Future for ZeroRttAccepted {
    type Output = bool;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        let state = &mut *self.0.0.lock();
        if state.is_connected {
            // Data of a server has nothing that could be refused.
            return Poll::Ready(state.proto.side().is_server() || state.proto.accepted_0rtt());
        }
        if state.error.is_some() {
            return Poll::Ready(false);
        }
        state.handshaking.add(cx);
        Poll::Pending
    }
}
