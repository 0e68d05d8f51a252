//! The caches of a server, which outlive reloads.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use hikyaku_units::ByteSize;
use parking_lot::Mutex;

use super::behind::Disk;
use super::config::CacheConfig;
use super::purge::{ParsePurgeError, Purge, Target};
use super::status::CacheOutcome;
use super::store::Store;

/// The caches of a server; clones share them. They outlive a reload: a site whose `memory`,
/// `object_size` and `ignore_query` stay keeps its stored responses.
#[derive(Clone, Debug, Default)]
pub struct Caches(Arc<Mutex<Registry>>);

#[derive(Debug, Default)]
struct Registry {
    /// By their sites.
    stores: BTreeMap<Box<str>, Known>,
    /// By their directories, with their bounds.
    disks: BTreeMap<PathBuf, (ByteSize, Weak<Disk>)>,
}

#[derive(Debug)]
struct Known {
    config: CacheConfig,
    store: Weak<Store>,
}

/// The cache of a site, and what it has done since the server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheStatus {
    /// The first name of the site; empty for the site of all other hosts.
    pub site: String,
    /// Requests by what the cache did with them.
    pub requests: [(CacheOutcome, u64); CacheOutcome::ALL.len()],
    /// Responses that went for others.
    pub evictions: u64,
    /// Bytes and number of files, where they are stored on disk, too.
    pub disk: Option<(u64, u64)>,
    /// Memory of the stored responses in bytes.
    pub bytes: u64,
    /// Resources with stored responses, or of which it is known that there are none.
    pub entries: u64,
}

impl Caches {
    /// The cache of a site, which is a new one unless it is there with the same settings.
    ///
    /// # Errors
    /// If a new one can't be had. The error is a sentence.
    pub(crate) fn store(&self, site: &str, config: &CacheConfig) -> Result<Arc<Store>, String> {
        let registry = &mut *self.0.lock();
        let all = &mut registry.stores;
        all.retain(|_, known| known.store.strong_count() > 0);
        if let Some(known) = all.get(site)
            && known.config.has_store_of(config)
            && let Some(store) = known.store.upgrade()
        {
            return Ok(store);
        }
        let dir = config.dir.as_ref();
        let dir = dir.map(|dir| dir.join(directory_of(site)));
        let disk = dir
            .map(|dir| open_disk(&mut registry.disks, dir, config.disk))
            .transpose()?;
        let store = Arc::new(Store::new(config, disk)?);
        let known = Known {
            config: config.clone(),
            store: Arc::downgrade(&store),
        };
        all.insert(site.into(), known);
        Ok(store)
    }

    /// Removes stored responses, and keeps those from being stored that are under way. Returns how many
    /// were stored.
    ///
    /// # Errors
    /// If it names a URL that is none.
    pub fn purge(&self, purge: &Purge) -> Result<usize, ParsePurgeError> {
        purge.check()?;
        let mut purged = 0;
        for (_, store) in self.stores() {
            purged += store.purge(&purge.target(&store.ignored)?);
        }
        Ok(purged)
    }

    /// Removes all stored responses, and keeps those from being stored that are under way. Returns how many
    /// were stored.
    pub fn clear(&self) -> usize {
        let stores = self.stores().into_iter();
        stores.map(|(_, store)| store.purge(&Target::All)).sum()
    }

    /// All caches in the order of their sites.
    pub fn statuses(&self) -> Vec<CacheStatus> {
        let stores = self.stores().into_iter();
        let statuses = stores.map(|(site, store)| CacheStatus {
            site,
            requests: store.outcomes(),
            evictions: store.evictions(),
            disk: store.disk().map(|disk| {
                let counts = disk.counts();
                (counts.bytes, counts.entries)
            }),
            bytes: store.bytes(),
            entries: store.entries(),
        });
        statuses.collect()
    }

    /// Leaves all directories to another process, as in an upgrade: responses are kept in memory alone.
    pub fn lend(&self) {
        self.disks().iter().for_each(|disk| disk.release());
    }

    /// Takes the directories back. Without one, that site's responses stay in memory alone, and the log
    /// reports it.
    pub fn take_back(&self) {
        for disk in self.disks() {
            if let Err(error) = disk.take_back() {
                tracing::error!("taking the cache's directory back: {error}");
            }
        }
    }

    fn disks(&self) -> Vec<Arc<Disk>> {
        let all = self.0.lock();
        let disks = all.disks.values();
        disks.filter_map(|(_, disk)| disk.upgrade()).collect()
    }

    fn stores(&self) -> Vec<(String, Arc<Store>)> {
        let all = self.0.lock();
        let stores = all
            .stores
            .iter()
            .filter_map(|(site, known)| Some((site.to_string(), known.store.upgrade()?)));
        stores.collect()
    }
}

/// The name of a site's directory. No site has a name that begins with a dot.
fn directory_of(site: &str) -> String {
    match site {
        "" => ".others".to_owned(),
        site => site.replace('*', "_").to_ascii_lowercase(),
    }
}

/// Opens the directory of a site, unless it is open. It stays open over reloads.
fn open_disk(
    disks: &mut BTreeMap<PathBuf, (ByteSize, Weak<Disk>)>,
    dir: PathBuf,
    limit: ByteSize,
) -> Result<Arc<Disk>, String> {
    if let Some((bound, disk)) = disks.get(&dir)
        && let Some(disk) = disk.upgrade()
    {
        return match *bound == limit {
            true => Ok(disk),
            false => Err("`cache.disk` is another than before: it needs a restart".to_owned()),
        };
    }
    let disk = Disk::open(dir.clone(), limit.bytes())
        .map_err(|error| format!("`cache.dir`: opening {}: {error}", dir.display()))?;
    let disk = Arc::new(disk);
    disks.insert(dir, (limit, Arc::downgrade(&disk)));
    Ok(disk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_known_while_somebody_has_it_and_its_settings_stay() {
        let caches = Caches::default();
        let config = CacheConfig::default();
        let a = caches.store("a", &config).unwrap();
        let other_rules = CacheConfig {
            heuristic: false,
            ..config.clone()
        };
        assert!(Arc::ptr_eq(&a, &caches.store("a", &other_rules).unwrap()));
        let b = caches.store("b", &config).unwrap();
        assert!(!Arc::ptr_eq(&a, &b));
        let smaller = CacheConfig {
            memory: ByteSize::from_mib(1),
            object_size: ByteSize::from_kib(1),
            ..config.clone()
        };
        let changed = caches.store("a", &smaller).unwrap();
        assert!(!Arc::ptr_eq(&a, &changed));
        let sites = |caches: &Caches| {
            let statuses = caches.statuses().into_iter();
            statuses.map(|status| status.site).collect::<Vec<_>>()
        };
        assert_eq!(sites(&caches), ["a", "b"]);
        drop((a, b));
        assert_eq!(sites(&caches), ["a"]);
        drop(changed);
        assert!(sites(&caches).is_empty());
    }
}
