//! Handing the server over to another process, and taking it back.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use hikyaku_quic::proto::ConnectionId;

use super::{Server, ServerError};
use crate::handover::{
    Candidate, HandoverError, Offer, Predecessor, Role, Successor, Terms, UpgradeError,
};
use crate::listen::choose_among;

/// Turns of a worker after which all datagrams that came to its sockets have been handled. The driver
/// receives them, and forwards those of other workers. Then clients that come are met.
const TURNS: usize = 4;
/// Between looks whether the last connection has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// For tunnels to end.
const GOODBYE: Duration = Duration::from_secs(2);

/// A new process, and this one's ends of the ways by which it sends datagrams on.
#[derive(Debug)]
pub struct Prepared {
    candidate: Candidate,
    links: Vec<UnixDatagram>,
}

impl Prepared {
    /// The new process's number.
    pub fn pid(&self) -> u32 {
        self.candidate.pid()
    }
}

impl Server {
    /// Starts a new process by `command`, which is to end in [`Server::start_from`], and waits until it can
    /// serve. This server goes on meanwhile. But the new process has the store already.
    ///
    /// # Errors
    /// When the new process can't serve; this server then goes on as before.
    pub async fn prepare_upgrade(&self, command: Command) -> Result<Prepared, UpgradeError> {
        if self.predecessor.as_ref().is_some_and(Predecessor::runs) {
            return Err(UpgradeError::Busy);
        }
        let (offers, links) = self.offers().map_err(UpgradeError::Prepare)?;
        let keys = self.secrets.export();
        let terms = Terms {
            generation: self.kept.quic_keys.generation().wrapping_add(1),
            steering: self.kept.quic_keys.steering(),
            keys: keys.map_err(|error| UpgradeError::Prepare(error.into()))?,
        };
        self.lend().await;
        let start = move || Candidate::start(command, &terms, offers);
        let started = tokio::task::spawn_blocking(start).await;
        match started.unwrap_or_else(|error| Err(UpgradeError::Prepare(io::Error::other(error)))) {
            Ok(candidate) => Ok(Prepared { candidate, links }),
            Err(error) => {
                self.take_back_state().await;
                Err(error)
            }
        }
    }

    /// Leaves new clients to the process that was prepared. Those of this one are served as before, until
    /// [`Server::drain`].
    ///
    /// # Errors
    /// When the new process has ended meanwhile; this server then goes on as before.
    pub async fn hand_over(&self, prepared: Prepared) -> Result<Successor, UpgradeError> {
        let Prepared { candidate, links } = prepared;
        self.doors.close();
        let handed = async {
            self.divert(links).await.map_err(UpgradeError::Prepare)?;
            self.settle().await;
            candidate.go(&self.handshakes())
        };
        let handed = handed.await;
        if handed.is_err() {
            self.take_back().await.unwrap_or_else(|error| {
                tracing::error!("going on as before the upgrade: {error}");
            });
        }
        handed
    }

    /// Has the connections finish their requests, for at most `timeouts.drain`. Then ends tunnels,
    /// which have no end of their own. Gives the number of connections that are left. Dropping it stops nothing that has
    /// begun to finish.
    pub async fn drain(&self) -> usize {
        let drain = self.in_force.load().config.timeouts.drain;
        self.site.stop().cancel();
        if tokio::time::timeout(drain, self.emptied()).await.is_ok() {
            return 0;
        }
        if self.site.end.is_cancelled() {
            return self.site.connections.count();
        }
        self.site.end.cancel();
        match tokio::time::timeout(GOODBYE, self.emptied()).await {
            Ok(()) => 0,
            Err(_) => self.site.connections.count(),
        }
    }

