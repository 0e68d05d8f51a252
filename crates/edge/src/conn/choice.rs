//! A decision's offer of HTTP/3, in the words of HTTP.

use std::time::Instant;

use hikyaku_core::transport::{AltSvc, Decision};
use hikyaku_units::arm::Version;
use http::HeaderValue;

use crate::clock;
use crate::experiments::Experiments;
use crate::metrics::AltSvcAction;
use hikyaku_content::Peer;

/// A decision, ready to be applied.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) decision: Decision,
    pub(super) header: Option<HeaderValue>,
    pub(super) action: AltSvcAction,
    pub(super) at: Instant,
    /// Of the client when it was decided.
    pub(super) epoch: u64,
    /// With the version or the congestion control, up to now.
    pub(super) experiments: Experiments,
}

impl Choice {
    /// A decision that follows `former` experiments.
    pub(super) fn new(decision: Decision, peer: &Peer, epoch: u64, former: Experiments) -> Self {
        let on_h3 = peer.version == Version::H3;
        let (header, action) = match decision.alt_svc {
            AltSvc::Advertise { ma } => {
                let value = format!("h3=\":{}\"; ma={}", peer.local.port(), ma.as_secs().max(1));
                (HeaderValue::try_from(value).ok(), AltSvcAction::Advertise)
            }
            AltSvc::Withhold if !on_h3 => (None, AltSvcAction::Withhold),
            AltSvc::Withhold | AltSvc::Clear => {
                (Some(HeaderValue::from_static("clear")), AltSvcAction::Clear)
            }
        };
        let at = clock::now();
        Self {
            decision,
            header,
            action,
            at,
            epoch,
            experiments: former.then(decision.visit().is_experiment, at),
        }
    }
}
