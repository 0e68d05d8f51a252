//! The sockets on which clients come, and who meets them there.
//!
//! The server keeps a copy of each socket beside the one that an acceptor has. So it can close its doors
//! for another process and open them again, and the kernel never refuses a client meanwhile.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use hikyaku_quic::{Driver, Endpoint, Group};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::start::Sockets;
use super::{Server, ServerError};
use crate::admin::{self, Times};
use crate::listen::{ListenError, Listener, QuicSocket};
use crate::marked::{Former, MarkedSocket};
use crate::part::Part;
use crate::serve::{Handshakes, QuicListener, TcpAcceptor};

/// The sockets that the server listens on.
#[derive(Debug, Default)]
pub(super) struct Doors {
    /// `None` once the server never accepts again.
    pub(super) sockets: Mutex<Option<Sockets>>,
    /// Cancelled to close those of clients.
    closing: Mutex<CancellationToken>,
    /// Cancelled to close those of the admin API.
    closing_admin: Mutex<CancellationToken>,
}

impl Doors {
    pub(super) fn of(sockets: Sockets) -> Self {
        Self {
            sockets: Mutex::new(Some(sockets)),
            closing: Mutex::default(),
            closing_admin: Mutex::default(),
        }
    }

    /// Accepts no more. Clients that come wait in the sockets.
    pub(super) fn close(&self) {
        self.closing.lock().cancel();
        self.closing_admin.lock().cancel();
    }

    /// Accepts no more clients, ever. The kernel refuses them once no other process has the sockets.
    pub(super) fn remove(&self) {
        self.closing.lock().cancel();
        *self.sockets.lock() = None;
    }
}

/// HTTP/3 of one worker on one address.
pub(super) struct QuicDoor {
    pub(super) endpoint: Endpoint,
    pub(super) socket: Arc<MarkedSocket>,
    pub(super) runtime: Handle,
    pub(super) handshakes: Arc<Handshakes>,
    /// For another process.
    pub(super) copy: UdpSocket,
    pub(super) only_sends: bool,
    /// The place of its listener among all, and the address that was asked for.
    pub(super) group: usize,
    pub(super) asked: SocketAddr,
}

/// The process that has had the sockets.
pub(super) type FormerOf<'a> = dyn Fn(std::os::unix::net::UnixDatagram) -> Former + 'a;

impl Server {
    /// Accepts clients of TCP and of the admin API.
    ///
    /// # Errors
    /// When a socket can't be copied or watched.
    pub(super) fn open_doors(&self) -> Result<(), ServerError> {
        let (closing, closing_admin) = (CancellationToken::new(), self.end.child_token());
        *self.doors.closing.lock() = closing.clone();
        *self.doors.closing_admin.lock() = closing_admin.clone();
        let sockets = self.doors.sockets.lock();
        let Some(sockets) = &*sockets else {
            return Ok(());
        };
        for listener in &sockets.listeners {
            for socket in &listener.tcp {
                let tls = Some(self.in_force.part(|all| &all.tcp_tls));
                let served = self.serve_tcp(&socket.listener, socket.refused, tls, &closing);
                served.map_err(failed("TCP", listener.address))?;
            }
        }
        for plain in &sockets.cleartext {
            let served = self.serve_tcp(&plain.listener, false, None, &closing);
            served.map_err(failed("TCP", plain.asked))?;
        }
        for plain in &sockets.admin {
            let served = self.serve_admin(&plain.listener, &closing_admin);
            served.map_err(failed("TCP", plain.asked))?;
        }
        Ok(())
    }

    /// Serves clients of a socket, with `tls` or in the clear.
    fn serve_tcp(
        &self,
        listener: &TcpListener,
        refused: bool,
        tls: Option<Part<rustls::ServerConfig>>,
        closing: &CancellationToken,
    ) -> io::Result<()> {
        let acceptor = TcpAcceptor {
            listener: copy(listener)?,
            refused,
            tls,
            site: Arc::clone(&self.site),
            tasks: self.connections.clone(),
            closing: closing.clone(),
        };
        self.connections.spawn(acceptor.run());
        Ok(())
    }

