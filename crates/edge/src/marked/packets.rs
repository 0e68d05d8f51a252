//! The mark of one connection's packets.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Marks;

/// The packets that a connection sends.
pub(crate) trait Packets: Debug + Send + Sync {
    /// Lets them take the egress route of `mark` from now on; 0 is the plain route.
    fn set_mark(&self, mark: u32);
}

/// The packets of a QUIC connection. None bears its mark once this is dropped.
#[derive(Debug)]
pub(crate) struct QuicPackets {
    marks: Arc<Marks>,
    /// The client's address, and the mark of packets to it.
    set: Mutex<(SocketAddr, u32)>,
}

impl QuicPackets {
    /// The packets to `destination`, without a mark at first.
    pub(crate) fn new(marks: Arc<Marks>, destination: SocketAddr) -> Self {
        let set = Mutex::new((destination, 0));
        Self { marks, set }
    }

    /// Follows a client whose address may have changed (RFC 9000 §9).
    pub(crate) fn follow(&self, destination: SocketAddr) {
        let mut set = self.set.lock();
        let mark = set.1;
        self.replace(&mut set, (destination, mark));
    }

    fn replace(&self, set: &mut (SocketAddr, u32), now: (SocketAddr, u32)) {
        let former = std::mem::replace(set, now);
        if former == now {
            return;
        }
        // The new mark first, so that no packet goes without.
        if now.1 != 0 {
            self.marks.set(now.0, now.1);
        }
        if former.1 != 0 {
            self.marks.clear(former.0, former.1);
        }
    }
}

impl Packets for QuicPackets {
    fn set_mark(&self, mark: u32) {
        let mut set = self.set.lock();
        let destination = set.0;
        self.replace(&mut set, (destination, mark));
    }
}

impl Drop for QuicPackets {
    fn drop(&mut self) {
        self.set_mark(0);
    }
}
