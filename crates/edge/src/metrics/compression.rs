//! The work of the encoders.

use hikyaku_content::compression_counts;
use prometheus_client::registry::Registry;

use super::counters;

/// Adds the bytes that encoders took and made, which all servers of a process share.
pub(super) fn register(registry: &mut Registry) {
    let counts = compression_counts();
    let labels = |coding: &'static str| vec![("coding", coding)];
    counters(
        registry,
        "compression_content_bytes",
        "Bytes of content that were compressed on the fly, before that",
        counts
            .map(|count| (labels(count.coding.name()), count.content))
            .to_vec(),
    );
    counters(
        registry,
        "compression_coded_bytes",
        "Bytes that compression on the fly made of them",
        counts
            .map(|count| (labels(count.coding.name()), count.coded))
            .to_vec(),
    );
}
