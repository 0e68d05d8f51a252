//! Metrics of certificates that are got by ACME.

use hikyaku_acme::Status;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::counters;

/// Adds what Prometheus shall know of orders: those that gave a certificate, those that failed, and how each
/// certificate fares.
pub(crate) fn register_acme(
    registry: &mut Registry,
    (issued, failed): (u64, u64),
    statuses: &[Status],
) {
    counters(
        registry,
        "acme_orders",
        "Orders of certificates by their result",
        vec![
            (vec![("result", "issued")], issued),
            (vec![("result", "failed")], failed),
        ],
    );
    let failures = Family::<Vec<(&'static str, String)>, Gauge>::default();
    let next = Family::<Vec<(&'static str, String)>, Gauge>::default();
    for status in statuses {
        let name = status.names.first().cloned().unwrap_or_default();
        let labels = vec![("certificate", name)];
        failures.get_or_create(&labels).set(status.failures.into());
        next.get_or_create(&labels).set(status.next_order);
    }
    registry.register(
        "acme_failures_in_a_row",
        "Orders of a certificate that have failed since the last success",
        failures,
    );
    registry.register_with_unit(
        "acme_next_order",
        "When a certificate is ordered next, since the Unix epoch",
        Unit::Seconds,
        next,
    );
}
