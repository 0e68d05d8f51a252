//! All statistics of a prefix as sums, from estimates and back.

use std::time::Duration;

use super::statistic::{FAILURES, OF_PART, PARTS, Statistic};
use crate::client::estimate::{Estimate, LossCount, MinRtt, OpenRate, Outcomes};
use crate::client::udp::{UdpHealth, UdpState};
use crate::fleet::{DUST, Moments, Reach, share};
use crate::policy::{HalfLife, PolicyConfig};
use hikyaku_units::Secs;
use hikyaku_units::arm::{Arm, Transport};

/// The parts of all statistics, as of one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Stats(pub(super) [Moments; PARTS]);

impl Stats {
    /// The statistics of an estimate, as of its last observation.
    pub(super) fn of(known: &Estimate, half_life: &HalfLife) -> Self {
        let mut stats = Self::default();
        let samples = f64::from(known.samples);
        stats.set(Statistic::Samples, 0, Moments::new(0.0, samples));
        let micros = known.min_rtt.get().map(|rtt| rtt.as_micros() as f64);
        let smoothed = (known.srtt > 0).then(|| f64::from(known.srtt));
        for (statistic, micros) in [
            (Statistic::MinRtt, micros),
            (Statistic::SmoothedRtt, smoothed),
        ] {
            if let Some(micros) = micros {
                stats.set(statistic, 0, Moments::new(micros.ln(), samples));
            }
        }
        for transport in Transport::ALL {
            stats.set_transport(known, transport);
        }
        for arm in Arm::ALL {
            let outcome = Moments::of(&known.outcome.of(arm));
            stats.set(Statistic::Outcomes, arm.index(), outcome);
        }
        let size = Moments::new(known.size.into(), known.size_weight.into());
        stats.set(Statistic::ResponseSize, 0, size);
        stats.set_udp(known, half_life);
        stats
    }

    fn set_transport(&mut self, known: &Estimate, transport: Transport) {
        let part = transport.index();
        let LossCount { sent, lost } = known.loss[part];
        if sent > 0.0 {
            let share = f64::from(lost) / f64::from(sent);
            self.set(Statistic::Loss, part, Moments::new(share, sent.into()));
        }
        let rate = &known.rate[part];
        self.set(Statistic::Rate, part, Moments::of(rate));
        if let Some(open) = known.open_rate[part].get() {
            let open = Moments::new(open.into(), rate.weight.into());
            self.set(Statistic::OpenRate, part, open);
        }
    }

    /// One vote: QUIC works, or fails in one way. It fades from when QUIC was last seen to work, or from
    /// when a probe is due.
    fn set_udp(&mut self, known: &Estimate, half_life: &HalfLife) {
        let vote = |statistic: Statistic, of: Secs| {
            share(known.at.since(of), statistic.half_life(half_life))
        };
        let (kind, next_probe) = match known.udp.state {
            UdpState::Unknown | UdpState::Suspect { .. } => return,
            UdpState::Working { seen, .. } => {
                let weight = vote(Statistic::UdpWorks, seen);
                return self.set(Statistic::UdpWorks, 0, Moments::new(0.0, weight));
            }
            UdpState::NeverCame { next_probe } => (NEVER_CAME, next_probe),
            UdpState::Broken { next_probe, .. } => (BROKEN, next_probe),
            UdpState::Throttled { next_probe, .. } => (THROTTLED, next_probe),
        };
        let weight = vote(Statistic::UdpFails, next_probe);
        let vote = Moments::new(next_probe.get().into(), weight);
        self.set(Statistic::UdpFails, kind, vote);
    }

    /// Lets the votes on UDP be one together: an edge has seen UDP work, or fail in one way.
    pub(super) fn limit_to_one_vote(&mut self) {
        let votes = Statistic::UdpWorks.first()..Statistic::UdpFails.places().end;
        let all: f64 = self.0[votes.clone()].iter().map(|vote| vote.weight).sum();
        if all > 1.0 {
            for vote in &mut self.0[votes] {
                vote.fade(1.0 / all);
            }
        }
    }

    /// Those that are shared so far.
    pub(super) fn within(&self, reach: Reach) -> Self {
        let mut stats = *self;
        for (part, statistic) in stats.0.iter_mut().zip(OF_PART) {
            if statistic.reach() != reach {
                *part = Moments::default();
            }
        }
        stats
    }

