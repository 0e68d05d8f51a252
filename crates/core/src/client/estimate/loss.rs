//! Lost packets as faded counts, with bounds.

use serde::{Deserialize, Serialize};

use crate::choice::QUANTILE_90;
use crate::codec::{DecodeError, Reader, Writer};
use hikyaku_units::LossRate;

/// Packets sent and lost, faded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossCount {
    pub(crate) sent: f32,
    pub(crate) lost: f32,
}

/// A loss rate with its confidence bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossBounds {
    /// Lost share of the packets counted.
    pub mean: LossRate,
    /// Lower bound (one-sided, 90 %).
    pub low: LossRate,
    /// Upper bound (one-sided, 90 %).
    pub high: LossRate,
}

impl LossCount {
    /// Writes the counts into a record.
    pub(crate) fn encode(&self, record: &mut Writer) {
        record.f32(self.sent);
        record.f32(self.lost);
    }

    /// Reads the counts of a record.
    pub(crate) fn decode(record: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let field = "packet count";
        let (sent, lost) = (record.count(field)?, record.count(field)?);
        if lost > sent {
            return Err(DecodeError::Field { field });
        }
        Ok(Self { sent, lost })
    }

    pub(crate) fn add(&mut self, sent: u32, lost: u32) {
        self.sent += sent as f32;
        // A packet may be found lost in a later interval than it was sent in.
        self.lost = (self.lost + lost as f32).min(self.sent);
    }

    pub(crate) fn fade(&mut self, share: f32) {
        self.sent *= share;
        self.lost *= share;
    }

    /// These packets and those of `other`, which count as at most `max_packets`.
    pub(crate) fn joined(&self, other: &Self, max_packets: f32) -> Self {
        let share = if other.sent > max_packets {
            max_packets / other.sent
        } else {
            1.0
        };
        Self {
            sent: self.sent + share * other.sent,
            lost: self.lost + share * other.lost,
        }
    }

    /// The loss rate; `None` when less than one packet is left.
    ///
    /// The bounds are Wilson's score interval (JASA 22, 1927), which stays within 0..1 and is honest at
    /// no loss at all. Losses come in bursts, so four packets count as one trial:
    /// independent trials would claim too much.
    #[must_use]
    pub fn bounds(&self) -> Option<LossBounds> {
        if self.sent < 1.0 {
            return None;
        }
        let (trials, mean) = (
            f64::from(self.sent / BURST),
            f64::from(self.lost / self.sent),
        );
        let z_sq = QUANTILE_90 * QUANTILE_90;
        let centre = (mean + z_sq / (2.0 * trials)) / (1.0 + z_sq / trials);
        let spread = mean * (1.0 - mean) / trials + z_sq / (4.0 * trials * trials);
        let half = QUANTILE_90 * spread.sqrt() / (1.0 + z_sq / trials);
        Some(LossBounds {
            mean: LossRate::from_fraction(mean),
            low: LossRate::from_fraction((centre - half).min(mean)),
            high: LossRate::from_fraction((centre + half).max(mean)),
        })
    }
}

/// Packets in a row that share one fate.
const BURST: f32 = 4.0;

#[cfg(test)]
mod tests {
    use super::LossCount;

    #[test]
    fn bounds_follow_the_evidence() {
        // name, sent, lost, (low, high) in ppm within 10 %
        type Case<'a> = (&'a str, f32, f32, Option<(u32, u32)>);
        let cases: &[Case<'_>] = &[
            ("nothing", 0.0, 0.0, None),
            ("a faded packet", 0.5, 0.5, None),
            ("no loss in 10", 10.0, 0.0, Some((0, 396_500))),
            ("no loss in 10,000", 10_000.0, 0.0, Some((0, 657))),
            ("1 % of 10,000", 10_000.0, 100.0, Some((7_740, 12_880))),
            ("all of 100", 100.0, 100.0, Some((938_300, 1_000_000))),
        ];
        for (name, sent, lost, want) in cases {
            let got = LossCount {
                sent: *sent,
                lost: *lost,
            }
            .bounds();
            assert_eq!(got.is_some(), want.is_some(), "{name}");
            let Some((got, (low, high))) = got.zip(*want) else {
                continue;
            };
            let near = |got: u32, want: u32| got.abs_diff(want) <= want / 10;
            assert!(
                near(got.low.ppm(), low) && near(got.high.ppm(), high),
                "{name}: {got:?}"
            );
            assert!(
                got.low <= got.mean && got.mean <= got.high,
                "{name}: {got:?}"
            );
        }
    }

    #[test]
    fn joining_limits_the_others_voice() {
        let own = LossCount {
            sent: 512.0,
            lost: 0.0,
        };
        let other = LossCount {
            sent: 1_024_000.0,
            lost: 64_000.0,
        };
        let joined = own.joined(&other, 512.0);
        assert_eq!(
            joined,
            LossCount {
                sent: 1024.0,
                lost: 32.0
            }
        );
    }
}
