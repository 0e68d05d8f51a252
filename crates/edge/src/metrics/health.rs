//! Metrics that show whether the server itself is well.

use std::sync::atomic::Ordering;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Labels, Metrics, Refusal, add, counters, gauge, value};

/// Why a balancer's connection was closed: the PROXY header that it has to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    /// There is none.
    Missing,
    /// It can't be read.
    Malformed,
    /// The connection ended before it, or it did not come in time.
    Incomplete,
}

impl HeaderFault {
    pub(super) const ALL: [Self; 3] = [Self::Missing, Self::Malformed, Self::Incomplete];

    const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Incomplete => "incomplete",
        }
    }
}

impl Metrics {
    pub(crate) fn on_header_fault(&self, fault: HeaderFault) {
        add(&self.headers_refused[fault as usize], 1);
    }

    pub(super) fn register_health(&self, registry: &mut Registry, tasks: usize) {
        gauge(
            registry,
            "tasks",
            "Tasks of the runtime that have not ended",
            tasks as u64,
        );
        counters(
            registry,
            "connections_refused",
            "Connections refused or closed for a limit",
            Refusal::ALL
                .map(|r| (vec![("limit", r.name())], value(&self.refused[r.index()])))
                .to_vec(),
        );
        let failed = [
            ("tcp", &self.handshakes_failed_tcp),
            ("quic", &self.handshakes_failed_quic),
        ];
        counters(
            registry,
            "handshakes_failed",
            "Handshakes that failed or took too long",
            failed
                .map(|(transport, n)| (vec![("transport", transport)], value(n)))
                .to_vec(),
        );
        counters(
            registry,
            "proxy_headers_refused",
            "Connections of balancers without a PROXY header that can be read",
            HeaderFault::ALL
                .map(|f| {
                    let count = value(&self.headers_refused[f as usize]);
                    (vec![("fault", f.name())], count)
                })
                .to_vec(),
        );
        for (name, help, count) in self.single_counts() {
            counters(registry, name, help, vec![(Labels::new(), count)]);
        }
    }

    /// Name, help and value of the counters without labels.
    fn single_counts(&self) -> [(&'static str, &'static str, u64); 8] {
        [
            (
                "pages_spread",
                "Pages whose resources were spread over several connections",
                value(&self.pages_spread),
            ),
            (
                "quic_retries",
                "QUIC clients asked to prove their address",
                value(&self.quic_retries),
            ),
            (
                "store_records_written",
                "Records written to the store",
                value(&self.stored),
            ),
            (
                "accept_failures",
                "Tries to accept a connection that failed for want of descriptors or memory",
                value(&self.accept_failures),
            ),
            (
                "cleartext_connections",
                "Connections of HTTP in the clear",
                value(&self.cleartext_connections),
            ),
            (
                "reloads",
                "Configurations and certificates read anew",
                value(&self.reloads),
            ),
            (
                "reloads_failed",
                "Configurations and certificates that were refused",
                value(&self.reloads_failed),
            ),
            (
                "access_log_lines_dropped",
                "Access log lines that could not be written, or not in time",
                self.access_log.lost(),
            ),
        ]
    }

    pub(super) fn register_store(&self, registry: &mut Registry, unstored: usize) {
        let Some(health) = self.store.get() else {
            return;
        };
        let available = Gauge::<i64>::default();
        available.set(i64::from(health.available.load(Ordering::Relaxed)));
        registry.register(
            "store_available",
            "1 while what is learnt is written to the store",
            available,
        );
        counters(
            registry,
            "store_failures",
            "Tries to open or write the store that failed",
            vec![(Labels::new(), value(&health.failures))],
        );
        gauge(
            registry,
            "store_pending",
            "Changes of records that are still to be written to the store",
            unstored as u64 + value(&health.unwritten),
        );
    }
}