    /// Waits until no connection is left. Tunnels are none of its tasks, but have their places.
    async fn emptied(&self) {
        self.connections.close();
        self.connections.wait().await;
        while self.site.connections.count() > 0 {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Serves again, since the process that was to serve has died.
    ///
    /// # Errors
    /// When a socket can't be watched, or [`Server::drain`] has come to the end of its time.
    pub async fn take_back(&self) -> Result<(), ServerError> {
        if self.site.end.is_cancelled() {
            return Err(HandoverError::TooLate.into());
        }
        self.site.go_on();
        self.connections.reopen();
        self.receive_again().await;
        self.take_back_state().await;
        self.choose_mptcp();
        self.open_doors()
    }

    /// Takes no more clients, since the process that serves was asked to stop. That one sends datagrams on
    /// for as long as it runs; then [`Server::receive_again`] has to be called.
    pub fn retire(&self) {
        self.doors.remove();
        for door in &self.quic {
            door.endpoint.set_server_config(None);
        }
    }

    /// Receives datagrams by itself, since the process that has sent them on has ended.
    pub async fn receive_again(&self) {
        let links = self.quic.iter().map(|_| None);
        if let Err(error) = self.set_links(links.collect()).await {
            tracing::error!("receiving QUIC datagrams: {error}");
        }
    }

    /// Copies of all sockets, and this process's ends of the links of QUIC.
    fn offers(&self) -> io::Result<(Vec<Offer>, Vec<UnixDatagram>)> {
        let (mut offers, mut links) = (Vec::new(), Vec::new());
        let sockets = self.doors.sockets.lock();
        let plain = |role, group, asked, socket| Offer {
            role,
            group,
            asked,
            refused: false,
            only_sends: false,
            socket,
            link: None,
        };
        for sockets in sockets.iter() {
            for (group, listener) in sockets.listeners.iter().enumerate() {
                for tcp in &listener.tcp {
                    let socket = OwnedFd::from(tcp.listener.try_clone()?);
                    offers.push(Offer {
                        refused: tcp.refused,
                        ..plain(Role::Tcp, group, listener.asked, socket)
                    });
                }
            }
            let cleartext = sockets.cleartext.iter().map(|one| (Role::Cleartext, one));
            let admin = sockets.admin.iter().map(|one| (Role::Admin, one));
            for (group, (role, one)) in cleartext.chain(admin).enumerate() {
                let socket = OwnedFd::from(one.listener.try_clone()?);
                offers.push(plain(role, group, one.asked, socket));
            }
        }
        for door in &self.quic {
            let (ours, theirs) = UnixDatagram::pair()?;
            links.push(ours);
            let socket = OwnedFd::from(door.copy.try_clone()?);
            offers.push(Offer {
                only_sends: door.only_sends,
                link: Some(theirs),
                ..plain(Role::Udp, door.group, door.asked, socket)
            });
        }
        Ok((offers, links))
    }

    /// Leaves receiving to the other process.
    async fn divert(&self, links: Vec<UnixDatagram>) -> io::Result<()> {
        self.set_links(links.into_iter().map(Some).collect()).await
    }

    async fn set_links(&self, links: Vec<Option<UnixDatagram>>) -> io::Result<()> {
        for (door, link) in self.quic.iter().zip(links) {
            let (socket, endpoint) = (Arc::clone(&door.socket), door.endpoint.clone());
            let set = door.runtime.spawn(async move {
                let set = socket.divert(link);
                endpoint.look_again();
                set
            });
            set.await.map_err(io::Error::other)??;
        }
        Ok(())
    }

    /// Waits until all datagrams that were received are looked at, so that the handshakes under way are
    /// known.
    async fn settle(&self) {
        for _ in 0..TURNS {
            for runtime in self.workers.runtimes() {
                // It is cancelled only when the server stops.
                let _ = runtime.spawn(tokio::task::yield_now()).await;
            }
        }
    }

    /// The ids that clients have drawn whose handshakes are under way.
    fn handshakes(&self) -> Vec<ConnectionId> {
        // The workers of an address share theirs.
        let of_addresses = self.quic.chunk_by(|one, next| one.group == next.group);
        let first = of_addresses.filter_map(<[_]>::first);
        first.flat_map(|door| door.handshakes.ids()).collect()
    }

    /// Leaves store and keys to the other process.
    async fn lend(&self) {
        self.secrets.lend(true);
        if let Some(store) = &self.lender {
            store.lend().await;
        }
        if let Some(keeper) = &self.acme {
            keeper.stop().await;
        }
        // Two processes of one name would overwrite each other.
        self.shared.fleet.leave().await;
        let caches = self.kept.caches.clone();
        // It works on files.
        let _ = tokio::task::spawn_blocking(move || caches.lend()).await;
    }

    async fn take_back_state(&self) {
        self.secrets.lend(false);
        if let Some(store) = &self.lender {
            store.take_back().await;
        }
        self.keep_certificates(true);
        self.join_fleet();
        let caches = self.kept.caches.clone();
        let _ = tokio::task::spawn_blocking(move || caches.take_back()).await;
    }

    /// Lets this process's program choose among the sockets again.
    fn choose_mptcp(&self) {
        let egress = self.shared.egress.as_deref();
        let gate = egress.and_then(crate::egress::Egress::gate);
        for listener in self
            .doors
            .sockets
            .lock()
            .iter()
            .flat_map(|all| &all.listeners)
        {
            if let Err(error) = choose_among(&listener.tcp, gate) {
                tracing::warn!("choosing the clients of MPTCP: {error}");
            }
        }
    }
}
