//! The two phases of a response.

use super::Criterion;

/// When in a response, or a busy period of a connection, a goodput was seen.
///
/// A route whose RTT is short gains at first, when the window still opens. The rate that it carries,
/// and the cost of its losses, show later. So goodputs are compared within a phase, and evidence of one
/// phase is less sure for the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// From the request on, until the connection has sent for a second or the response is over.
    #[default]
    Startup,
    /// After that.
    Sustained,
}

impl Phase {
    pub(super) const ALL: [Self; 2] = [Self::Startup, Self::Sustained];

    pub(super) const fn other(self) -> Self {
        match self {
            Self::Startup => Self::Sustained,
            Self::Sustained => Self::Startup,
        }
    }
}

/// The qualities that are wanted of a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wants {
    /// The quality that the content class wants.
    pub criterion: Criterion,
    /// The phase that most of the response is sent in ([`RouteView::phase_of`](super::RouteView::phase_of)).
    pub phase: Phase,
}

impl Wants {
    /// How many choices are kept for a client.
    pub(super) const KEPT: usize = 4;

    /// The place of the kept choice: bulk has a choice for each phase.
    pub(super) const fn place(self) -> usize {
        match (self.criterion, self.phase) {
            (Criterion::Goodput, Phase::Startup) => 0,
            (Criterion::Goodput, Phase::Sustained) => 1,
            (Criterion::Stall, _) => 2,
            (Criterion::Rtt, _) => 3,
        }
    }
}

impl From<Criterion> for Wants {
    /// The wants of a response that is over in the first phase.
    fn from(criterion: Criterion) -> Self {
        Self {
            criterion,
            ..Self::default()
        }
    }
}
