//! The datagrams to addresses that nobody has shown yet to receive there.
//!
//! Whoever sends one packet of QUIC may have forged its sender. Until a client has proved its address it
//! gets at most three times the bytes that came from it (RFC 9000 §8.1). quinn begins a datagram as long
//! as one byte is left, and so sends up to a datagram too much. Here the bytes are counted, and the
//! excess waits until the client answers, as if the network had delayed it.

mod arrivals;
pub(crate) mod header;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hikyaku_quic::udp::{EcnCodepoint, Transmit};
use parking_lot::Mutex;

use arrivals::Arrivals;

/// Bytes that may be sent for each that came (RFC 9000 §8.1).
const FACTOR: u64 = 3;
/// Of the first datagram of a connection, at least (RFC 9000 §14.1).
const MIN_INITIAL: u64 = 1200;
/// Connections are counted in this many tables, so that few senders meet in one.
const SHARDS: usize = 16;

/// The addresses of handshakes under way, with what they have sent and got.
#[derive(Debug, Default)]
pub(crate) struct Unvalidated {
    /// Addresses in all shards, so that senders need not look while there are none.
    count: AtomicUsize,
    shards: [Mutex<HashMap<SocketAddr, Budget>>; SHARDS],
    arrivals: Arrivals,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Budget {
    /// Connections that have begun from here, and whose handshake is under way.
    connections: usize,
    received: u64,
    sent: u64,
    /// Connection ids that were sent to the address.
    ids: Vec<Box<[u8]>>,
    withheld: Option<Withheld>,
    validated: bool,
}

/// Datagrams that may be sent once the client has answered.
#[derive(Debug)]
pub(crate) struct Withheld {
    destination: SocketAddr,
    ecn: Option<EcnCodepoint>,
    contents: Vec<u8>,
    segment_size: Option<usize>,
    src_ip: Option<IpAddr>,
}

impl Withheld {
    pub(crate) fn transmit(&self) -> Transmit<'_> {
        Transmit {
            destination: self.destination,
            ecn: self.ecn,
            contents: &self.contents,
            segment_size: self.segment_size,
            src_ip: self.src_ip,
        }
    }
}

impl Unvalidated {
    /// A connection from an address that has proved nothing begins, and answers are sent to it.
    pub(crate) fn begin(self: &Arc<Self>, remote: SocketAddr) -> Handshaking {
        let arrived = self.arrivals.take(self.hash(remote));
        match self.shard(remote).lock().entry(remote) {
            // Datagrams that came meanwhile are counted.
            Entry::Occupied(mut budget) => budget.get_mut().connections += 1,
            Entry::Vacant(place) => {
                place.insert(Budget {
                    connections: 1,
                    received: arrived.max(MIN_INITIAL),
                    ..Budget::default()
                });
                self.count.fetch_add(1, Ordering::Relaxed);
            }
        }
        Handshaking {
            remote,
            unvalidated: Arc::clone(self),
        }
    }

    /// Counts datagrams that came, each at most `stride` bytes long. Returns the withheld ones that may
    /// go now.
    pub(crate) fn received(
        &self,
        from: SocketAddr,
        datagrams: &[u8],
        stride: usize,
    ) -> Option<Withheld> {
        let is_handshake = header::is_long(datagrams);
        if self.count.load(Ordering::Relaxed) > 0 {
            let mut shard = self.shard(from).lock();
            if let Some(budget) = shard.get_mut(&from) {
                budget.received += datagrams.len() as u64;
                for datagram in datagrams.chunks(stride.max(1)) {
                    budget.learn(datagram);
                }
                return budget.release();
            }
        }
        if is_handshake {
            self.arrivals.add(self.hash(from), datagrams.len());
        }
        None
    }

    /// As much of `transmit` as may be sent now, and counted as sent; the rest is kept.
    pub(crate) fn within<'a>(&self, transmit: &Transmit<'a>) -> Option<Transmit<'a>> {
        let Transmit {
            destination,
            ecn,
            contents,
            segment_size,
            src_ip,
        } = *transmit;
        let part = |contents: &'a [u8]| Transmit {
            destination,
            ecn,
            contents,
            segment_size,
            src_ip,
        };
        if self.count.load(Ordering::Relaxed) == 0 {
            return Some(part(contents));
        }
        let mut shard = self.shard(destination).lock();
        let Some(budget) = shard.get_mut(&destination) else {
            return Some(part(contents));
        };
        budget.note_id(contents);
        let segment = segment_size.unwrap_or(contents.len()).max(1);
        let allowed = budget.whole_segments(contents.len(), segment);
        budget.sent += allowed as u64;
        let (now, later) = contents.split_at(allowed);
        if !later.is_empty() && budget.withheld.is_none() {
            budget.withheld = Some(Withheld {
                destination,
                ecn,
                contents: later.to_vec(),
                segment_size,
                src_ip,
            });
        }
        (!now.is_empty()).then(|| part(now))
    }

    /// Takes back what [`Unvalidated::within`] has counted, since the socket did not take it.
    pub(crate) fn unsent(&self, transmit: &Transmit<'_>) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let to = transmit.destination;
        if let Some(budget) = self.shard(to).lock().get_mut(&to) {
            budget.sent = budget.sent.saturating_sub(transmit.contents.len() as u64);
        }
    }

    fn hash(&self, address: SocketAddr) -> u64 {
        self.hasher.hash_one(address)
    }

    fn shard(&self, address: SocketAddr) -> &Mutex<HashMap<SocketAddr, Budget>> {
        &self.shards[self.hash(address) as usize % SHARDS]
    }
}

impl Budget {
    /// The longest run of whole segments that may be sent.
    fn whole_segments(&self, length: usize, segment: usize) -> usize {
        if self.validated {
            return length;
        }
        let left = (self.received * FACTOR).saturating_sub(self.sent);
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        match left >= length {
            true => length,
            false => left / segment * segment,
        }
    }

    /// Keeps the connection id that the client has to use.
    fn note_id(&mut self, datagram: &[u8]) {
        if let Some((_, source)) = header::ids(datagram)
            && self.ids.len() < self.connections
            && !self.ids.iter().any(|id| **id == *source)
        {
            self.ids.push(source.into());
        }
    }

    /// Who uses a connection id that was sent to the address receives there: ours cannot be guessed
    /// (RFC 9000 §8.1).
    fn learn(&mut self, datagram: &[u8]) {
        let uses = |id: &[u8]| match header::ids(datagram) {
            Some((destination, _)) => destination == id,
            None => datagram.get(1..).is_some_and(|rest| rest.starts_with(id)),
        };
        self.validated |= self.ids.iter().any(|id| !id.is_empty() && uses(id));
    }

    fn release(&mut self) -> Option<Withheld> {
        let withheld = self.withheld.as_ref()?;
        let length = withheld.contents.len();
        if self.whole_segments(length, length) < length {
            return None;
        }
        self.sent += length as u64;
        self.withheld.take()
    }
}

/// A handshake under way with an address that has proved nothing; its bytes are counted until this is
/// dropped.
#[derive(Debug)]
pub(crate) struct Handshaking {
    remote: SocketAddr,
    unvalidated: Arc<Unvalidated>,
}

impl Drop for Handshaking {
    fn drop(&mut self) {
        let mut shard = self.unvalidated.shard(self.remote).lock();
        if let Entry::Occupied(mut budget) = shard.entry(self.remote) {
            budget.get_mut().connections -= 1;
            if budget.get().connections == 0 {
                budget.remove();
                self.unvalidated.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests;
