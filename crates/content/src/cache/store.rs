//! The stored responses of a site, in memory.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use hashbrown::{DefaultHashBuilder, Equivalent as _};
use http::HeaderMap;
use parking_lot::Mutex;
use quick_cache::sync::Cache as Map;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};

use super::behind::Disk;
use super::config::CacheConfig;
use super::flight::{Flight, Flights};
use super::key::{AskedKey, Ignored, Key};
use super::purge::Target;
use super::status::CacheOutcome;
use super::stored::Stored;

/// The stored responses of a site, its requests under way, and its counts.
///
/// The memory for responses is bounded. The ones that are asked for least go first (S3-FIFO, Yang et al.,
/// SOSP 2023).
pub(crate) struct Store {
    pub(super) ignored: Ignored,
    pub(super) flights: Arc<Flights>,
    resources: Map<Key, Arc<Resource>, Weigh, DefaultHashBuilder, CountEvictions>,
    disk: Option<Arc<Disk>>,
    /// Held while a resource changes: a change reads the former state first.
    changing: Mutex<()>,
    memory: u64,
    /// Bytes of responses that arrive and are not stored yet.
    arriving: AtomicU64,
    outcomes: [AtomicU64; CacheOutcome::ALL.len()],
    evictions: Arc<AtomicU64>,
}

/// The responses of a resource.
#[derive(Debug, Default)]
struct Resource {
    /// The newest first.
    variants: Vec<Arc<Stored>>,
    /// Until then requests do not wait for each other, since its responses are not stored. In
    /// milliseconds since 1970.
    passes_until: u64,
}

/// The stored responses of a request's resource.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The response that its fields choose.
    pub(super) stored: Option<Arc<Stored>>,
    /// Another response, which other fields choose.
    pub(super) other: Option<Arc<Stored>>,
    /// Requests do not wait for each other.
    pub(super) passes: bool,
}

#[derive(Clone, Debug)]
struct Weigh;

impl Weighter<Key, Arc<Resource>> for Weigh {
    fn weight(&self, key: &Key, resource: &Arc<Resource>) -> u64 {
        let key = size_of::<Key>() + key.host.len() + key.target.len();
        let variants = resource.variants.iter().map(|stored| stored.size());
        (OVERHEAD + key + size_of::<Resource>() + variants.sum::<usize>()) as u64
    }
}

#[derive(Clone, Debug)]
struct CountEvictions(Arc<AtomicU64>);

impl Lifecycle<Key, Arc<Resource>> for CountEvictions {
    type RequestState = ();

    fn on_evict(&self, (): &mut (), _: Key, resource: Arc<Resource>) {
        self.0.fetch_add(resource.variants.len() as u64, Relaxed);
    }
}

impl Store {
    /// # Errors
    /// If the memory can't be divided. The error is a sentence.
    pub(super) fn new(config: &CacheConfig, disk: Option<Arc<Disk>>) -> Result<Self, String> {
        let memory = config.memory.bytes();
        // A part must have room for some of the largest responses.
        let parts = memory / (4 * config.object_size.bytes().max(1));
        let parts = 1 << parts.clamp(1, MAX_PARTS).ilog2();
        let entries = usize::try_from(memory / USUAL_SIZE).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .shards(parts)
            .estimated_items_capacity(entries.max(32 * parts))
            .weight_capacity(memory)
            .build()
            .map_err(|error| format!("`cache.memory`: {error}"))?;
        let evictions = Arc::<AtomicU64>::default();
        let count = CountEvictions(Arc::clone(&evictions));
        Ok(Self {
            ignored: Ignored::new(&config.ignore_query),
            flights: Arc::default(),
            resources: Map::with_options(options, Weigh, DefaultHashBuilder::default(), count),
            disk,
            changing: Mutex::new(()),
            memory,
            arriving: AtomicU64::new(0),
            outcomes: Default::default(),
            evictions,
        })
    }

    pub(super) fn find(&self, key: &AskedKey<'_>, fields: &HeaderMap, now: u64) -> Found {
        let Some(resource) = self.resources.get(key) else {
            return Found::default();
        };
        let mut variants = resource.variants.iter();
        let chosen = variants.find(|stored| stored.head.selector.matches(fields));
        Found {
            stored: chosen.cloned(),
            other: match chosen {
                Some(_) => None,
                None => resource.variants.first().cloned(),
            },
            passes: now < resource.passes_until,
        }
    }

    /// Stores the response of a flight, in place of the one that the same fields choose. One that was purged
    /// meanwhile is not stored.
    pub(super) fn put(&self, key: &Key, stored: Arc<Stored>, flight: &Flight) {
        self.change(key, |resource| {
            if flight.is_purged() {
                return;
            }
            resource.passes_until = 0;
            let variants = &mut resource.variants;
            variants.retain(|other| other.head.selector != stored.head.selector);
            variants.insert(0, stored);
            variants.truncate(MAX_VARIANTS);
        });
    }

