//! Congestion controls, and sets of them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{LossRate, Rate};

/// A congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Congestion {
    /// CUBIC (RFC 9438).
    Cubic,
    /// CUBIC with an adaptive floor: at losses without a standing queue, the window does not fall
    /// below the bandwidth-delay product of the client path.
    Floor,
    /// BBR, version 1.
    Bbr,
}

impl Congestion {
    /// All congestion controls, in the order of [`Congestion::index`].
    pub const ALL: [Self; 3] = [Self::Cubic, Self::Floor, Self::Bbr];
    /// All congestion controls, in the order in which they leave bandwidth to other flows.
    pub const FAIREST_FIRST: [Self; 3] = [Self::Floor, Self::Cubic, Self::Bbr];

    /// The name in logs and in the configuration: `cubic`, `floor` or `bbr`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Floor => "floor",
            Self::Bbr => "bbr",
        }
    }

    /// The position in an array that has an element for each congestion control.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The largest rate that random losses permit, on a path of any bandwidth.
    ///
    /// `None` where losses set no limit: BBR does not answer to them, and a floor holds at them.
    ///
    /// The rate follows from CUBIC's mean window for packets of 1460 bytes (RFC 9438 §5.1), and
    /// from Reno's where that is larger.
    ///
    /// Reno's: CCR 1997, Mathis and others, "The macroscopic behavior of the TCP congestion
    /// avoidance algorithm".
    #[must_use]
    pub fn rate_at_loss(self, loss: LossRate, rtt: Duration) -> Option<Rate> {
        let (loss, rtt) = (loss.fraction(), rtt.as_secs_f64());
        if self != Self::Cubic || loss <= 0.0 || rtt <= 0.0 {
            return None;
        }
        // To the power of 3/4 by two roots: each decision computes this, and roots are quick.
        let root = (rtt / loss).sqrt();
        let cubic = 1.054 * root * root.sqrt();
        let reno = (1.5 / loss).sqrt();
        let bits = cubic.max(reno) * 1460.0 * 8.0 / rtt;
        Some(Rate::from_bits_per_sec(bits as u64))
    }
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that names no congestion control.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("reading a congestion control: `{0}` is none; expected cubic, floor or bbr")]
pub struct ParseCongestionError(String);

impl FromStr for Congestion {
    type Err = ParseCongestionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|known| known.name() == text);
        found.ok_or_else(|| ParseCongestionError(text.to_owned()))
    }
}

/// A set of congestion controls.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct CongestionSet(u8);

impl CongestionSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);
    /// All of [`Congestion::ALL`].
    pub const ALL: Self = Self::of(&Congestion::ALL);

    /// The set of these `members`.
    #[must_use]
    pub const fn of(members: &[Congestion]) -> Self {
        let (mut set, mut at) = (0, 0);
        while at < members.len() {
            set |= 1 << members[at] as u8;
            at += 1;
        }
        Self(set)
    }

    /// The set as a number, with a bit for each of [`Congestion::ALL`].
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set of a number; bits that stand for none are left out.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL.0)
    }

    /// Whether the set contains `congestion`.
    #[must_use]
    pub const fn contains(self, congestion: Congestion) -> bool {
        self.0 & 1 << congestion as u8 != 0
    }

    /// The intersection of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The number of members.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The members, the fairest first.
    pub fn iter(self) -> impl Iterator<Item = Congestion> + Clone {
        let all = Congestion::FAIREST_FIRST.into_iter();
        all.filter(move |congestion| self.contains(*congestion))
    }

    /// The member that leaves most bandwidth to other flows; `None` if the set is empty.
    #[must_use]
    pub fn fairest(self) -> Option<Congestion> {
        self.iter().next()
    }
}

impl fmt::Debug for CongestionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Congestion, CongestionSet};
    use crate::LossRate;

    #[test]
    fn names_go_round() {
        for congestion in Congestion::ALL {
            assert_eq!(congestion.name().parse(), Ok(congestion));
            assert_eq!(Congestion::ALL[congestion.index()], congestion);
        }
        assert!("reno".parse::<Congestion>().is_err());
    }

    #[test]
    fn sets_hold_their_members() {
        let fair = CongestionSet::of(&[Congestion::Cubic, Congestion::Floor]);
        let fast = CongestionSet::of(&[Congestion::Floor, Congestion::Bbr]);
        assert_eq!(fair.and(fast), CongestionSet::of(&[Congestion::Floor]));
        assert_eq!(fair.fairest(), Some(Congestion::Floor));
        assert_eq!((fair.len(), fair.contains(Congestion::Bbr)), (2, false));
        assert_eq!(CongestionSet::ALL.iter().count(), 3);
        assert_eq!(CongestionSet::EMPTY.fairest(), None);
    }

    #[test]
    fn losses_limit_cubic_alone() {
        let rate = |congestion: Congestion, loss, ms| {
            let loss = LossRate::from_fraction(loss);
            let rate = congestion.rate_at_loss(loss, Duration::from_millis(ms));
            rate.map(|rate| (rate.mbps() * 10.0).round() / 10.0)
        };
        // Reno: sqrt(1.5 / 0.05) = 5.5 packets a round trip.
        assert_eq!(rate(Congestion::Cubic, 0.05, 50), Some(1.3));
        // CUBIC: 1.054 x (0.1 / 0.00001)^0.75 = 1054 packets.
        assert_eq!(rate(Congestion::Cubic, 0.00001, 100), Some(123.1));
        assert_eq!(rate(Congestion::Cubic, 0.0, 50), None);
        assert_eq!(rate(Congestion::Cubic, 0.05, 0), None);
        assert_eq!(rate(Congestion::Floor, 0.05, 50), None);
        assert_eq!(rate(Congestion::Bbr, 0.05, 50), None);
    }
}
