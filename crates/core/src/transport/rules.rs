//! The rules, in the order in which they hold.

use super::compare::{Compared, compare};
use super::congestion::OfTransport;
use super::lease::lease;
use super::reason::{UdpBar, UdpFailure, other};
use super::{AltSvc, Comparison, CongestionChoice, Decision};
use crate::choice::{
    Domain, Draw, Evidence, Explorer, Group, Missing, Pick, Reason, Rival, choose,
};
use crate::client::udp::{Failure, FailureKind, Verdict};
use crate::client::view::ClientView;
use crate::model::Model;
use crate::policy::PolicyConfig;
use hikyaku_units::arm::{Arm, ByTransport, CongestionSet, Transport, Version};
use hikyaku_units::{Secs, Timestamp};

/// Decides which HTTP version and congestion control a client gets, and why.
///
/// A pure function: equal arguments give equal decisions, on HTTP/2 and HTTP/3 and over a client's
/// connections. `view` is the client's at `now`; `available` are the congestion controls that each
/// transport has here. `seed` draws the hold-back group and the explored sessions; all servers that share
/// clients need the same. The steps: `docs/decisions.md`.
#[must_use]
pub fn decide(
    view: &ClientView,
    model: &Model,
    policy: &PolicyConfig,
    available: &ByTransport<CongestionSet>,
    now: Timestamp,
    seed: u64,
) -> Decision {
    let candidates = policy.candidates(available);
    let compared = compare(view, model, policy, &candidates);
    let corrected = compared.as_ref().ok().map(|compared| compared.corrected);
    let rules = Rules {
        view,
        policy,
        candidates,
        compared,
        now: now.into(),
        seed,
    };
    let (version, reason) = choose(&rules, rules.is_held_back());
    let (congestion, group) = rules.congestion(version, reason.group());
    Decision {
        version,
        alt_svc: rules.alt_svc(version, group),
        reason,
        group,
        session: view.session,
        congestion,
        corrected,
    }
}

/// The arguments of [`decide`], and the results of their comparison.
pub(super) struct Rules<'a> {
    view: &'a ClientView,
    pub(super) policy: &'a PolicyConfig,
    pub(super) candidates: ByTransport<CongestionSet>,
    pub(super) compared: Result<Compared, Missing>,
    now: Secs,
    seed: u64,
}

impl Domain for Rules<'_> {
    type Arm = Version;
    type Bar = UdpBar;
    type Gain = Comparison;

    fn pinned(&self) -> Option<Pick<Self>> {
        let version = self.policy.version.pinned()?;
        Some((version, Reason::Pinned(version)))
    }

    /// Holds for the hold-back group, too: an advertisement where UDP fails burns the client's HTTP/3
    /// for days.
    fn barred(&self) -> Option<Pick<Self>> {
        let prefix = self.view.udp_prefix;
        let (version, bar) = match self.view.udp {
            Verdict::Probe(failure) if self.worth_probing(&failure) => {
                let failure = self.failure(&failure);
                (Version::H3, UdpBar::Probed { failure, prefix })
            }
            Verdict::Probe(failure) | Verdict::Failed(failure) => {
                let fails = UdpBar::Fails {
                    failure: self.failure(&failure),
                    prefix,
                    probe_in: failure.next_probe.since(self.now),
                };
                (Version::H2, fails)
            }
            Verdict::Unproven | Verdict::Works { .. } | Verdict::Doubtful => {
                (Version::H2, self.quic_loss()?)
            }
        };
        Some((version, Reason::Barred(bar)))
    }

    fn usual(&self) -> Version {
        self.policy.unknown.version()
    }

    fn evidence(&self) -> Option<Evidence> {
        Some(Evidence {
            samples: self.view.samples,
            needed: self.policy.min_samples,
        })
    }

    fn steady(&self) -> Pick<Self> {
        let current = self.current();
        match &self.compared {
            Ok(compared) => kept_or_better(current, compared.comparison),
            Err(missing) => (current, Reason::NotComparable(*missing)),
        }
    }

    fn experiment(&self, (used, _): &Pick<Self>) -> Option<Pick<Self>> {
        let compared = self.compared.as_ref().ok().filter(|_| self.is_free())?;
        let (tried, rival) = (other(*used), Rival::by(*used, compared.comparison));
        if self.tries(compared, tried) {
            return Some((tried, Reason::Trial(rival)));
        }
        let is_drawn = self.explored(compared, *used) == Some(compared.arm(tried));
        is_drawn.then_some((tried, Reason::Explore(rival)))
    }
}

