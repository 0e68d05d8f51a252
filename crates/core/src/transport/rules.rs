//! The rules, in the order in which they hold.

use super::compare::{Compared, compare};
use super::congestion::OfTransport;
use super::lease::lease;
use super::lots::{Lots, Treatment};
use super::reason::{UdpBar, UdpFailure, other};
use super::{AltSvc, Comparison, CongestionChoice, Decision, Load, VersionReason};
use crate::choice::{
    Assignment, Domain, Draw, Evidence, Group, Missing, Pick, Reason, Rival, choose, pick,
};
use crate::client::udp::{Failure, FailureKind, Verdict};
use crate::client::view::ClientView;
use crate::model::Model;
use crate::policy::{CongestionPolicy, PolicyConfig};
use hikyaku_units::arm::{ARMS, Arm, ByTransport, Congestion, CongestionSet, Transport, Version};
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
    let draw = Draw {
        seed,
        client: view.client,
        session: view.session,
    };
    let lots = Lots::of(draw, policy);
    let candidates = policy.candidates(available);
    let compared = compare(view, model, policy, &candidates);
    let rules = Rules {
        view,
        policy,
        available,
        candidates,
        compared: &compared,
        now: now.into(),
        lots,
    };
    let picked = rules.picked();
    Decision {
        version: picked.version,
        alt_svc: rules.alt_svc(picked.version, picked.group),
        reason: picked.reason,
        group: picked.group,
        assignment: rules.lots.assignment,
        probability: rules.probability(&picked.treatment(&rules)),
        shadow: None,
        session: view.session,
        congestion: picked.congestion,
        corrected: compared.as_ref().ok().map(|compared| compared.corrected),
        view: *view,
        available: *available,
    }
}

/// The treatments that draws may give a client of which this is known, each with its probability. The sum is 1. A
/// treatment may come several times.
#[must_use]
pub fn treatments(
    view: &ClientView,
    model: &Model,
    policy: &PolicyConfig,
    available: &ByTransport<CongestionSet>,
) -> Vec<(Treatment, f64)> {
    let candidates = policy.candidates(available);
    let compared = compare(view, model, policy, &candidates);
    let rules = Rules {
        view,
        policy,
        available,
        candidates,
        compared: &compared,
        now: Secs::default(),
        lots: Lots::none(Assignment::Hikyaku),
    };
    rules.treatments()
}

/// The expected load times of all arms that are available, whatever a policy allows. `None` where nothing
/// is known of the path.
#[must_use]
pub fn loads(
    view: &ClientView,
    model: &Model,
    available: &ByTransport<CongestionSet>,
) -> [Option<Load>; ARMS] {
    let all_arms = PolicyConfig::default();
    let compared = compare(view, model, &all_arms, &all_arms.candidates(available)).ok();
    Arm::ALL.map(|arm| compared.as_ref()?.corrected.load(arm))
}

/// The choice for one outcome of the draws.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picked {
    version: Version,
    reason: VersionReason,
    congestion: ByTransport<CongestionChoice>,
    group: Group,
}

impl Picked {
    pub(super) const fn version(&self) -> Version {
        self.version
    }

    pub(super) const fn congestion(&self) -> &ByTransport<CongestionChoice> {
        &self.congestion
    }
}

/// The arguments of [`decide`], and the results of their comparison.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    view: &'a ClientView,
    pub(super) policy: &'a PolicyConfig,
    available: &'a ByTransport<CongestionSet>,
    pub(super) candidates: ByTransport<CongestionSet>,
    pub(super) compared: &'a Result<Compared, Missing>,
    now: Secs,
    pub(super) lots: Lots,
}

