//! The network under test.

use std::time::Duration;

use hikyaku_netsim::LinkConfig;

use super::CheckError;
use crate::link::{LinkPair, Report, Topology};

/// Maker of the networks under test. Each measurement has one of its own, without retransmissions
/// of the connection before.
pub(super) struct Bench {
    quick: bool,
    disturbance: Option<String>,
}

impl Bench {
    pub(super) fn new(quick: bool) -> Self {
        Self {
            quick,
            disturbance: None,
        }
    }

    /// Returns the first, or the second for a quick test.
    pub(super) fn either<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Does `work` over a link that is alike in both directions. Returns its result and the link's
    /// report.
    pub(super) fn over<T>(
        &mut self,
        config: LinkConfig,
        seed: u64,
        work: impl FnOnce(&Topology) -> Result<T, CheckError>,
    ) -> Result<(T, Report), CheckError> {
        let mut topology = Topology::create()?;
        topology.start_link(LinkPair::symmetric(config), seed)?;
        let result = work(&topology);
        let report = topology.stop_link()?.ok_or("the link no longer exists")?;
        self.disturbance = report.disturbed();
        Ok((result?, report))
    }

    pub(super) fn forget_disturbance(&mut self) {
        self.disturbance = None;
    }

    /// Returns the disturbance of the latest link.
    pub(super) fn disturbance(&self) -> Option<&str> {
        self.disturbance.as_deref()
    }
}

/// Share of a CPU that the pump took.
pub(super) fn cpu_share(report: &Report) -> f64 {
    report
        .cpu
        .div_duration_f64(report.elapsed.max(Duration::from_nanos(1)))
}