/// The version that the client is kept on, or the other one if it gains enough.
fn kept_or_better(current: Version, comparison: Comparison) -> Pick<Rules<'static>> {
    let next = other(current);
    let rival = |over| Rival::by(over, comparison);
    if comparison.gain(next).expected() > comparison.needed {
        (next, Reason::Better(rival(current)))
    } else if comparison.load(current).time <= comparison.load(next).time {
        (current, Reason::Better(rival(next)))
    } else {
        (current, Reason::Kept(rival(next)))
    }
}

impl Rules<'_> {
    fn draw(&self) -> Draw {
        Draw {
            seed: self.seed,
            client: self.view.client,
            session: self.view.session,
        }
    }

    /// Whether the session is not drawn for an experiment with its route.
    fn is_free(&self) -> bool {
        self.draw().explores(Explorer::Route, self.policy).is_none()
    }

    fn is_held_back(&self) -> bool {
        self.draw().is_held_back(self.policy)
    }

    /// Each transport's congestion control, and the group of a session whose version was picked so. The
    /// session bears an experiment with the congestion control if it is free for one.
    fn congestion(&self, version: Version, group: Group) -> (ByTransport<CongestionChoice>, Group) {
        let is_open = |transport: &Transport| self.candidates.get(*transport).len() > 1;
        let held_back = self.is_held_back() && Transport::ALL.iter().any(is_open);
        let is_free = !held_back && self.is_free() && matches!(group, Group::Normal | Group::Plain);
        let is_pinned = self.policy.version.pinned().is_some();
        let is_tried = is_free && self.is_measured(version.transport());
        let mut group = match held_back && is_pinned {
            true => Group::HoldBack,
            false => group,
        };
        let choices = ByTransport::from_fn(|transport| {
            let domain = OfTransport {
                rules: self,
                transport,
                tried_on: (is_tried && version.transport() == transport).then_some(version),
            };
            let (congestion, reason) = choose(&domain, held_back);
            if reason.group() == Group::Explore {
                group = Group::Explore;
            }
            CongestionChoice { congestion, reason }
        });
        (choices, group)
    }

    fn alt_svc(&self, version: Version, group: Group) -> AltSvc {
        let (view, policy) = (self.view, self.policy);
        // A client that only has such neighbours was never sent an advertisement of HTTP/3, and need
        // not forget it.
        let may_hold_one = view.udp_prefix.is_none() || view.advertised;
        match version {
            Version::H3 if policy.version.pinned().is_some() => {
                AltSvc::Advertise { ma: policy.ma_max }
            }
            Version::H3 => {
                let compared = self.compared.as_ref().ok();
                let chosen = compared.filter(|_| group == Group::Normal);
                let gain_low = chosen.map(|compared| compared.comparison.h3_gain.low());
                let ma = lease(view, gain_low, policy, self.now);
                AltSvc::Advertise { ma }
            }
            Version::H1 | Version::H2 if group == Group::Udp && may_hold_one => AltSvc::Clear,
            Version::H1 | Version::H2 => AltSvc::Withhold,
        }
    }

    /// UDP is not probed for a client that would get HTTP/2 anyway. Throttling always is: the outcomes of
    /// HTTP/3 under it decide against HTTP/3, and would for ever.
    fn worth_probing(&self, failure: &Failure) -> bool {
        if failure.kind == FailureKind::Throttled {
            return true;
        }
        match &self.compared {
            Ok(Compared { comparison, .. }) => {
                f64::from(comparison.gain(Version::H2).low()) <= self.policy.min_gain
            }
            Err(_) => self.policy.unknown.version() == Version::H3,
        }
    }

    fn failure(&self, failure: &Failure) -> UdpFailure {
        let ago = self.now.since(failure.since);
        match failure.kind {
            FailureKind::NeverCame { sessions } => UdpFailure::NeverCame { sessions },
            FailureKind::Broken => UdpFailure::Broken { ago },
            FailureKind::Throttled => UdpFailure::Throttled { ago },
        }
    }

    fn quic_loss(&self) -> Option<UdpBar> {
        let tcp = self.view.loss[Transport::Tcp.index()]?;
        let quic = self.view.loss[Transport::Quic.index()]?;
        let policed = quic.low.fraction() > POLICED_LOSS
            && quic.low.fraction() > POLICED_RATIO * tcp.high.fraction()
            && !self.outcomes_decide();
        policed.then_some(UdpBar::QuicLoss {
            quic: quic.mean,
            tcp: tcp.mean,
        })
    }

    /// Whether load times say more than QUIC's loss. BBR loses half of its packets to a queue that it
    /// overfills itself, and still fills the path.
    fn outcomes_decide(&self) -> bool {
        let [tcp, quic] = Transport::ALL.map(|transport| self.view.own_outcome_over(transport));
        let keeps_up = quic.weight >= 1.0 && quic.mean < KEEPS_UP_LN;
        keeps_up || tcp.weight.min(quic.weight) >= ENOUGH_OUTCOMES
    }

    /// The version that the client is kept on unless another is surely better.
    fn current(&self) -> Version {
        let plain = self.policy.unknown.version();
        self.view.choice.map_or(plain, |choice| choice.version)
    }

    /// A few outcomes are worth a session where hardly any are known of a version that may well be
    /// better. Either it is not expected to be much worse, or the version in use disappoints.
    fn tries(&self, compared: &Compared, tried: Version) -> bool {
        let comparison = &compared.comparison;
        let [used, arm] = [other(tried), tried].map(|version| compared.arm(version));
        let max_cost = if compared.disappoints(used, arm) {
            MAX_EXPLORE_COST
        } else if comparison.gain(tried).high() > self.policy.min_gain as f32 {
            MAX_TRIAL_COST
        } else {
            return false;
        };
        self.has_few_outcomes(arm) && self.may_be_tried(comparison, tried, max_cost)
    }

    pub(super) fn has_few_outcomes(&self, arm: Arm) -> bool {
        // A little less than a whole number, for those that have faded.
        self.view.outcome[arm.index()].weight < f32::from(self.policy.trials) - 0.25
    }

    /// Whether sessions over a transport have outcomes, without which an experiment is for nothing.
    fn is_measured(&self, transport: Transport) -> bool {
        transport == Transport::Quic || !self.view.tcp_is_hidden
    }

    fn may_be_tried(&self, comparison: &Comparison, tried: Version, max_cost: f32) -> bool {
        let doubtful = tried == Version::H3 && self.view.udp == Verdict::Doubtful;
        let cost = comparison.load(tried).time.as_secs_f32()
            / comparison.load(other(tried)).time.as_secs_f32();
        !doubtful && self.is_measured(tried.transport()) && cost <= max_cost
    }

    /// Whether an arm that takes so many times as long may be explored.
    pub(super) fn is_affordable(&self, cost: f32) -> bool {
        cost <= MAX_EXPLORE_COST
    }

    /// The arm that gets a session which is drawn to explore, while `version` is the better one.
    pub(super) fn explored(&self, compared: &Compared, version: Version) -> Option<Arm> {
        self.draw().explores(Explorer::Transport, self.policy)?;
        let (used, other) = (compared.arm(version), other(version));
        let free = self.policy.version.pinned().is_none();
        let other = (free && self.may_be_tried(&compared.comparison, other, MAX_EXPLORE_COST))
            .then(|| compared.arm(other));
        let transport = version.transport();
        let here = self.explorable(compared, used);
        let here = here.map(|congestion| Arm::over(transport, congestion));
        self.draw().one_of(other.into_iter().chain(here))
    }
}

/// QUIC's loss above which UDP may be policed.
const POLICED_LOSS: f64 = 0.1;
/// How many times TCP's loss it must be.
const POLICED_RATIO: f64 = 3.0;
/// Logarithm of 1.5: HTTP/3 keeps up if it takes at most this many times the model's prediction.
const KEEPS_UP_LN: f32 = 0.405_465_1;
/// Outcomes of both versions that leave nothing to guess.
const ENOUGH_OUTCOMES: f32 = 2.0;
/// An arm that is expected to take longer than this many times is not explored.
const MAX_EXPLORE_COST: f32 = 2.0;
/// As [`MAX_EXPLORE_COST`], for trials.
const MAX_TRIAL_COST: f32 = 1.5;

#[cfg(test)]
mod tests;
