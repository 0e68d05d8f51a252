//! The beginning of every contribution.

use std::time::Duration;

use crate::codec::{DecodeError, Reader, Writer};
use hikyaku_units::mix::mix;
use hikyaku_units::{Secs, Timestamp};

/// The number of a PoP: edges of the same site whose packets leave by the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pop(u64);

impl Pop {
    /// The PoP of this name. The number is the same on every machine.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let bytes = name.bytes().map(u64::from);
        Self(bytes.fold(name.len() as u64, |sum, byte| mix(sum ^ byte)))
    }
}

/// The edge's PoP, and the time of its last observation, which all weights are as of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Head {
    pub(crate) pop: Pop,
    pub(crate) at: Secs,
}

impl Head {
    /// Length as bytes.
    pub(crate) const LEN: usize = 12;

    pub(crate) fn write(&self, to: &mut Writer<'_>) {
        to.put(&self.pop.0.to_le_bytes());
        to.u32(self.at.get());
    }

    /// Reads what [`Head::write`] wrote. Refuses a time that is farther ahead of `now` than clocks are apart,
    /// and none.
    pub(crate) fn read(from: &mut Reader<'_>, now: Timestamp) -> Result<Self, DecodeError> {
        let [low, high] = [from.u32(), from.u32()].map(u64::from);
        let (pop, at) = (Pop(high << 32 | low), from.secs());
        if at > Secs::from(now).saturating_add(CLOCKS_APART) || at == Secs::default() {
            return Err(DecodeError::Field {
                field: "time of observation",
            });
        }
        Ok(Self { pop, at })
    }
}

/// How far another edge's clock may be ahead.
const CLOCKS_APART: Duration = Duration::from_secs(300);
