//! Bytes and times that connections have carried, by HTTP version and congestion control.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use hikyaku_units::arm::{Congestion, Version};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

use super::{Labels, Metrics, add, counters, value};

/// Responses that ended over a version and a congestion control.
#[derive(Debug, Default)]
pub(super) struct Carried {
    responses: AtomicU64,
    bytes: AtomicU64,
    time_us: AtomicU64,
}

impl Carried {
    pub(super) fn add(&self, bytes: u64, time: Duration) {
        add(&self.responses, 1);
        add(&self.bytes, bytes);
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        add(&self.time_us, us);
    }
}

impl Metrics {
    pub(super) fn register_carried(&self, registry: &mut Registry) {
        counters(
            registry,
            "congestion_responses",
            "Responses that ended, by version and congestion control",
            self.carried(|carried| value(&carried.responses)),
        );
        counters(
            registry,
            "congestion_body_bytes",
            "Bytes of their bodies",
            self.carried(|carried| value(&carried.bytes)),
        );
        let times = Family::<Labels, Counter<f64, AtomicU64>>::default();
        for (labels, us) in self.carried(|carried| value(&carried.time_us)) {
            times.get_or_create(&labels).inc_by(us as f64 / 1e6);
        }
        registry.register_with_unit(
            "congestion_response",
            "Time of these responses from the request's arrival to the last byte's acknowledgement, summed",
            Unit::Seconds,
            times,
        );
    }

    fn carried(&self, of: impl Fn(&Carried) -> u64) -> Vec<(Labels, u64)> {
        let pairs = Version::ALL
            .into_iter()
            .flat_map(|version| Congestion::ALL.map(|congestion| (version, congestion)));
        let counts = pairs.map(|(version, congestion)| {
            let labels = vec![
                ("version", version.name()),
                ("congestion", congestion.name()),
            ];
            (
                labels,
                of(&self.carried[version.index()][congestion.index()]),
            )
        });
        counts.collect()
    }
}
