//! Sets of egress routes.

use super::{EgressId, MAX_EGRESSES};

/// Some of the agent's egress routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EgressSet(u16);

impl EgressSet {
    /// None.
    pub const EMPTY: Self = Self(0);
    /// All there can be.
    pub const ALL: Self = Self(u16::MAX);

    /// Adds an egress route.
    pub const fn insert(&mut self, egress: EgressId) {
        self.0 |= 1 << egress.0;
    }

    /// Takes an egress route out.
    pub const fn remove(&mut self, egress: EgressId) {
        self.0 &= !(1 << egress.0);
    }

    /// Whether an egress route is in it.
    #[must_use]
    pub const fn contains(self, egress: EgressId) -> bool {
        self.0 & (1 << egress.0) != 0
    }

    /// The egress routes in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The egress routes in this one alone.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether there is none in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many are in it.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Its egress routes, by place.
    pub fn iter(self) -> impl Iterator<Item = EgressId> + Clone {
        (0..MAX_EGRESSES as u8)
            .map(EgressId)
            .filter(move |egress| self.contains(*egress))
    }
}

impl FromIterator<EgressId> for EgressSet {
    fn from_iter<I: IntoIterator<Item = EgressId>>(egresses: I) -> Self {
        let mut set = Self::EMPTY;
        for egress in egresses {
            set.insert(egress);
        }
        set
    }
}
