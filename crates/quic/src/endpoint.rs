//! The endpoint of a worker, as its users have it.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, SocketAddrV6};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use quinn_proto as proto;
use quinn_proto::{ClientConfig, ConnectError, EndpointConfig, ServerConfig, VarInt};

use crate::clock;
use crate::connection::Connection;
use crate::core::Core;
use crate::driver::Driver;
use crate::forwarding::{Forwarder, Group};
use crate::hub::Hub;
use crate::incoming::{Connecting, Incoming};
use crate::socket::{Socket, UdpSocket};
use crate::state::Inner;

/// The QUIC endpoint of one socket. Clones are the same endpoint.
///
/// Its [`Driver`] moves the datagrams of all its connections, and ends when the last clone and the last
/// connection have ended.
#[derive(Clone, Debug)]
pub struct Endpoint(Arc<User>);

struct User {
    hub: Arc<Hub>,
    local: SocketAddr,
}

impl Endpoint {
    /// An endpoint that accepts connections if there is a `server`, and its driver, which has to be
    /// polled.
    ///
    /// # Errors
    /// When the socket has no address.
    pub fn new(
        config: EndpointConfig,
        server: Option<ServerConfig>,
        socket: Arc<dyn Socket>,
    ) -> io::Result<(Self, Driver)> {
        Self::of(config, server, socket, None)
    }

    /// An endpoint whose driver is a task of this tokio runtime. When the socket fails, its connections
    /// end, and a warning says why.
    ///
    /// # Errors
    /// When the socket has no address.
    pub fn spawn(
        config: EndpointConfig,
        server: Option<ServerConfig>,
        socket: Arc<dyn Socket>,
    ) -> io::Result<Self> {
        let (endpoint, driver) = Self::new(config, server, socket)?;
        tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::warn!("QUIC socket: {error}");
            }
        });
        Ok(endpoint)
    }

    /// An endpoint on a new socket at `address`, as by [`Endpoint::spawn`].
    ///
    /// # Errors
    /// When the address can't be bound.
    pub fn bind(address: SocketAddr, server: Option<ServerConfig>) -> io::Result<Self> {
        let socket = UdpSocket::new(std::net::UdpSocket::bind(address)?)?;
        Self::spawn(EndpointConfig::default(), server, Arc::new(socket))
    }

    /// The endpoint of one worker of a group. The connection ids of `config` have to be stamped with the
    /// worker's index by the group's [`Steering`](crate::Steering).
    ///
    /// # Errors
    /// When the socket has no address.
    pub fn of_worker(
        config: EndpointConfig,
        server: Option<ServerConfig>,
        socket: Arc<dyn Socket>,
        group: &Group,
        worker: usize,
    ) -> io::Result<(Self, Driver)> {
        let forwarder = Forwarder {
            group: group.clone(),
            worker,
        };
        let (endpoint, driver) = Self::of(config, server, socket, Some(forwarder))?;
        group.join(worker, &endpoint.0.hub);
        Ok((endpoint, driver))
    }

    fn of(
        config: EndpointConfig,
        server: Option<ServerConfig>,
        socket: Arc<dyn Socket>,
        forwarder: Option<Forwarder>,
    ) -> io::Result<(Self, Driver)> {
        let local = socket.local_addr()?;
        let (config, server) = (Arc::new(config), server.map(Arc::new));
        let endpoint = proto::Endpoint::new(config, server, !socket.may_fragment(), None);
        let core = Core::new(endpoint, clock::now(), forwarder);
        let hub = Arc::new(Hub::new(core, socket));
        let driver = Driver::new(Arc::clone(&hub));
        Ok((Self(Arc::new(User { hub, local })), driver))
    }

    /// Waits for the next client; `None` once the endpoint is closed.
    pub async fn accept(&self) -> Option<Incoming> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// Polls for the next client; see [`Endpoint::accept`].
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Option<Incoming>> {
        let hub = &self.0.hub;
        let core = &mut *hub.core.lock();
        if let Some(incoming) = core.incoming.pop_front() {
            return Poll::Ready(Some(Incoming::new(incoming, Arc::clone(hub))));
        }
        if core.closed.is_some() {
            return Poll::Ready(None);
        }
        core.accepting.add(cx);
        Poll::Pending
    }

    /// Begins to connect to a server.
    ///
    /// # Errors
    /// [`ConnectError`], also when the endpoint is closed.
    pub fn connect(
        &self,
        config: ClientConfig,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let hub = &self.0.hub;
        let core = &mut *hub.core.lock();
        if core.closed.is_some() {
            return Err(ConnectError::EndpointStopping);
        }
        let remote = self.address(remote)?;
        let connected = core
            .endpoint
            .connect(clock::now(), config, remote, server_name);
        let (handle, connection) = connected?;
        let inner = core.insert(handle, connection, hub);
        Ok(Connecting::new(Connection::new(inner)))
    }

    /// An address as the socket's family has it.
    fn address(&self, remote: SocketAddr) -> Result<SocketAddr, ConnectError> {
        match (self.0.local, remote) {
            (SocketAddr::V6(_), SocketAddr::V4(v4)) => {
                let ip = v4.ip().to_ipv6_mapped();
                Ok(SocketAddrV6::new(ip, v4.port(), 0, 0).into())
            }
            (SocketAddr::V4(_), SocketAddr::V6(_)) => {
                Err(ConnectError::InvalidRemoteAddress(remote))
            }
            _ => Ok(remote),
        }
    }

    /// Sets the settings of connections that begin from now on.
    pub fn set_server_config(&self, server: Option<ServerConfig>) {
        let mut core = self.0.hub.core.lock();
        core.endpoint.set_server_config(server.map(Arc::new));
    }

    /// Has the driver ask its socket for datagrams, which may come in another way than before. To be called
    /// in the driver's thread, since one that is about to sleep would not hear of it.
    pub fn look_again(&self) {
        self.0.hub.add(|_| ());
    }

    /// The address that the socket is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local
    }

    /// Connections that have not ended, or whose last packets are awaited (RFC 9000 §10.2).
    pub fn open_connections(&self) -> usize {
        self.0.hub.core.lock().count()
    }

    /// Closes all connections with an application's code and reason, and takes no more. Clients that come
    /// later get no answer.
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        let hub = &self.0.hub;
        let reason = Bytes::copy_from_slice(reason);
        let core = &mut *hub.core.lock();
        core.closed = Some((code, reason.clone()));
        for incoming in core.incoming.drain(..) {
            core.endpoint.ignore(incoming);
        }
        core.accepting.wake();
        let all: Vec<Arc<Inner>> = core.connections().cloned().collect();
        for connection in all {
            connection.close(code, reason.clone());
        }
    }

    /// Waits until no connection is left: the peers had the time to get its last packets.
    pub async fn wait_idle(&self) {
        let hub = &self.0.hub;
        poll_fn(|cx| {
            let core = hub.core.lock();
            if core.count() == 0 {
                return Poll::Ready(());
            }
            hub.add(|ready| ready.idle.add(cx));
            Poll::Pending
        })
        .await;
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // The driver sees that it has the last reference but those of connections.
        self.hub.add(|ready| ready.is_used = false);
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("local", &self.local)
            .finish_non_exhaustive()
    }
}
