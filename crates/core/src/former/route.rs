mod compare;
mod decide;
mod reason;

pub use compare::{Measure, RouteGain};
pub use decide::{RouteDecision, decide_route, mptcp_share};
pub use reason::RouteReason;
