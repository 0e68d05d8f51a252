//! Metrics of the fleet's store.

use std::sync::atomic::AtomicU64;

use hikyaku_fleet::{Counts, Entry, Status, Topic};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::{Labels, counters, gauge};

/// Adds the state of this edge's part in a fleet.
pub(crate) fn register_fleet(registry: &mut Registry, status: &Status) {
    for (name, help, value) in gauges(status) {
        gauge(registry, name, help, value);
    }
    for (name, help, seconds) in times(status) {
        let gauge = Gauge::<f64, AtomicU64>::default();
        gauge.set(seconds);
        registry.register_with_unit(name, help, Unit::Seconds, gauge);
    }
    let counts = &status.counts;
    let reads = [
        ("answered", counts.reads),
        ("late", counts.late),
        ("dropped", counts.dropped),
        ("down", counts.unavailable),
    ];
    counters(
        registry,
        "fleet_reads",
        "Reads of what other edges know, by outcome",
        reads
            .map(|(outcome, count)| (vec![("outcome", outcome)], count))
            .to_vec(),
    );
    register_contents(registry, status);
    for (name, help, count) in single_counts(counts) {
        counters(registry, name, help, vec![(Labels::new(), count)]);
    }
}

/// Adds the number of sealed contents that this edge has, by topic.
fn register_contents(registry: &mut Registry, status: &Status) {
    let contents = Family::<Vec<(&'static str, &'static str)>, Gauge>::default();
    for topic in Topic::ALL {
        let of_topic = |entry: &&Entry| entry.topic == topic.word();
        let count = status.contents.iter().filter(of_topic).count();
        let labels = vec![("topic", topic.word())];
        contents
            .get_or_create(&labels)
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }
    registry.register(
        "fleet_contents",
        "Contents that the fleet has in common and that this edge holds, by topic",
        contents,
    );
}

fn gauges(status: &Status) -> [(&'static str, &'static str, u64); 5] {
    let heard = status.members.iter().filter(|member| !member.silent);
    [
        (
            "fleet_store_up",
            "1 while the fleet's store answers",
            u64::from(status.up),
        ),
        (
            "fleet_store_writable",
            "1 while the fleet's store can be written",
            u64::from(status.up && status.write_fault.is_none()),
        ),
        (
            "fleet_members",
            "Edges that were heard of in the last ten seconds",
            heard.count() as u64,
        ),
        (
            "fleet_store_keys",
            "Keys of the store's database",
            status.keys.unwrap_or(0),
        ),
        (
            "fleet_store_key_bytes",
            "Memory of the store for one key, as measured last",
            status.key_bytes.unwrap_or(0),
        ),
    ]
}

fn times(status: &Status) -> [(&'static str, &'static str, f64); 3] {
    [
        (
            "fleet_lag",
            "How long what was learnt has waited to be written",
            status.lag_ms as f64 / 1e3,
        ),
        (
            "fleet_clock_skew",
            "This host's clock less that of the store",
            status.skew_ms as f64 / 1e3,
        ),
        (
            "fleet_store_answer",
            "How long the store took to answer last",
            status.answer_us as f64 / 1e6,
        ),
    ]
}

fn single_counts(counts: &Counts) -> [(&'static str, &'static str, u64); 10] {
    [
        (
            "fleet_keys_written",
            "Keys written to the fleet's store",
            counts.written,
        ),
        (
            "fleet_keys_refused",
            "Keys that were not added, since the store has fleet.max_keys",
            counts.refused,
        ),
        (
            "fleet_fields_ignored",
            "Fields of other edges that make no sense or are of another release",
            counts.ignored,
        ),
        (
            "fleet_failures",
            "Tries to reach or write the fleet's store that failed",
            counts.failures,
        ),
        (
            "fleet_connections",
            "Connections to the fleet's store",
            counts.connections,
        ),
        (
            "fleet_store_emptied",
            "Times that the store came back with other contents",
            counts.emptied,
        ),
        (
            "fleet_purges",
            "Purges of other edges that were applied",
            counts.purges,
        ),
        (
            "fleet_contents_written",
            "Sealed contents written to the fleet's store",
            counts.contents_written,
        ),
        (
            "fleet_contents_unsealed",
            "Contents in the fleet's store that no secret of the key file opened",
            counts.unsealed,
        ),
        (
            "fleet_contents_older",
            "Contents in the fleet's store that were older than those of this edge, or void",
            counts.older,
        ),
    ]
}
