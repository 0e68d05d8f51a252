//! Metrics of the summaries that clients carry in their session tickets.

use prometheus_client::registry::Registry;

use super::{Metrics, add, counters, value};

/// The use of a summary that a client has carried here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Summary {
    /// It says more of the client than is known here.
    Used,
    /// It is too old, or says no more than is known here.
    Known,
    /// It has the format of another release.
    Unreadable,
}

impl Summary {
    pub(super) const ALL: [Self; 3] = [Self::Used, Self::Known, Self::Unreadable];

    const fn name(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Known => "known",
            Self::Unreadable => "unreadable",
        }
    }
}

impl Metrics {
    pub(crate) fn on_summary(&self, summary: Summary) {
        add(&self.summaries[summary as usize], 1);
    }

    pub(super) fn register_summaries(&self, registry: &mut Registry) {
        let summaries = Summary::ALL.map(|summary| {
            let count = value(&self.summaries[summary as usize]);
            (vec![("outcome", summary.name())], count)
        });
        counters(
            registry,
            "session_summaries",
            "Summaries of the path that clients brought in session tickets, by outcome",
            summaries.to_vec(),
        );
    }
}
