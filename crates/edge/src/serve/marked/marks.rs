//! Which destinations' packets bear a mark.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use socket2::SockRef;

/// Marks of datagrams, by their destination: policy rules of the kernel (`ip rule ... fwmark`) choose
/// the routing table by them, packet by packet, as `SO_MARK` does it for a whole socket.
///
/// IPv4 addresses and IPv4-mapped IPv6 addresses are the same destination.
#[derive(Debug)]
pub(crate) struct Marks {
    /// Destinations in all shards, so that senders need not look while there are none.
    count: AtomicUsize,
    shards: [RwLock<HashMap<Destination, u32>>; SHARDS],
    hasher: RandomState,
}

type Destination = (IpAddr, u16);

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
    /// What the kernel answered: `EPERM` without the capabilities.
    pub(crate) fn probe() -> io::Result<()> {
        static ANSWER: OnceLock<Result<(), i32>> = OnceLock::new();
        let answer = ANSWER.get_or_init(|| {
            let asked = UdpSocket::bind((IpAddr::from([127, 0, 0, 1]), 0))
                .and_then(|socket| SockRef::from(&socket).set_mark(1));
            asked.map_err(|error| error.raw_os_error().unwrap_or(libc::EPERM))
        });
        answer.map_err(io::Error::from_raw_os_error)
    }

    /// Marks what is sent to `destination` from now on; 0 is no mark.
    pub(crate) fn set(&self, destination: SocketAddr, mark: u32) {
        if mark == 0 {
            return self.clear(destination);
        }
        let (destination, shard) = self.place(destination);
        if shard.write().insert(destination, mark).is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends to `destination` without a mark from now on.
    pub(crate) fn clear(&self, destination: SocketAddr) {
        let (destination, shard) = self.place(destination);
        if shard.write().remove(&destination).is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The mark of what is sent to `destination`.
    pub(super) fn of(&self, destination: SocketAddr) -> Option<u32> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let (destination, shard) = self.place(destination);
        shard.read().get(&destination).copied()
    }

    fn place(&self, destination: SocketAddr) -> (Destination, &RwLock<HashMap<Destination, u32>>) {
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
        assert_eq!(marks.of(one), Some(9), "one mark a destination");
        marks.clear(one);
        marks.clear(one);
        marks.set(other, 0);
        assert_eq!(marks.count.load(Ordering::Relaxed), 0);
        assert_eq!([one, other].map(|address| marks.of(address)), [None; 2]);
    }
}
