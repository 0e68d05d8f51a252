//! The choice of HTTP version and congestion control for one client, with its reasons.

mod compare;
mod congestion;
mod correct;
mod lease;
mod lots;
mod plane;
mod reason;
mod rules;
mod state;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use hikyaku_units::arm::{Arm, ByTransport, CongestionSet, Transport, Version};
use hikyaku_units::{ByteSize, LossRate, Rate};

use crate::choice::{Assignment, Gain, Group, Session, Visit};
use crate::client::sample::Decided;
use crate::client::view::ClientView;
use correct::Corrected;

pub use congestion::{CongestionChoice, CongestionGain, CongestionReason};
pub use lots::Treatment;
pub use plane::{Plane, gains};
pub use reason::{UdpBar, UdpFailure, VersionReason, VersionReasonCode};
#[cfg(test)]
pub(crate) use rules::tests;
pub use rules::{decide, loads, treatments};
pub use state::{State, StateError};

/// The decision for a client now, with its reason. `Display` gives the version with it as a sentence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// The preferred version: HTTP/2 or HTTP/3, or the pinned one.
    pub version: Version,
    /// The `Alt-Svc` field of responses: the same over all versions, or browsers flap within a page.
    pub alt_svc: AltSvc,
    /// Why.
    pub reason: VersionReason,
    /// The group whose outcomes this session's count to.
    pub group: Group,
    /// The side of the comparison that the client is on.
    pub assignment: Assignment,
    /// The probability of all draws together that lead to this assignment, version and congestion controls
    /// for a client of which this is known. 1 where nothing is drawn.
    pub probability: f64,
    /// The treatment by a shadow policy, where there is one. It acts on nothing.
    pub shadow: Option<Treatment>,
    /// The session the decision holds for.
    pub session: Session,
    /// The congestion control of each transport, whichever the client comes over.
    pub congestion: ByTransport<CongestionChoice>,
    /// The expected load time of a response by each arm.
    corrected: Option<Corrected>,
    /// The knowledge that it was made from.
    view: ClientView,
    available: ByTransport<CongestionSet>,
}

impl Decision {
    /// The expected load time of a response by an arm. `None` where that can't be said, or the settings
    /// or the available arms rule the arm out.
    #[must_use]
    pub fn load(&self, arm: Arm) -> Option<Load> {
        self.corrected.as_ref()?.load(arm)
    }

    /// The expected load time of a response by the congestion control of a transport; `None` as for
    /// [`Decision::load`].
    #[must_use]
    pub fn load_over(&self, transport: Transport) -> Option<Load> {
        let congestion = self.congestion.get(transport).congestion;
        self.load(Arm::over(transport, congestion))
    }

    /// The knowledge that it was made from.
    #[must_use]
    pub const fn view(&self) -> &ClientView {
        &self.view
    }

    /// This decision, with the one that a shadow policy makes beside it.
    #[must_use]
    pub fn beside(self, shadow: &Self) -> Self {
        let shadow = Some(Treatment::of(shadow));
        Self { shadow, ..self }
    }

    /// The arm that a shadow policy would have preferred, where it is another one.
    #[must_use]
    pub fn shadow_apart(&self) -> Option<Arm> {
        let [this, that] = [Treatment::of(self), self.shadow?].map(|treatment| treatment.arm());
        (this != that).then_some(that)
    }

    /// The arm of a connection over the decided version.
    #[must_use]
    pub const fn arm(&self) -> Arm {
        let transport = self.version.transport();
        Arm::over(transport, self.congestion.get(transport).congestion)
    }

    /// The share of the load time by the arm of an ordinary server that the decided arm is expected to save. It
    /// is negative where that arm takes longer, and `None` where that can't be said. `min_rtt` is the path's.
    #[must_use]
    pub fn saves(&self, min_rtt: Duration, ordinary: Arm) -> Option<f32> {
        let [decided, ordinary] = [self.arm(), ordinary].map(|arm| {
            let load = self.load(arm)?;
            Some(visit_time(arm, load.time, min_rtt))
        });
        Some(saved(decided?, ordinary?))
    }

    /// The session, as the choice of a route has to know it.
    #[must_use]
    pub fn visit(&self) -> Visit {
        Visit {
            session: self.session,
            is_experiment: self.group.is_experiment(),
            is_held_back: self.assignment.is_held_back(),
        }
    }

    /// The part of this decision that the client's estimate has to remember.
    #[must_use]
    pub fn decided(&self) -> Decided {
        Decided {
            version: self.version,
            congestion: ByTransport::from_fn(|transport| {
                let choice = self.congestion.get(transport);
                let is_steady = choice.reason.group() == Group::Normal;
                is_steady.then_some(choice.congestion)
            }),
            group: self.group,
            session: self.session,
        }
    }
}

/// A response's load time with the round trip that TCP's handshake takes longer than QUIC's.
pub(crate) fn visit_time(arm: Arm, load: Duration, min_rtt: Duration) -> Duration {
    match arm.version.transport() {
        Transport::Tcp => load.saturating_add(min_rtt),
        Transport::Quic => load,
    }
}

/// The share of `ordinary` by which `time` is shorter; `ordinary` is above 0.
pub(crate) fn saved(time: Duration, ordinary: Duration) -> f32 {
    1.0 - time.as_secs_f32() / ordinary.as_secs_f32().max(1e-9)
}

/// The statement about HTTP/3 in `Alt-Svc` (RFC 7838).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AltSvc {
    /// `h3=":port"; ma=...`.
    Advertise {
        /// How long the client may remember it; at least one second. `ma=0` is never given: browsers
        /// ignore it.
        ma: Duration,
    },
    /// Nothing over TCP. Over HTTP/3 `clear`, which takes browsers to HTTP/2 with their next request.
    Withhold,
    /// `clear` over all versions, where UDP fails. A client that still holds an advertisement meets the
    /// server over TCP alone. It tries QUIC in vain at the start of each session until it forgets.
    Clear,
}

/// An expected load time: from the request's arrival until the last byte is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The time, corrected by outcomes.
    #[serde(with = "hikyaku_units::duration")]
    pub time: Duration,
    /// Relative standard deviation of the model's and the correction's error.
    pub rel_sd: f32,
}

/// HTTP/2 and HTTP/3 compared for one client, each over its best congestion control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// HTTP/2, with the round trip that its handshake takes longer.
    pub h2: Load,
    /// HTTP/3.
    pub h3: Load,
    /// Response size that the times are for.
    pub size: ByteSize,
    /// The path's smallest round-trip time.
    pub min_rtt: Duration,
    /// Loss assumed for TCP.
    pub loss_tcp: LossRate,
    /// Loss assumed for QUIC.
    pub loss_quic: LossRate,
    /// The path's rate.
    pub rate: Rate,
    /// Gain of HTTP/3: how much longer HTTP/2 takes, as a share of HTTP/3's time (VERSION §4.2.2).
    /// Negative where HTTP/2 is faster.
    pub h3_gain: Gain,
    /// Expected gain that a change of the client's version needs, as a share.
    pub needed: f32,
}

impl Comparison {
    /// Expected load of `version`; HTTP/1.1 counts as HTTP/2.
    #[must_use]
    pub const fn load(&self, version: Version) -> Load {
        match version {
            Version::H1 | Version::H2 => self.h2,
            Version::H3 => self.h3,
        }
    }

    /// Gain of `version` over the other.
    #[must_use]
    pub fn gain(&self, version: Version) -> Gain {
        match version {
            Version::H1 | Version::H2 => self.h3_gain.reversed(),
            Version::H3 => self.h3_gain,
        }
    }
}
