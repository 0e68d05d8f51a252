//! The parts of knowledge that several edges share: fields of each edge, their join, and sums that fade.
//!
//! An edge writes a field of its own for each prefix and never another edge's. Readers keep the newest of
//! each edge ([`Registers`]), a join that is commutative, associative and idempotent. It is a
//! state-based CRDT (Shapiro et al., "Conflict-free replicated data types", SSS 2011).
//!
//! A field consists of sufficient statistics: sums that add and that fade. So a total does not depend
//! on the order, and no edge moves it farther than the weight that one field can have.
//! `docs/fleet.md` has the mathematics. The shared knowledge of clients is in [`crate::client::shared`],
//! and that of routes in [`crate::egress`].

mod codes;
mod head;
mod moments;
mod reach;
mod registers;

pub(crate) use codes::{Bounds, Codes};
pub(crate) use head::Head;
pub use head::Pop;
pub(crate) use moments::{DUST, Moments, share};
pub use reach::Reach;
pub use registers::{Register, Registers};
