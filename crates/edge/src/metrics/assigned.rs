//! Responses by the side of the comparison that shows the gain, with the version and congestion control that
//! they had.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use hikyaku_core::choice::Assignment;
use hikyaku_units::arm::{Congestion, Version};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

use super::{Labels, add, counters, value};

/// Number and time of responses, counted without a lock.
#[derive(Debug, Default)]
pub(super) struct Assigned {
    cells: [[[Cell; Congestion::ALL.len()]; Version::ALL.len()]; Assignment::ALL.len()],
}

#[derive(Debug, Default)]
struct Cell {
    responses: AtomicU64,
    time_us: AtomicU64,
}

impl Assigned {
    pub(super) fn observe(
        &self,
        assignment: Assignment,
        version: Version,
        congestion: Congestion,
        time: Duration,
    ) {
        let cell = &self.cells[assignment.index()][version.index()][congestion.index()];
        add(&cell.responses, 1);
        add(
            &cell.time_us,
            u64::try_from(time.as_micros()).unwrap_or(u64::MAX),
        );
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let mut responses = Vec::new();
        let times = Family::<Labels, Counter<f64, AtomicU64>>::default();
        for assignment in Assignment::ALL {
            for version in Version::ALL {
                for congestion in Congestion::ALL {
                    let cell = &self.cells[assignment.index()][version.index()][congestion.index()];
                    let labels = vec![
                        ("assignment", assignment.name()),
                        ("version", version.name()),
                        ("congestion", congestion.name()),
                    ];
                    let secs = value(&cell.time_us) as f64 / 1e6;
                    times.get_or_create(&labels).inc_by(secs);
                    responses.push((labels, value(&cell.responses)));
                }
            }
        }
        counters(
            registry,
            "responses_by_assignment",
            "Responses by the side of the comparison that their client was drawn for",
            responses,
        );
        registry.register_with_unit(
            "response_time_by_assignment",
            "Sum of the times from a request's arrival until its response's last byte is acknowledged",
            Unit::Seconds,
            times,
        );
    }
}
