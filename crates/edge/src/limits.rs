//! The connections that are open: how many there may be, in all and of one address.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hikyaku_units::ByteSize;
use parking_lot::Mutex;

use crate::budget::{Account, Pool, Pools};
use crate::metrics::Refusal;
use crate::sections::Limits;
use crate::uploads::UploadMemory;

/// Connections are counted in this many tables, so that few accepts meet in one.
const SHARDS: usize = 64;

/// Counts the connections that are open.
#[derive(Debug)]
pub(crate) struct Connections {
    total: AtomicUsize,
    max: AtomicUsize,
    max_per_address: AtomicUsize,
    memory: Arc<Pool>,
    uploads: Arc<UploadMemory>,
    max_memory_per_address: AtomicU64,
    hasher: RandomState,
    addresses: [Mutex<HashMap<IpAddr, Places>>; SHARDS],
}

/// Of one address.
#[derive(Debug)]
struct Places {
    /// Content in memory for its connections.
    memory: Arc<Pool>,
    /// Memory that its requests' bodies may take.
    uploads: Arc<UploadMemory>,
    /// It is a proxy's, which has connections for many clients.
    is_proxy: bool,
    /// Connections, those in their handshake included.
    count: usize,
    /// Those that are served.
    served: usize,
}

impl Connections {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            total: AtomicUsize::new(0),
            max: AtomicUsize::new(limits.connections),
            max_per_address: AtomicUsize::new(limits.connections_per_address),
            memory: Arc::new(Pool::new(limits.memory.bytes())),
            uploads: Arc::new(UploadMemory::new(limits.upload_memory)),
            max_memory_per_address: AtomicU64::new(limits.memory_per_address.bytes()),
            hasher: RandomState::new(),
            addresses: std::array::from_fn(|_| Mutex::default()),
        }
    }

    pub(crate) fn set_limits(&self, limits: &Limits) {
        self.max.store(limits.connections, Ordering::Relaxed);
        self.max_per_address
            .store(limits.connections_per_address, Ordering::Relaxed);
        self.memory.set_max(limits.memory.bytes());
        self.uploads.set_limit(limits.upload_memory);
        let per_address = limits.memory_per_address.bytes();
        self.max_memory_per_address
            .store(per_address, Ordering::Relaxed);
        for shard in &self.addresses {
            let addresses = shard.lock();
            for places in addresses.values().filter(|places| !places.is_proxy) {
                places.memory.set_max(per_address);
                places.uploads.set_limit(limits.memory_per_address);
            }
        }
    }

    /// Takes a place among all connections, for one whose client need not be known yet.
    ///
    /// # Errors
    /// When the limit for all is reached.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Entered, Refusal> {
        if self.total.fetch_add(1, Ordering::Relaxed) >= self.max.load(Ordering::Relaxed) {
            self.total.fetch_sub(1, Ordering::Relaxed);
            return Err(Refusal::Connections);
        }
        Ok(Entered(Arc::clone(self)))
    }

    /// No connection of an address yet.
    fn no_places(&self, is_proxy: bool) -> Places {
        let max = match is_proxy {
            true => u64::MAX,
            false => self.max_memory_per_address.load(Ordering::Relaxed),
        };
        Places {
            memory: Arc::new(Pool::new(max)),
            uploads: Arc::new(UploadMemory::new(ByteSize::from_bytes(max))),
            is_proxy,
            count: 0,
            served: 0,
        }
    }

    /// Bytes of responses' content that are in memory.
    pub(crate) fn memory(&self) -> u64 {
        self.memory.held()
    }

    /// Connections of `address` that are not served yet.
    pub(crate) fn beginning(&self, address: IpAddr) -> usize {
        let address = address.to_canonical();
        let addresses = self.shard(address).lock();
        let places = addresses.get(&address);
        places.map_or(0, |places| places.count - places.served)
    }

    /// Connections that are open.
    pub(crate) fn count(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    fn shard(&self, address: IpAddr) -> &Mutex<HashMap<IpAddr, Places>> {
        let hash = self.hasher.hash_one(address);
        &self.addresses[hash as usize % SHARDS]
    }
}

/// A place among all connections, which is free again when dropped.
#[derive(Debug)]
pub(crate) struct Entered(Arc<Connections>);

