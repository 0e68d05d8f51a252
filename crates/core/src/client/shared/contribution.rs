//! The observations of one prefix by one edge.

use super::statistic::{OF_PART, PARTS, Statistic};
use super::stats::Stats;
use crate::client::estimate::Estimate;
use crate::codec::{CHECK_LEN, DecodeError, Reader, Writer, seal, unsealed};
use crate::fleet::{Codes, Head, Pop, Register};
use crate::policy::{HalfLife, PolicyConfig};
use hikyaku_units::{Secs, Timestamp};

/// The observations of one prefix by one edge, without all that it has learnt from others: that would
/// echo.
///
/// As bytes, each number is one of 65,536 steps between the bounds of its statistic (`docs/fleet.md`). So
/// whatever the bytes are, no weight is larger than one edge may have, and no value is impossible.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contribution {
    pub(super) head: Head,
    pub(super) stats: Stats,
}

impl Contribution {
    /// The contribution of an edge of `pop` whose own observations made this estimate of a prefix; `None`
    /// where nothing was observed.
    #[must_use]
    pub fn of(own: &Estimate, pop: Pop, half_life: &HalfLife) -> Option<Self> {
        own.last_seen()?;
        Some(Self {
            head: Head { pop, at: own.at },
            stats: Stats::of(own, half_life),
        })
    }

    /// The estimate of an edge that has observed this, and then `own` if anything.
    pub(crate) fn and_then(&self, own: Option<&Estimate>, policy: &PolicyConfig) -> Estimate {
        let at = own.map_or(self.head.at, |own| own.at.max(self.head.at));
        let mut sum = self.stats.faded(at.since(self.head.at), &policy.half_life);
        if let Some(own) = own {
            sum.add(&Stats::of(own, &policy.half_life));
        }
        sum.estimate(at, policy)
    }
}

impl Register for Contribution {
    /// A version, the PoP, the time, the parts that are there, and a check: at most [`MAX_ENCODED_LEN`]
    /// bytes.
    fn encode(&self) -> Box<[u8]> {
        let parts = OF_PART.iter().zip(&self.stats.0).enumerate();
        let codes: Vec<(usize, Codes)> = parts
            .map(|(place, (statistic, part))| {
                let origin = origin(*statistic, self.head.at);
                (place, Codes::of(part, &statistic.bounds(), origin))
            })
            .filter(|(_, codes)| !codes.is_empty())
            .collect();
        let fields = codes
            .iter()
            .map(|(place, _)| OF_PART[*place].bounds().encoded_len());
        let mut bytes = vec![0; HEAD_LEN + fields.sum::<usize>() + CHECK_LEN];
        let mut to = Writer::new(&mut bytes);
        to.u8(VERSION);
        self.head.write(&mut to);
        to.u32(codes.iter().fold(0, |bits, (place, _)| bits | 1 << place));
        for (place, codes) in codes {
            codes.write(&OF_PART[place].bounds(), &mut to);
        }
        seal(&mut bytes);
        bytes.into()
    }

    fn decode(bytes: &[u8], now: Timestamp) -> Result<Self, DecodeError> {
        let mut from = Reader::new(unsealed(bytes, VERSION)?);
        let (head, bits) = (Head::read(&mut from, now)?, from.u32());
        if bits >= 1 << PARTS {
            return Err(DecodeError::Field {
                field: "statistics",
            });
        }
        let present = (0..PARTS).filter(|place| bits & 1 << place != 0);
        let fields = present
            .clone()
            .map(|place| OF_PART[place].bounds().encoded_len());
        if from.left() != fields.sum::<usize>() {
            return Err(DecodeError::Length { len: bytes.len() });
        }
        let mut stats = Stats::default();
        for place in present {
            let statistic = OF_PART[place];
            let (bounds, origin) = (statistic.bounds(), origin(statistic, head.at));
            stats.0[place] = Codes::read(&bounds, &mut from).moments(&bounds, origin);
        }
        stats.limit_to_one_vote();
        Ok(Self { head, stats })
    }

    fn at(&self) -> Secs {
        self.head.at
    }
}

/// The zero of a mean: times of probes are counted from the last observation.
fn origin(statistic: Statistic, at: Secs) -> f64 {
    match statistic {
        Statistic::UdpFails => at.get().into(),
        _ => 0.0,
    }
}

/// Most bytes of an encoded contribution.
pub const MAX_ENCODED_LEN: usize = {
    let (mut len, mut place) = (HEAD_LEN + CHECK_LEN, 0);
    while place < PARTS {
        len += OF_PART[place].bounds().encoded_len();
        place += 1;
    }
    len
};

/// Raised with every change of the statistics or their bounds.
const VERSION: u8 = 1;
const HEAD_LEN: usize = 1 + Head::LEN + 4;
