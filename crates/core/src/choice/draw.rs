//! The draws of clients and sessions.

use super::Session;
use crate::policy::PolicyConfig;
use hikyaku_units::mix::draw;

/// The draws of one session of a client: equal wherever and whenever they are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    pub(crate) seed: u64,
    pub(crate) client: u64,
    pub(crate) session: Session,
}

/// The subject of a draw. Numbers keep the draws independent of each other.
#[derive(Clone, Copy, Debug)]
enum Lot {
    /// Whether the client is held back.
    HoldBack = 1,
    /// Whether the session explores, and in which domain.
    Explore = 2,
    /// The arm that it explores.
    Arm = 3,
    /// Whether the visit looks at another arm since the used one has become worse.
    Recheck = 4,
}

/// The domains that explore. Each has a part of the draws to itself, so that a session explores in one at
/// most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Explorer {
    /// HTTP version and congestion control, whose arms are one set.
    Transport,
    /// Routes.
    Route,
    /// The fifth domain of `tests/priority.rs`.
    #[cfg(test)]
    Images,
}

impl Draw {
    /// Whether the client always gets what an ordinary server gives, so that the others' gain shows.
    pub(crate) fn is_held_back(self, policy: &PolicyConfig) -> bool {
        draw([self.seed, Lot::HoldBack as u64, self.client, 0]) < policy.holdback
    }

    /// A number below `policy.exploration`, evenly drawn, where the session explores in a domain. No two
    /// domains get one up to an exploration of [`MAX_EXPLORATION`], which is far above the
    /// limit of the configuration.
    pub(crate) fn explores(self, explorer: Explorer, policy: &PolicyConfig) -> Option<f64> {
        let begin = MAX_EXPLORATION * f64::from(explorer as u8);
        let place = (self.place(Lot::Explore) - begin).rem_euclid(1.0);
        (place < policy.exploration).then_some(place)
    }

    /// Whether a visit looks at another arm, where the used one has become worse so many seconds before.
    /// Half of them do, unless nothing is explored. It is drawn anew each second: a session may last an
    /// hour.
    pub(crate) fn rechecks(self, policy: &PolicyConfig, secs: u64) -> bool {
        let lot = Lot::Recheck as u64;
        let place = draw([self.seed, lot, self.client ^ secs, self.session.0.into()]);
        policy.exploration > 0.0 && place < 0.5
    }

    /// One of the options, each as likely.
    pub(crate) fn one_of<T>(self, options: impl Iterator<Item = T> + Clone) -> Option<T> {
        pick(self.arm(), options)
    }

    /// The place of the arm that is explored among all that may be, from 0 to below 1.
    pub(crate) fn arm(self) -> f64 {
        self.place(Lot::Arm)
    }

    /// A number from 0 to 1 for the session.
    fn place(self, lot: Lot) -> f64 {
        draw([self.seed, lot as u64, self.client, self.session.0.into()])
    }
}

/// The option at a place from 0 to below 1.
pub(crate) fn pick<T>(place: f64, mut options: impl Iterator<Item = T> + Clone) -> Option<T> {
    let place = place * options.clone().count() as f64;
    options.nth(place as usize)
}

/// The share of sessions up to which each domain has draws of its own.
const MAX_EXPLORATION: f64 = 0.125;