impl Entered {
    /// Counts the connection for its client's address, too. The limits for one address do not hold for
    /// a proxy, which has the connections of many clients.
    ///
    /// # Errors
    /// When the limit for the address is reached.
    pub(crate) fn admit(self, address: IpAddr, is_proxy: bool) -> Result<Admission, Refusal> {
        let (connections, address) = (&self.0, address.to_canonical());
        let mut addresses = connections.shard(address).lock();
        let places = addresses
            .entry(address)
            .or_insert_with(|| connections.no_places(is_proxy));
        let max = connections.max_per_address.load(Ordering::Relaxed);
        if places.count >= max && !places.is_proxy {
            return Err(Refusal::PerAddress);
        }
        places.count += 1;
        let pools = Pools {
            address: Arc::clone(&places.memory),
            total: Arc::clone(&connections.memory),
        };
        let uploads = [&places.uploads, &connections.uploads].map(Arc::clone);
        drop(addresses);
        Ok(Admission {
            entered: self,
            address,
            pools,
            uploads,
            served: false,
        })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.total.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Memory that a connection may hold.
#[derive(Debug)]
pub(crate) struct Memory {
    /// For responses.
    pub(crate) account: Arc<Account>,
    /// For requests' bodies: of its address, and of all.
    pub(crate) uploads: [Arc<UploadMemory>; 2],
}

/// A connection's place.
#[derive(Debug)]
pub(crate) struct Admission {
    entered: Entered,
    address: IpAddr,
    pools: Pools,
    uploads: [Arc<UploadMemory>; 2],
    served: bool,
}

impl Admission {
    /// The memory of a connection whose responses may use `max` bytes, and `limits` at most.
    pub(crate) fn memory(&self, max: u64, limits: &Limits) -> Memory {
        Memory {
            account: Account::new(max, limits, self.pools.clone()),
            uploads: self.uploads.clone(),
        }
    }

    /// The address that it counts for.
    pub(crate) const fn address(&self) -> IpAddr {
        self.address
    }

    /// Notes that its connection is served from now on.
    pub(crate) fn serve(&mut self) {
        let mut addresses = self.entered.0.shard(self.address).lock();
        // It is there for as long as this is.
        if let Some(places) = addresses.get_mut(&self.address) {
            places.served += usize::from(!self.served);
        }
        self.served = true;
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut addresses = self.entered.0.shard(self.address).lock();
        if let Some(places) = addresses.get_mut(&self.address) {
            places.count -= 1;
            places.served -= usize::from(self.served);
            if places.count == 0 {
                addresses.remove(&self.address);
            }
        }
    }
}

/// Lets something be said at most once a second, however often it happens.
#[derive(Debug, Default)]
pub(crate) struct OnceASecond(Mutex<Said>);

#[derive(Debug, Default)]
struct Said {
    last: Option<Instant>,
    unsaid: u64,
}

impl OnceASecond {
    /// Whether to say it now: how many times it was left unsaid before.
    pub(crate) fn say(&self, now: Instant) -> Option<u64> {
        const SECOND: Duration = Duration::from_secs(1);
        let mut said = self.0.lock();
        let since = said.last.map(|last| now.saturating_duration_since(last));
        if since.is_some_and(|since| since < SECOND) {
            said.unsaid += 1;
            return None;
        }
        said.last = Some(now);
        Some(std::mem::take(&mut said.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_a_second() {
        let line = OnceASecond::default();
        let start = Instant::now();
        let at = |ms| line.say(start + Duration::from_millis(ms));
        assert_eq!(at(0), Some(0));
        assert_eq!([at(1), at(2), at(999)], [None; 3]);
        assert_eq!(at(1000), Some(3));
        assert_eq!([at(1500), at(2500)], [None, Some(1)]);
    }

    #[test]
    fn places_are_limited_and_come_back() {
        let limits = Limits {
            connections: 3,
            connections_per_address: 2,
            ..Limits::default()
        };
        let connections = Arc::new(Connections::new(&limits));
        let address = |last| IpAddr::from([192, 0, 2, last]);
        let admit = |address| connections.enter()?.admit(address, false);
        let first = admit(address(1)).unwrap();
        let _second = admit("::ffff:192.0.2.1".parse().unwrap()).unwrap();
        assert_eq!(admit(address(1)).unwrap_err(), Refusal::PerAddress);
        let _third = admit(address(2)).unwrap();
        assert_eq!(admit(address(3)).unwrap_err(), Refusal::Connections);
        assert_eq!(connections.beginning(address(1)), 2);
        assert_eq!(connections.beginning(address(3)), 0);
        drop(first);
        assert_eq!(connections.count(), 2);
        let _fourth = admit(address(1)).unwrap();
    }

    #[test]
    fn a_connection_counts_for_its_client_once_that_is_known() {
        let limits = Limits {
            connections: 4,
            connections_per_address: 1,
            ..Limits::default()
        };
        let connections = Arc::new(Connections::new(&limits));
        let address = |last| IpAddr::from([192, 0, 2, last]);
        let unknown = [(); 4].map(|()| connections.enter().unwrap());
        assert_eq!(connections.enter().unwrap_err(), Refusal::Connections);
        let [one, same, proxy, again] = unknown;
        let _one = one.admit(address(1), false).unwrap();
        let refused = same.admit(address(1), false).unwrap_err();
        assert_eq!(refused, Refusal::PerAddress);
        assert_eq!(connections.count(), 3, "its place is free again");
        let proxies = [proxy, again].map(|entered| entered.admit(address(2), true).unwrap());
        assert_eq!(connections.count(), 3, "a proxy has several");
        drop(proxies);
        assert_eq!(connections.count(), 1);
    }
}
