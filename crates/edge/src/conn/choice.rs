//! A decision's offer of HTTP/3, in the words of HTTP.

use std::fmt::Display;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use hikyaku_core::transport::{AltSvc, Decision};
use hikyaku_units::arm::Version;
use http::HeaderValue;

use crate::behind::Advertise;
use crate::clock;
use crate::experiments::Experiments;
use crate::metrics::AltSvcAction;
use hikyaku_content::Peer;

/// A decision, ready to be applied.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) decision: Decision,
    /// `Alt-Svc` with the server's own port, or the authority that is configured.
    header: Option<HeaderValue>,
    pub(super) action: AltSvcAction,
    /// The port in `header`.
    port: u16,
    /// It is configured, so that no request names another.
    is_fixed: bool,
    /// The first port in requests that is another, and `Alt-Svc` with it.
    mapped: OnceLock<(u16, Option<HeaderValue>)>,
    pub(super) at: Instant,
    /// Of the client when it was decided.
    pub(super) epoch: u64,
    /// With the version or the congestion control, up to now.
    pub(super) experiments: Experiments,
}

impl Choice {
    /// A decision that follows `former` experiments. It names the authority to `advertise`, if there is one.
    pub(super) fn new(
        decision: Decision,
        peer: &Peer,
        advertise: Option<&Advertise>,
        epoch: u64,
        former: Experiments,
    ) -> Self {
        let on_h3 = peer.version == Version::H3;
        let port = advertise.map_or(peer.local.port(), Advertise::port);
        let (header, action) = match decision.alt_svc {
            AltSvc::Advertise { ma } => {
                let header = match advertise {
                    Some(authority) => advertisement(authority, ma),
                    None => advertisement(OfHost(port), ma),
                };
                (header, AltSvcAction::Advertise)
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
            port,
            is_fixed: advertise.is_some(),
            mapped: OnceLock::new(),
            at,
            epoch,
            experiments: former.then(decision.visit().is_experiment, at),
        }
    }

    /// The port that `Alt-Svc` names in the response to a request whose authority has the port `asked`. A
    /// client that reaches the server by another port than the server's own has it mapped.
    pub(super) fn port(&self, asked: Option<u16>) -> u16 {
        match asked {
            Some(asked) if !self.is_fixed => asked,
            _ => self.port,
        }
    }

    /// The port that is replaced in such a response, if it is.
    pub(super) fn replaced(&self, asked: Option<u16>) -> Option<u16> {
        let is_named = self.action == AltSvcAction::Advertise;
        (is_named && self.port(asked) != self.port).then_some(self.port)
    }

    /// `Alt-Svc` of such a response; `None` for none.
    pub(super) fn value(&self, asked: Option<u16>) -> Option<HeaderValue> {
        let (AltSvc::Advertise { ma }, Some(_)) = (self.decision.alt_svc, self.replaced(asked))
        else {
            return self.header.clone();
        };
        let port = self.port(asked);
        let made = || advertisement(OfHost(port), ma);
        let (of, value) = self.mapped.get_or_init(|| (port, made()));
        match *of == port {
            true => value.clone(),
            false => made(),
        }
    }
}

/// `Alt-Svc` that advertises HTTP/3 at an authority (RFC 7838 §3).
pub(super) fn advertisement(authority: impl Display, ma: Duration) -> Option<HeaderValue> {
    let ma = ma.as_secs().max(1);
    HeaderValue::try_from(format!("h3=\"{authority}\"; ma={ma}")).ok()
}

/// A port of the host that the client asked for.
struct OfHost(u16);

impl Display for OfHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, ":{}", self.0)
    }
}
