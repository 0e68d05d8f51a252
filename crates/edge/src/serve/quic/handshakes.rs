//! Handshakes under way.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hikyaku_quic::proto::ConnectionId;
use parking_lot::Mutex;

use crate::unvalidated::Handshaking;

/// The handshakes under way on an address.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    count: AtomicUsize,
    /// The ids that clients have drawn for their first packets (RFC 9000 §7.2). They use them until they
    /// have an answer.
    ids: Mutex<HashSet<ConnectionId>>,
}

impl Handshakes {
    /// Takes note of one.
    pub(super) fn begin(
        self: &Arc<Self>,
        id: ConnectionId,
        unvalidated: Option<Handshaking>,
    ) -> UnderWay {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.ids.lock().insert(id);
        UnderWay {
            handshakes: Arc::clone(self),
            id,
            unvalidated,
        }
    }

    /// Their number.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The ids that their clients have drawn.
    pub(crate) fn ids(&self) -> Vec<ConnectionId> {
        self.ids.lock().iter().copied().collect()
    }
}

/// A handshake under way.
pub(super) struct UnderWay {
    handshakes: Arc<Handshakes>,
    id: ConnectionId,
    /// `None` where the client has proved its address before.
    unvalidated: Option<Handshaking>,
}

impl UnderWay {
    /// The bound on packets to the client, to be kept longer than this.
    pub(super) fn take_unvalidated(&mut self) -> Option<Handshaking> {
        self.unvalidated.take()
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.handshakes.count.fetch_sub(1, Ordering::Relaxed);
        self.handshakes.ids.lock().remove(&self.id);
    }
}
