//! Metrics of spans.

use prometheus_client::registry::Registry;

use super::counters;

/// Adds the spans that the collector took, and those that were lost.
pub(crate) fn register_spans(registry: &mut Registry, [exported, dropped]: [u64; 2]) {
    counters(
        registry,
        "spans",
        "Spans for the collector of traces, by what became of them",
        vec![
            (vec![("outcome", "exported")], exported),
            (vec![("outcome", "dropped")], dropped),
        ],
    );
}