    /// Whether no statistic has a weight that speaks.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|part| part.weight < DUST)
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (sum, part) in self.0.iter_mut().zip(&other.0) {
            sum.add(part);
        }
    }

    /// The statistics `elapsed` later.
    pub(super) fn faded(&self, elapsed: Duration, half_life: &HalfLife) -> Self {
        let mut stats = *self;
        for statistic in Statistic::ALL {
            let share = share(elapsed, statistic.half_life(half_life));
            for part in &mut stats.0[statistic.places()] {
                part.fade(share);
            }
        }
        stats
    }

    /// The estimate that has these statistics, as of `at`.
    pub(super) fn estimate(&self, at: Secs, policy: &PolicyConfig) -> Estimate {
        let micros = |statistic| {
            let mean = self.get(statistic, 0).mean();
            // Converting a float saturates.
            mean.map_or(0, |mean| mean.exp().round() as u32)
        };
        let per_transport =
            |statistic| Transport::ALL.map(|transport| self.get(statistic, transport.index()));
        let min_rtt = MinRtt {
            current: micros(Statistic::MinRtt),
            previous: 0,
            begun: at,
        };
        let size = self.get(Statistic::ResponseSize, 0).stat();
        Estimate {
            at,
            samples: self.get(Statistic::Samples, 0).weight as f32,
            min_rtt,
            srtt: micros(Statistic::SmoothedRtt),
            loss: per_transport(Statistic::Loss).map(|loss| loss_count(&loss)),
            rate: per_transport(Statistic::Rate).map(|rate| rate.stat()),
            open_rate: per_transport(Statistic::OpenRate).map(|open| OpenRate(open.stat().mean)),
            outcome: self.outcomes(),
            size: size.mean,
            size_weight: size.weight,
            udp: self.udp(at, policy),
            ..Estimate::default()
        }
    }

    fn outcomes(&self) -> Outcomes {
        let arms = Arm::ALL.map(|arm| self.get(Statistic::Outcomes, arm.index()).stat());
        let weight: f32 = arms.iter().map(|arm| arm.weight).sum();
        let scatter: f32 = arms.iter().map(|arm| arm.weight * arm.var).sum();
        Outcomes {
            mean: arms.map(|arm| arm.mean),
            weight: arms.map(|arm| arm.weight),
            var: if weight > 0.0 { scatter / weight } else { 0.0 },
        }
    }

    /// The health of UDP by the votes. It fails where more say so than saw it work.
    fn udp(&self, at: Secs, policy: &PolicyConfig) -> UdpHealth {
        let works = self.get(Statistic::UdpWorks, 0).weight;
        let fails: [Moments; FAILURES] =
            std::array::from_fn(|kind| self.get(Statistic::UdpFails, kind));
        let failing: f64 = fails.iter().map(|kind| kind.weight).sum();
        let none = UdpHealth::default();
        if failing <= works || failing < ENOUGH_VOTES {
            let state = UdpState::Working {
                since: at,
                seen: at,
            };
            let works = works >= ENOUGH_VOTES;
            return if works {
                UdpHealth { state, ..none }
            } else {
                none
            };
        }
        let most = (0..FAILURES).max_by(|a, b| fails[*a].weight.total_cmp(&fails[*b].weight));
        let kind = most.unwrap_or(NEVER_CAME);
        let planned = Secs::new(fails[kind].mean().unwrap_or(0.0).round() as u32);
        // No edge keeps HTTP/3 away for longer than this one's own setting.
        let next_probe = planned.min(at.saturating_add(policy.udp.probe_max));
        let since = at;
        match kind {
            NEVER_CAME => UdpHealth {
                state: UdpState::NeverCame { next_probe },
                unanswered: policy.udp.never_came_sessions,
                ..none
            },
            BROKEN => UdpHealth {
                state: UdpState::Broken { since, next_probe },
                ..none
            },
            _ => UdpHealth {
                state: UdpState::Throttled { since, next_probe },
                ..none
            },
        }
    }

    fn get(&self, statistic: Statistic, part: usize) -> Moments {
        self.0[statistic.first() + part]
    }

    fn set(&mut self, statistic: Statistic, part: usize, moments: Moments) {
        self.0[statistic.first() + part] = moments;
    }
}

fn loss_count(loss: &Moments) -> LossCount {
    let sent = loss.weight as f32;
    let lost = loss.mean().unwrap_or(0.0) as f32 * sent;
    LossCount {
        sent,
        lost: lost.clamp(0.0, sent),
    }
}

/// Places of the kinds of failures.
const NEVER_CAME: usize = 0;
const BROKEN: usize = 1;
const THROTTLED: usize = 2;
/// Votes on UDP that are heard: one edge's until two half-lives later.
const ENOUGH_VOTES: f64 = 0.25;
