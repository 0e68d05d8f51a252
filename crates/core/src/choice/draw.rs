//! Who is drawn for what.

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

/// What is drawn. Numbers keep the draws independent of each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lot {
    /// Whether the client is held back.
    HoldBack = 1,
    /// Whether the session explores a version or a congestion control,
    Transport = 2,
    /// and which arm.
    TransportArm = 3,
    /// Whether the session explores a route,
    Route = 0x7061_7468,
    /// and which one.
    RouteArm = 0x7061_7469,
}

impl Draw {
    /// Whether the client always gets the plain choice of everything, so that the others' gain shows.
    pub(crate) fn is_held_back(self, policy: &PolicyConfig) -> bool {
        draw([self.seed, Lot::HoldBack as u64, self.client, 0]) < policy.holdback
    }

    /// A number from 0 to 1 for the session.
    pub(crate) fn place(self, lot: Lot) -> f64 {
        draw([self.seed, lot as u64, self.client, self.session.0.into()])
    }

    /// One of the options, each as likely.
    pub(crate) fn one_of<T>(
        self,
        lot: Lot,
        mut options: impl Iterator<Item = T> + Clone,
    ) -> Option<T> {
        let place = self.place(lot) * options.clone().count() as f64;
        options.nth(place as usize)
    }
}
