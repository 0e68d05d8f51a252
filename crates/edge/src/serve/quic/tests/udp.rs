//! Datagrams in memory.

use std::collections::{HashMap, HashSet};
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hikyaku_quic::udp::{RecvMeta, Transmit};
use parking_lot::Mutex;
use tokio::sync::mpsc;

/// A datagram and its sender.
type Datagram = (SocketAddr, Vec<u8>);

/// Delivers datagrams at once, and in their order.
#[derive(Debug, Default)]
pub(super) struct Network(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sockets: HashMap<SocketAddr, mpsc::UnboundedSender<Datagram>>,
    received: HashMap<SocketAddr, usize>,
    /// Addresses that others see, by the addresses of sockets.
    seen: HashMap<SocketAddr, SocketAddr>,
    cut: HashSet<SocketAddr>,
}

impl Network {
    pub(super) fn bind(self: &Arc<Self>, local: SocketAddr) -> Arc<dyn hikyaku_quic::Socket> {
        let (sender, inbox) = mpsc::unbounded_channel();
        self.0.lock().sockets.insert(local, sender);
        Arc::new(Socket {
            network: Arc::clone(self),
            local,
            inbox: Mutex::new(inbox),
        })
    }

    /// Loses everything that is sent to an address from now on.
    pub(super) fn cut(&self, address: &str) {
        self.0.lock().cut.insert(address.parse().unwrap());
    }

    /// Has a socket be seen at another address from now on, as behind a NAT that has forgotten it. Nothing
    /// comes through by the address that it had.
    pub(super) fn moved(&self, socket: &str, seen: &str) {
        let [socket, seen] = [socket, seen].map(|address| address.parse().unwrap());
        self.0.lock().seen.insert(socket, seen);
    }

    /// How many datagrams have come to an address.
    pub(super) fn received(&self, address: &str) -> usize {
        let received = &self.0.lock().received;
        received
            .get(&address.parse().unwrap())
            .copied()
            .unwrap_or(0)
    }
}

impl State {
    /// The socket that is seen at an address.
    fn socket(&self, address: SocketAddr) -> Option<&mpsc::UnboundedSender<Datagram>> {
        let moved = self.seen.iter().find(|(_, seen)| **seen == address);
        let socket = match moved {
            Some((socket, _)) => *socket,
            None => Some(address).filter(|address| !self.seen.contains_key(address))?,
        };
        self.sockets.get(&socket)
    }
}

#[derive(Debug)]
struct Socket {
    network: Arc<Network>,
    local: SocketAddr,
    inbox: Mutex<mpsc::UnboundedReceiver<Datagram>>,
}

impl hikyaku_quic::Socket for Socket {
    fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let mut state = self.network.0.lock();
        let to = transmit.destination;
        if state.cut.contains(&to) {
            return Ok(());
        }
        let from = state.seen.get(&self.local).copied().unwrap_or(self.local);
        let datagram = (from, transmit.contents.to_vec());
        let sent = state.socket(to).map(|socket| socket.send(datagram));
        if let Some(Ok(())) = sent {
            *state.received.entry(to).or_default() += 1;
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let Some((addr, datagram)) = ready!(self.inbox.lock().poll_recv(cx)) else {
            return Poll::Pending;
        };
        let len = datagram.len();
        bufs[0][..len].copy_from_slice(&datagram);
        meta[0] = RecvMeta {
            addr,
            len,
            stride: len,
            ..RecvMeta::default()
        };
        Poll::Ready(Ok(1))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }
}
