//! Metrics of the caches of upstreams' responses.

use hikyaku_content::CacheStatus;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::counters;

type Labels = Vec<(&'static str, String)>;

/// Adds the state of the caches, where there are any.
pub(crate) fn register_caches(registry: &mut Registry, caches: &[CacheStatus]) {
    if caches.is_empty() {
        return;
    }
    let requests = caches.iter().flat_map(|cache| {
        let counts = cache.requests.iter();
        counts.map(|(outcome, count)| {
            let mut labels = labels(cache);
            labels.push(("outcome", outcome.name().to_owned()));
            (labels, *count)
        })
    });
    counters(
        registry,
        "cache_requests",
        "Requests by what the cache did with them",
        requests.collect(),
    );
    counters(
        registry,
        "cache_evictions",
        "Stored responses that went for others",
        caches
            .iter()
            .map(|cache| (labels(cache), cache.evictions))
            .collect(),
    );
    let gauge = |value: fn(&CacheStatus) -> Option<u64>| {
        let family = Family::<Labels, Gauge>::default();
        for cache in caches {
            if let Some(value) = value(cache) {
                let gauge = family.get_or_create(&labels(cache));
                gauge.set(value.cast_signed());
            }
        }
        family
    };
    registry.register(
        "cache_entries",
        "URLs with stored responses, or of which it is known that there are none",
        gauge(|cache| Some(cache.entries)),
    );
    registry.register_with_unit(
        "cache_memory",
        "Memory of the stored responses",
        Unit::Bytes,
        gauge(|cache| Some(cache.bytes)),
    );
    registry.register(
        "cache_files",
        "Files of the stored responses on disk",
        gauge(|cache| cache.disk.map(|(_, files)| files)),
    );
    registry.register_with_unit(
        "cache_disk",
        "Bytes of these files",
        Unit::Bytes,
        gauge(|cache| cache.disk.map(|(bytes, _)| bytes)),
    );
}

fn labels(cache: &CacheStatus) -> Labels {
    vec![("site", cache.site.clone())]
}
