//! The choice of routes as it was, to compare with.
#![allow(dead_code, missing_docs, unreachable_pub, unused_imports)]

mod code;
mod decide;
mod reason;
mod tests;

use super::{
    Candidates, Criterion, EgressNames, Measure, Mode, Mptcp, Route, RouteGain, RouteQuality,
    RouteView, Singles, Wants,
};
pub(in crate::egress) use code::RouteReasonCode;
pub(in crate::egress) use decide::{RouteDecision, Rules, Verdict, decide_route, mptcp_share};
pub(in crate::egress) use reason::RouteReason;
