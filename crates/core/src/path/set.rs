//! Sets of paths.

use super::{MAX_PATHS, PathId};

/// Some of the agent's paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathSet(u16);

impl PathSet {
    /// None.
    pub const EMPTY: Self = Self(0);
    /// All there can be.
    pub const ALL: Self = Self(u16::MAX);

    /// Adds a path.
    pub const fn insert(&mut self, path: PathId) {
        self.0 |= 1 << path.0;
    }

    /// Takes a path out.
    pub const fn remove(&mut self, path: PathId) {
        self.0 &= !(1 << path.0);
    }

    /// Whether a path is in it.
    #[must_use]
    pub const fn contains(self, path: PathId) -> bool {
        self.0 & (1 << path.0) != 0
    }

    /// What is in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in this one alone.
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

    /// Its paths, by place.
    pub fn iter(self) -> impl Iterator<Item = PathId> + Clone {
        (0..MAX_PATHS as u8)
            .map(PathId)
            .filter(move |path| self.contains(*path))
    }
}

impl FromIterator<PathId> for PathSet {
    fn from_iter<I: IntoIterator<Item = PathId>>(paths: I) -> Self {
        let mut set = Self::EMPTY;
        for path in paths {
            set.insert(path);
        }
        set
    }
}
