//! The arms' load times for one client, and the steady choice from them.

use super::correct::{Corrected, Handshake, Predicted};
use super::{Comparison, CongestionChoice, CongestionGain, CongestionReason};
use crate::choice::{Change, Missing, Rival};
use crate::client::view::ClientView;
use crate::model::Model;
use crate::policy::PolicyConfig;
use crate::stat::Stat;
use hikyaku_units::Rate;
use hikyaku_units::arm::{ARMS, Arm, ByTransport, Congestion, CongestionSet, Transport, Version};

/// The load times and choices that a decision compares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared {
    pub(super) corrected: Corrected,
    /// The best congestion control of each transport.
    pub(super) congestion: ByTransport<CongestionChoice>,
    /// HTTP/2 against HTTP/3 over these.
    pub(super) comparison: Comparison,
    handshake: Handshake,
    predicted: [Option<Predicted>; ARMS],
    /// The client's own outcomes.
    own: [Stat; ARMS],
    much: f32,
}

/// Compares all arms of `candidates` for the client's path and its typical response.
pub(super) fn compare(
    view: &ClientView,
    model: &Model,
    policy: &PolicyConfig,
    candidates: &ByTransport<CongestionSet>,
) -> Result<Compared, Missing> {
    let min_rtt = view.min_rtt.ok_or(Missing::Rtt)?;
    let rate = view.rate.ok_or(Missing::Rate)?;
    let size = view.size.unwrap_or(policy.typical_size);
    let predicted = predict(view, model, size.bytes(), candidates);
    let corrected = Corrected::new(&predicted, &view.outcome);
    let steady = |transport| Steady {
        corrected: &corrected,
        transport,
        candidates: *candidates.get(transport),
        kept: *view.congestion.get(transport),
        policy,
    };
    let choose = |transport| steady(transport).choose().ok_or(Missing::Arm);
    let congestion = ByTransport {
        tcp: choose(Transport::Tcp)?,
        quic: choose(Transport::Quic)?,
    };
    let arm = |transport| Arm::over(transport, congestion.get(transport).congestion);
    let [h2, h3] = Transport::ALL.map(arm);
    let handshake = Handshake::over(min_rtt);
    let visits = corrected.after(handshake);
    let load = |arm| visits.load(arm).ok_or(Missing::Arm);
    let [tcp, quic] = view.loss.map(|loss| loss.unwrap_or_default().mean);
    let change = match view.choice {
        Some(_) => Change::Version,
        None => Change::FirstVersion,
    };
    let comparison = Comparison {
        h2: load(h2)?,
        h3: load(h3)?,
        size,
        min_rtt,
        loss_tcp: tcp,
        loss_quic: quic,
        rate,
        h3_gain: visits.gain(h3, h2).ok_or(Missing::Arm)?,
        needed: policy.needed(change).share,
    };
    Ok(Compared {
        corrected,
        congestion,
        comparison,
        handshake,
        predicted,
        own: view.own_outcome,
        much: (policy.min_gain as f32).ln_1p(),
    })
}

/// The model's predictions of all candidates that it knows.
fn predict(
    view: &ClientView,
    model: &Model,
    size: u64,
    candidates: &ByTransport<CongestionSet>,
) -> [Option<Predicted>; ARMS] {
    let mut predicted = [None; ARMS];
    let Some(min_rtt) = view.min_rtt else {
        return predicted;
    };
    let point_at = |rate: Rate| (rate, model.at(min_rtt, rate, size));
    // Most arms are asked about at the same rate.
    let mut last = None;
    for transport in Transport::ALL {
        let loss = view.loss_for(Arm::over(transport, Congestion::Cubic).version);
        let losses = model.span(loss.mean, loss.high);
        for congestion in candidates.get(transport).iter() {
            let arm = Arm::over(transport, congestion);
            let Some(rate) = view.rate_for(arm) else {
                continue;
            };
            if last.as_ref().is_none_or(|(known, _)| *known != rate) {
                last = Some(point_at(rate));
            }
            let point = last.as_ref().map(|(_, point)| point);
            predicted[arm.index()] = point.and_then(|point| Predicted::new(point, arm, &losses));
        }
    }
    predicted
}

impl Compared {
    /// The arm of a version over the congestion control that is best for its transport.
    pub(super) const fn arm(&self, version: Version) -> Arm {
        let transport = version.transport();
        Arm::over(transport, self.congestion.get(transport).congestion)
    }

    /// Whether the client's own outcomes of `used`, less one standard error, are worse than the model,
    /// or an outcome, says of `other`. Nothing is borrowed here: it may be that the client is slow by
    /// both, but only the other's outcomes can show that. One is enough.
    pub(super) fn disappoints(&self, used: Arm, other: Arm) -> bool {
        let [this, that] = [used, other].map(|arm| self.predicted[arm.index()].as_ref());
        let (Some(this), Some(that)) = (this, that) else {
            return false;
        };
        let [own, others] = [used, other].map(|arm| &self.own[arm.index()]);
        if own.weight < MIN_OUTCOMES {
            return false;
        }
        let error = own.standard_error_sq(this.outcome_sd()).sqrt();
        let least = self
            .handshake
            .before(used, this.mean.ln_secs + own.mean - error);
        let learnt = if others.weight >= MIN_LEARNT {
            others.mean
        } else {
            0.0
        };
        least > self.handshake.before(other, that.mean.ln_secs + learnt) + self.much
    }
}

/// The choice of one transport's congestion control, without experiments.
struct Steady<'a> {
    corrected: &'a Corrected,
    transport: Transport,
    candidates: CongestionSet,
    kept: Option<Congestion>,
    policy: &'a PolicyConfig,
}

impl Steady<'_> {
    /// `None` where the fairest candidate was not predicted.
    fn choose(&self) -> Option<CongestionChoice> {
        let fairest = self.candidates.fairest()?;
        if !self.corrected.has(self.arm(fairest)) {
            return None;
        }
        let others = self.candidates.iter().filter(|other| *other != fairest);
        let fairest = CongestionChoice {
            congestion: fairest,
            reason: match self.candidates.len() {
                1 => CongestionReason::Only,
                _ => CongestionReason::NoGain(None),
            },
        };
        Some(others.fold(fairest, |choice, other| self.better(other, choice)))
    }

    /// `congestion` instead of the fairer `choice`, if it gains enough.
    fn better(&self, congestion: Congestion, choice: CongestionChoice) -> CongestionChoice {
        let over = choice.congestion;
        let Some(gain) = self.corrected.gain(self.arm(congestion), self.arm(over)) else {
            return choice;
        };
        let change = self.policy.needed(Change::Congestion(congestion));
        let stay = self.policy.needed(Change::KeptCongestion(congestion));
        let rival = |needed| Rival::by(over, CongestionGain { gain, needed });
        let reason = if change.is_met(gain, 1.0) {
            CongestionReason::Better(rival(change.share))
        } else if self.kept == Some(congestion) && stay.is_met(gain, 1.0) {
            CongestionReason::Kept(rival(stay.share))
        } else {
            return choice;
        };
        CongestionChoice { congestion, reason }
    }

    const fn arm(&self, congestion: Congestion) -> Arm {
        Arm::over(self.transport, congestion)
    }
}

/// Outcomes of the other version that count instead of the model's prediction for it: one that has hardly
/// faded.
const MIN_LEARNT: f32 = 0.75;
/// Outcomes that can disappoint: one response may have been slow for any reason.
const MIN_OUTCOMES: f32 = 3.0;