    /// Removes a response that is not to be used any more.
    pub(super) fn drop_stored(&self, key: &Key, stored: &Arc<Stored>) {
        self.change(key, |resource| {
            let variants = &mut resource.variants;
            variants.retain(|other| !Arc::ptr_eq(other, stored));
        });
    }

    /// Lets requests for a resource pass for a while, since its responses are not stored.
    pub(super) fn let_pass(&self, key: &Key, now: u64) {
        self.change(key, |resource| resource.passes_until = now + PASSES_FOR);
    }

    /// Lets requests for a resource wait for each other again.
    pub(super) fn stop_passing(&self, key: &Key) {
        self.change(key, |resource| resource.passes_until = 0);
    }

    fn change(&self, key: &Key, change: impl FnOnce(&mut Resource)) {
        let _changing = self.changing.lock();
        let mut resource = match self.resources.peek(key) {
            Some(there) => Resource {
                variants: there.variants.clone(),
                passes_until: there.passes_until,
            },
            None => Resource::default(),
        };
        change(&mut resource);
        self.resources.insert(key.clone(), Arc::new(resource));
    }

    pub(super) fn disk(&self) -> Option<Arc<Disk>> {
        self.disk.clone()
    }

    /// Removes the responses of resources from the disk.
    pub(super) async fn forget_on_disk(&self, keys: Vec<Key>) {
        if let Some(disk) = self.disk() {
            let removing = move || keys.iter().for_each(|key| disk.remove(key));
            // It fails only when the server ends.
            let _ = tokio::task::spawn_blocking(removing).await;
        }
    }

    /// Removes the responses of resources, and keeps those from being stored that are under way. Returns how
    /// many were stored. With a disk it works on files.
    pub(super) fn purge(&self, target: &Target) -> usize {
        let in_memory = self.purge_memory(target);
        let on_disk = self.disk.as_ref().map_or(0, |disk| disk.purge(target));
        // Most are in both.
        in_memory.max(on_disk)
    }

    fn purge_memory(&self, target: &Target) -> usize {
        let _changing = self.changing.lock();
        // A response that is under way may have any tag.
        self.flights
            .purge(|key| matches!(target, Target::Tag(_)) || target.is_key(key));
        let purged = AtomicUsize::new(0);
        self.resources.retain(|key, resource| {
            let mut variants = resource.variants.iter();
            let is_meant = target.is_key(key) || variants.any(|stored| target.is_tag_of(stored));
            if is_meant {
                purged.fetch_add(resource.variants.len(), Relaxed);
            }
            !is_meant
        });
        purged.into_inner()
    }

    /// Removes the responses of a resource whose state has changed.
    pub(super) fn invalidate(&self, key: &AskedKey<'_>) {
        let _changing = self.changing.lock();
        self.flights.purge(|other| key.equivalent(other));
        self.resources.remove(key);
    }

    /// The memory of a response that is about to arrive.
    pub(super) fn lease(self: &Arc<Self>) -> Lease {
        Lease {
            store: Arc::clone(self),
            bytes: 0,
        }
    }

    pub(super) fn count(&self, outcome: CacheOutcome) {
        self.outcomes[outcome.index()].fetch_add(1, Relaxed);
    }

    pub(super) fn outcomes(&self) -> [(CacheOutcome, u64); CacheOutcome::ALL.len()] {
        CacheOutcome::ALL.map(|outcome| (outcome, self.outcomes[outcome.index()].load(Relaxed)))
    }

    pub(super) fn evictions(&self) -> u64 {
        self.evictions.load(Relaxed)
    }

    /// Bytes that are stored.
    pub(super) fn bytes(&self) -> u64 {
        self.resources.weight()
    }

    /// Resources with stored responses, or of which it is known that there are none.
    pub(super) fn entries(&self) -> u64 {
        self.resources.len() as u64
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut store = f.debug_struct("Store");
        store.field("memory", &self.memory).finish_non_exhaustive()
    }
}

/// Memory of a response that arrives, until it is stored or given up.
#[derive(Debug)]
pub(super) struct Lease {
    store: Arc<Store>,
    bytes: u64,
}

impl Lease {
    /// Takes more. Returns whether all responses that arrive have a half of the memory at most.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        self.bytes += bytes as u64;
        let before = self.store.arriving.fetch_add(bytes as u64, Relaxed);
        before + bytes as u64 <= self.store.memory / 2
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.store.arriving.fetch_sub(self.bytes, Relaxed);
    }
}

/// Responses of one resource. An older one goes for one more.
const MAX_VARIANTS: usize = 32;

/// Milliseconds for which requests do not wait for each other after a response that is not stored.
const PASSES_FOR: u64 = 10_000;

/// Bytes that the map takes for a resource.
const OVERHEAD: usize = 96;

/// Bytes of a usual response, by which the map estimates how many there are.
const USUAL_SIZE: u64 = 16 << 10;

/// Parts of the map with a lock each.
const MAX_PARTS: u64 = 64;