    fn serve_admin(&self, listener: &TcpListener, closing: &CancellationToken) -> io::Result<()> {
        let times = Times {
            closing: closing.clone(),
            end: self.end.clone(),
        };
        let (admin, tasks) = (Arc::clone(&self.admin), self.services.clone());
        let serving = admin::serve(copy(listener)?, admin, times, tasks);
        self.services.spawn(serving);
        Ok(())
    }

    /// Serves HTTP/3 on all addresses, each socket in its worker. `former` is the process that has had the
    /// sockets.
    pub(super) fn open_quic(&mut self, former: &FormerOf<'_>) -> Result<(), ServerError> {
        let mut sockets = self.doors.sockets.lock().take();
        let listeners = sockets.iter_mut().flat_map(|all| &mut all.listeners);
        for (group, listener) in listeners.enumerate() {
            let udp = std::mem::take(&mut listener.udp);
            let served = self.serve_quic(udp, listener, group, former);
            served.map_err(failed("UDP", listener.address))?;
        }
        *self.doors.sockets.lock() = sockets;
        Ok(())
    }

    fn serve_quic(
        &mut self,
        udp: Vec<QuicSocket>,
        listener: &Listener,
        place: usize,
        former: &FormerOf<'_>,
    ) -> io::Result<()> {
        let keys = &self.kept.quic_keys;
        let group = Group::new(keys.steering());
        let handshakes = Arc::<Handshakes>::default();
        let unvalidated = Arc::default();
        let workers = self.workers.runtimes();
        for (index, (socket, runtime)) in udp.into_iter().zip(workers).enumerate() {
            let _entered = runtime.enter();
            let QuicSocket {
                socket,
                only_sends,
                link,
            } = socket;
            let copy = socket.try_clone()?;
            let marks = Arc::clone(&self.site.marks);
            let socket = MarkedSocket::new(socket, marks, Arc::clone(&unvalidated))?;
            let socket = socket
                .only_sending(only_sends)
                .with_former(link.map(former));
            let socket = Arc::new(socket);
            let (config, server) = (keys.endpoint(index), self.in_force.load().quic.endpoint());
            let shared = Arc::<MarkedSocket>::clone(&socket);
            let made = Endpoint::of_worker(config, Some(server), shared, &group, index);
            let (endpoint, driver) = made?;
            let quic = QuicListener {
                endpoint: endpoint.clone(),
                local: listener.address,
                config: self.in_force.part(|all| &all.quic),
                site: Arc::clone(&self.site),
                tasks: self.connections.clone(),
                handshakes: Arc::clone(&handshakes),
                unvalidated: Arc::clone(&unvalidated),
            };
            runtime.spawn(drive(driver, listener.address));
            self.services.spawn_on(quic.run(), runtime);
            self.quic.push(QuicDoor {
                endpoint,
                socket,
                runtime: runtime.clone(),
                handshakes: Arc::clone(&handshakes),
                copy,
                only_sends,
                group: place,
                asked: listener.asked,
            });
        }
        Ok(())
    }
}

fn failed(transport: &'static str, address: SocketAddr) -> impl Fn(io::Error) -> ListenError {
    move |source| ListenError {
        transport,
        address: address.into(),
        source,
    }
}

/// A listener of its own for the same socket.
fn copy(listener: &TcpListener) -> io::Result<tokio::net::TcpListener> {
    tokio::net::TcpListener::from_std(listener.try_clone()?)
}

/// Drives an endpoint, whose connections end when its socket fails.
async fn drive(driver: Driver, local: SocketAddr) {
    if let Err(error) = driver.await {
        tracing::error!("HTTP/3 ends on {local}, whose socket fails: {error}");
    }
}
