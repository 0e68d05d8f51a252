//! Metrics of the gain.

use std::sync::atomic::AtomicU64;

use hikyaku_core::choice::Assignment;
use hikyaku_core::gain::{Ratio, Report};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Adds the gain of the last seven days. Without enough clients the ratios are not a number.
pub(crate) fn register_gain(registry: &mut Registry, report: &Report) {
    let value = |of: fn(&Ratio) -> f64| report.ratio.as_ref().map_or(f64::NAN, of);
    let ratios = [
        (
            "gain_ratio",
            "Load time with hikyaku over that of clients held back, in the last 7 days",
            value(|ratio| ratio.mean),
        ),
        (
            "gain_ratio_low",
            "Lower end of the interval of 95 % of hikyaku_gain_ratio",
            value(|ratio| ratio.low),
        ),
        (
            "gain_ratio_high",
            "Upper end of the interval of 95 % of hikyaku_gain_ratio",
            value(|ratio| ratio.high),
        ),
    ];
    for (name, help, value) in ratios {
        let gauge = Gauge::<f64, AtomicU64>::default();
        gauge.set(value);
        registry.register(name, help, gauge);
    }
    let clients = Family::<Vec<(&'static str, &'static str)>, Gauge>::default();
    let counts = [report.clients.hikyaku, report.clients.hold_back];
    for (assignment, count) in Assignment::ALL.into_iter().zip(counts) {
        let labels = vec![("assignment", assignment.name())];
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        clients.get_or_create(&labels).set(count);
    }
    registry.register(
        "gain_clients",
        "Clients of the last 7 days by assignment",
        clients,
    );
}
