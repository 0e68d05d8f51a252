//! Why routes are not chosen.

use std::time::Duration;

use super::{RouteDecision, Rules};
use crate::choice::{Proof, Reason, Rival};
use crate::egress::{Route, RouteBar, RouteGain, RouteReason, Singles};

/// The reason for or against a route, beside the decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::egress) enum Verdict {
    /// It is chosen.
    Chosen,
    /// The client gets it in sessions that do not explore.
    Otherwise,
    /// The configuration or the operator's policy says another.
    RuledOut,
    /// The client has not used MPTCP.
    NoMptcp,
    /// The client is held back on plain.
    HeldBack,
    /// It has stalled.
    Avoided {
        /// For how much longer it is avoided.
        left: Duration,
    },
    /// It is a backup, and others work.
    Backup,
    /// Its port is full; of several together, the ports of all but one at most.
    Full,
    /// It is not certain yet whether it is better.
    TooFewSamples {
        /// The less known of it and the route that it is compared with.
        of: Route,
        /// Samples that can be compared with the other's; those of the AS count half.
        samples: f32,
        /// Samples needed of each.
        needed: u32,
    },
    /// It is not surely better by enough.
    NotBetter {
        /// The route that it is compared with.
        than: Route,
        /// The route's gain over the compared one.
        gain: RouteGain,
    },
    /// It is better, but nothing is chosen for that while another stalls.
    Stalling,
}

impl Verdict {
    /// A stable name in snake case.
    pub(in crate::egress) const fn code(self) -> &'static str {
        match self {
            Self::Chosen => "chosen",
            Self::Otherwise => "otherwise",
            Self::RuledOut => "ruled_out",
            Self::NoMptcp => "no_mptcp",
            Self::HeldBack => "hold_back",
            Self::Avoided { .. } => "avoided",
            Self::Backup => "backup",
            Self::Full => "full",
            Self::TooFewSamples { .. } => "too_few_samples",
            Self::NotBetter { .. } => "not_better",
            Self::Stalling => "stalling",
        }
    }
}

impl Rules<'_> {
    /// The reason for or against a route, where `decision` was made.
    pub(in crate::egress) fn verdict(&self, route: Route, decision: &RouteDecision) -> Verdict {
        if route == decision.route {
            return Verdict::Chosen;
        }
        match decision.reason {
            Reason::Barred(RouteBar::Stalled { .. }) => self.against(route, decision.route, true),
            Reason::Barred(RouteBar::Full(_) | RouteBar::Cheaper(_)) => {
                self.against(route, decision.route, false)
            }
            Reason::Only | Reason::Pinned(_) | Reason::Barred(_) => Verdict::RuledOut,
            Reason::HoldBack => Verdict::HeldBack,
            Reason::Explore(used) if route == used.arm => Verdict::Otherwise,
            Reason::Explore(used) => self.against(route, used.arm, false),
            _ => self.against(route, decision.route, false),
        }
    }

    /// The reason against a route that may be chosen as far as reason and mode go.
    fn against(&self, route: Route, than: Route, stalling: bool) -> Verdict {
        if route == Route::Aggregated && !self.candidates.mptcp.is_used() {
            return Verdict::NoMptcp;
        }
        let may_be_chosen = match route {
            Route::Aggregated => self.candidates.aggregates(),
            single => self.candidates.singles().contains(single),
        };
        if !may_be_chosen {
            return Verdict::RuledOut;
        }
        if let Some(left) = self.quality(route).avoided_for {
            return Verdict::Avoided { left };
        }
        if self.is_backup(route) && !self.options().contains(route) {
            return Verdict::Backup;
        }
        if self.is_left_for_room(route) {
            return Verdict::Full;
        }
        match self.gain(route, than, Proof::LowerBound) {
            Some(gain) if self.is_proof(gain, route, than) && stalling => Verdict::Stalling,
            Some(gain) if self.can_compare(route, than) => Verdict::NotBetter { than, gain },
            _ => self.too_few(route, than),
        }
    }

    /// Whether a route, or all but one of several together, has no room while others have.
    fn is_left_for_room(&self, route: Route) -> bool {
        match route {
            Route::Aggregated => !self.candidates.have_room_for_several(),
            single => !self.has_room(single) && !self.options().contains(single),
        }
    }

    fn too_few(&self, route: Route, than: Route) -> Verdict {
        let samples = |route| self.quality(route).samples(self.wants);
        let of = if samples(than) < samples(route) {
            than
        } else {
            route
        };
        Verdict::TooFewSamples {
            of,
            samples: self.comparable(route, than),
            needed: self.policy.min_samples_route,
        }
    }

    /// Why the usual route is taken, where none of the options is proved to be better.
    pub(super) fn why_usual(&self, usual: Route, options: Singles) -> RouteReason {
        let others = || options.iter().filter(|route| *route != usual);
        let gains = others()
            .filter(|route| self.can_compare(*route, usual))
            .filter_map(|route| {
                let gain = self.gain(route, usual, Proof::LowerBound)?;
                Some((route, gain))
            });
        let best = gains.reduce(|best, next| {
            if next.1.gain.expected() > best.1.gain.expected() {
                next
            } else {
                best
            }
        });
        match best {
            Some((best, gain)) => Reason::NoGain(Some(Rival::by(best, gain))),
            // The others stall, are backups, or have full ports: samples would change nothing.
            None if others().next().is_none() => Reason::NoGain(None),
            None => {
                let samples = others().map(|route| self.comparable(route, usual));
                Reason::TooFewSamples(self.known(samples.fold(0.0, f32::max)))
            }
        }
    }
}
