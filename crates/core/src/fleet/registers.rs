//! The newest contribution of each edge.

use std::collections::BTreeMap;

use crate::codec::DecodeError;
use hikyaku_units::{Secs, Timestamp};

/// A contribution of some kind, which its edge alone writes and replaces as a whole.
pub trait Register: Sized {
    /// The contribution as bytes. Values beyond their bounds become the nearest within.
    fn encode(&self) -> Box<[u8]>;

    /// Reads the output of [`Register::encode`].
    ///
    /// # Errors
    /// When the bytes have another version or length, were changed, name unknown statistics, or were
    /// observed more than five minutes after `now`.
    fn decode(bytes: &[u8], now: Timestamp) -> Result<Self, DecodeError>;

    /// Time of the last observation.
    fn at(&self) -> Secs;
}

/// The newest contribution of each edge; edges are known by an `E`, their name.
///
/// [`join`](Self::join) is commutative, associative and idempotent: in whatever order contributions come, and
/// however often, the same are kept. One that comes late changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Registers<E, C> {
    by_edge: BTreeMap<E, C>,
}

impl<E, C> Default for Registers<E, C> {
    fn default() -> Self {
        Self {
            by_edge: BTreeMap::new(),
        }
    }
}

impl<E: Ord, C: Register> Registers<E, C> {
    /// Reads the fields of a prefix as they were at `now`, by edge. Returns as well how many could not be
    /// read, such as those of another release; they are left out.
    pub fn read<'a>(
        fields: impl IntoIterator<Item = (E, &'a [u8])>,
        now: Timestamp,
    ) -> (Self, usize) {
        let (mut registers, mut unread) = (Self::default(), 0);
        for (edge, bytes) in fields {
            match C::decode(bytes, now) {
                Ok(contribution) => registers.put(edge, contribution),
                Err(_) => unread += 1,
            }
        }
        (registers, unread)
    }

    /// Takes an edge's contribution, unless a newer one of it is there.
    pub fn put(&mut self, edge: E, contribution: C) {
        let known = self.by_edge.get(&edge);
        if known.is_none_or(|known| supersedes(&contribution, known)) {
            self.by_edge.insert(edge, contribution);
        }
    }

    /// Takes all contributions of `other` so.
    pub fn join(&mut self, other: Self) {
        for (edge, contribution) in other.by_edge {
            self.put(edge, contribution);
        }
    }

    /// Number of edges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_edge.len()
    }

    /// Whether there is no contribution.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_edge.is_empty()
    }

    /// The contribution of `me`.
    #[must_use]
    pub fn of(&self, me: &E) -> Option<&C> {
        self.by_edge.get(me)
    }

    /// The contributions of all edges but `me`.
    pub(crate) fn others(&self, me: &E) -> impl Iterator<Item = &C> + Clone {
        let others = self.by_edge.iter().filter(move |(edge, _)| *edge != me);
        others.map(|(_, contribution)| contribution)
    }
}

/// Whether a contribution is kept rather than another of the same edge. Of two in the same second it does not
/// matter which, as long as all readers keep the same.
fn supersedes<C: Register>(new: &C, old: &C) -> bool {
    let tie = || new.encode() > old.encode();
    new.at() > old.at() || new.at() == old.at() && tie()
}
