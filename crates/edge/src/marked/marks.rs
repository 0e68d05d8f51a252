//! Which destinations' packets bear a mark.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use socket2::SockRef;

/// Marks of datagrams, by their destination. Policy rules of the kernel (`ip rule ... fwmark`) choose
/// the routing table by them, packet by packet, as `SO_MARK` does it for a whole socket.
///
/// IPv4 addresses and IPv4-mapped IPv6 addresses are the same destination. Connections may share one.
/// For instance, a client's socket or a NAT's port begins a second connection while the first has not
/// ended here. The newest mark then counts for all of them.
#[derive(Debug)]
pub(crate) struct Marks {
    /// Marks in all shards, so that senders need not look while there are none.
    count: AtomicUsize,
    shards: [Shard; SHARDS],
    hasher: RandomState,
}

type Destination = (IpAddr, u16);

/// Marks by destination, the newest last.
type Shard = RwLock<HashMap<Destination, Vec<u32>>>;

/// Senders run on as many threads as there are cores, and write here only when a route changes.
const SHARDS: usize = 16;

impl Default for Marks {
    fn default() -> Self {
        Self {
            count: AtomicUsize::new(0),
            shards: Default::default(),
            hasher: RandomState::new(),
        }
    }
}

impl Marks {
    /// Whether this process may mark packets: CAP_NET_ADMIN or CAP_NET_RAW. Asked of the kernel once.
    ///
    /// # Errors
    /// The kernel's own error: `EPERM` without the capabilities.
    pub(crate) fn probe() -> io::Result<()> {
        static ANSWER: OnceLock<Result<(), i32>> = OnceLock::new();
        let answer = ANSWER.get_or_init(|| {
            let asked = UdpSocket::bind((IpAddr::from([127, 0, 0, 1]), 0))
                .and_then(|socket| SockRef::from(&socket).set_mark(1));
            asked.map_err(|error| error.raw_os_error().unwrap_or(libc::EPERM))
        });
        answer.map_err(io::Error::from_raw_os_error)
    }

    /// Marks all packets to `destination` from now on.
    pub(crate) fn set(&self, destination: SocketAddr, mark: u32) {
        let (destination, shard) = self.place(destination);
        shard.write().entry(destination).or_default().push(mark);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes back a mark that was set.
    pub(crate) fn clear(&self, destination: SocketAddr, mark: u32) {
        let (destination, shard) = self.place(destination);
        let mut shard = shard.write();
        let Some(marks) = shard.get_mut(&destination) else {
            return;
        };
        if let Some(place) = marks.iter().rposition(|&other| other == mark) {
            marks.remove(place);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        if marks.is_empty() {
            shard.remove(&destination);
        }
    }

    /// The mark of packets to `destination`.
    pub(crate) fn of(&self, destination: SocketAddr) -> Option<u32> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let (destination, shard) = self.place(destination);
        shard.read().get(&destination)?.last().copied()
    }

    fn place(&self, destination: SocketAddr) -> (Destination, &Shard) {
        let destination = (destination.ip().to_canonical(), destination.port());
        let shard = self.hasher.hash_one(destination) as usize % SHARDS;
        (destination, &self.shards[shard])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_keeps_its_mark_until_it_is_cleared() {
        let marks = Marks::default();
        let [one, mapped, port, other] = [
            "192.0.2.1:443",
            "[::ffff:192.0.2.1]:443",
            "192.0.2.1:444",
            "[2001:db8::1]:443",
        ]
        .map(|address| address.parse().unwrap());
        assert_eq!(marks.of(one), None);
        marks.set(one, 7);
        marks.set(other, 8);
        let all = [one, mapped, port, other].map(|address| marks.of(address));
        assert_eq!(all, [Some(7), Some(7), None, Some(8)]);
        marks.set(mapped, 9);
        assert_eq!(marks.of(one), Some(9), "the newest");
        marks.clear(one, 7);
        assert_eq!(marks.of(one), Some(9), "of another connection");
        marks.set(one, 9);
        marks.clear(mapped, 9);
        assert_eq!(marks.of(one), Some(9), "both had the same");
        for mark in [9, 9, 8] {
            marks.clear(one, mark);
        }
        marks.clear(other, 8);
        assert_eq!(marks.count.load(Ordering::Relaxed), 0);
        assert_eq!([one, other].map(|address| marks.of(address)), [None; 2]);
    }
}