impl Domain for Rules<'_> {
    /// An ordinary server does not know that UDP fails.
    const BARS_HELD_BACK: bool = false;

    type Arm = Version;
    type Bar = UdpBar;
    type Gain = Comparison;

    fn pinned(&self) -> Option<Pick<Self>> {
        let version = self.policy.version.pinned()?;
        Some((version, Reason::Pinned(version)))
    }

    /// An advertisement where UDP fails burns the client's HTTP/3 for days.
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

    fn held_back(&self) -> Option<Version> {
        Some(self.policy.plain.version.version())
    }

    fn evidence(&self) -> Option<Evidence> {
        Some(Evidence {
            samples: self.view.samples,
            needed: self.policy.min_samples,
        })
    }

    fn steady(&self) -> Pick<Self> {
        let current = self.current();
        match self.compared {
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
    /// The same with other lots.
    pub(super) const fn with(&self, lots: Lots) -> Self {
        Self { lots, ..*self }
    }

    /// The choice, as the lots have it.
    pub(super) fn picked(&self) -> Picked {
        let held_back = self.lots.assignment.is_held_back();
        let (version, reason) = choose(self, held_back);
        let (congestion, group) = self.congestion(version, reason.group());
        Picked {
            version,
            reason,
            congestion,
            group: if held_back { Group::HoldBack } else { group },
        }
    }

    /// Whether the session is not drawn for an experiment with its route.
    fn is_free(&self) -> bool {
        !self.lots.of_route
    }

    /// Each transport's congestion control, and the group of a session whose version was picked so. The
    /// session bears an experiment with the congestion control if it is free for one.
    fn congestion(&self, version: Version, group: Group) -> (ByTransport<CongestionChoice>, Group) {
        let held_back = self.lots.assignment.is_held_back();
        let is_free = self.is_free() && matches!(group, Group::Normal | Group::Plain);
        let is_tried = is_free && self.is_measured(version.transport());
        let mut group = group;
        let choices = ByTransport::from_fn(|transport| {
            let domain = OfTransport {
                rules: self,
                transport,
                tried_on: (is_tried && version.transport() == transport).then_some(version),
            };
            let (congestion, reason) = choose(&domain, held_back);
            if reason.group().is_experiment() {
                group = reason.group();
            }
            CongestionChoice { congestion, reason }
        });
        (choices, group)
    }

    /// The congestion control of an ordinary server, where the transport has it: `policy.plain`, unless
    /// the settings pin one for all.
    pub(super) fn ordinary(&self, transport: Transport) -> Congestion {
        let wanted = match self.policy.congestion {
            CongestionPolicy::Adaptive => self.policy.plain.congestion.congestion(),
            CongestionPolicy::Cubic => Congestion::Cubic,
            CongestionPolicy::Bbr => Congestion::Bbr,
        };
        let has_it = self.available.get(transport).contains(wanted);
        if has_it { wanted } else { Congestion::Cubic }
    }

    fn alt_svc(&self, version: Version, group: Group) -> AltSvc {
        let (view, policy) = (self.view, self.policy);
        // A client that only has such neighbours was never sent an advertisement of HTTP/3, and need
        // not forget it.
        let may_hold_one = view.udp_prefix.is_none() || view.advertised;
        match version {
            Version::H3 if policy.version.pinned().is_some() || group == Group::HoldBack => {
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
        match self.compared {
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
        pick(self.lots.of_arm?, self.explorable_arms(compared, version))
    }

    /// The arms that such a session may get, each as likely.
    pub(super) fn explorable_arms(
        &self,
        compared: &Compared,
        version: Version,
    ) -> impl Iterator<Item = Arm> + Clone {
        let (used, other) = (compared.arm(version), other(version));
        let free = self.policy.version.pinned().is_none();
        let other = (free && self.may_be_tried(&compared.comparison, other, MAX_EXPLORE_COST))
            .then(|| compared.arm(other));
        let transport = version.transport();
        let here = self.explorable(compared, used);
        let here = here.map(move |congestion| Arm::over(transport, congestion));
        other.into_iter().chain(here)
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
pub(crate) mod tests;
