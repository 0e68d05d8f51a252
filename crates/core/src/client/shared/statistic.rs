//! The statistics that are shared: with whom, how fast they fade, and within which bounds.

use std::time::Duration;

use crate::fleet::{Bounds, Reach};
use crate::policy::HalfLife;
use hikyaku_units::arm::{ARMS, Transport};

/// A statistic of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// Path samples.
    Samples,
    /// Smallest round-trip time.
    MinRtt,
    /// Smoothed round-trip time.
    SmoothedRtt,
    /// Packets sent and lost, by transport.
    Loss,
    /// Delivery rate, by transport.
    Rate,
    /// Delivery rate where nothing but the path limited it, by transport.
    OpenRate,
    /// Real by predicted load times, by arm.
    Outcomes,
    /// Mean size of responses.
    ResponseSize,
    /// QUIC was seen to work.
    UdpWorks,
    /// QUIC never came, broke, or was throttled.
    UdpFails,
}

impl Statistic {
    /// All of them, in the order of their parts.
    pub const ALL: [Self; 10] = [
        Self::Samples,
        Self::MinRtt,
        Self::SmoothedRtt,
        Self::Loss,
        Self::Rate,
        Self::OpenRate,
        Self::Outcomes,
        Self::ResponseSize,
        Self::UdpWorks,
        Self::UdpFails,
    ];

    /// Its name in `docs/fleet.md`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Samples => "path samples",
            Self::MinRtt => "smallest RTT",
            Self::SmoothedRtt => "smoothed RTT",
            Self::Loss => "loss",
            Self::Rate => "delivery rate",
            Self::OpenRate => "open rate",
            Self::Outcomes => "outcomes",
            Self::ResponseSize => "response size",
            Self::UdpWorks => "UDP works",
            Self::UdpFails => "UDP fails",
        }
    }

    /// The edges that it is shared with. Paths differ by place; clients and their networks are the same
    /// everywhere.
    #[must_use]
    pub const fn reach(self) -> Reach {
        match self {
            Self::Samples
            | Self::MinRtt
            | Self::SmoothedRtt
            | Self::Loss
            | Self::Rate
            | Self::OpenRate => Reach::Pop,
            Self::Outcomes | Self::ResponseSize | Self::UdpWorks | Self::UdpFails => Reach::Fleet,
        }
    }

    /// The time after which its weight is half.
    #[must_use]
    pub const fn half_life(self, policy: &HalfLife) -> Duration {
        match self {
            Self::Samples => policy.samples,
            Self::MinRtt | Self::SmoothedRtt => policy.rtt,
            Self::Loss => policy.loss,
            Self::Rate | Self::OpenRate => policy.rate,
            Self::Outcomes | Self::ResponseSize | Self::UdpWorks | Self::UdpFails => policy.outcome,
        }
    }

    pub(super) const fn bounds(self) -> Bounds {
        let (weight, mean, scatters) = match self {
            Self::Samples => (1024.0, None, false),
            Self::MinRtt | Self::SmoothedRtt => (256.0, Some([0.0, LN_MINUTE]), false),
            Self::Loss => (100_000.0, Some([0.0, 1.0]), false),
            Self::Rate => (256.0, Some([LN_KILOBIT, LN_TERABIT]), true),
            Self::OpenRate => (256.0, Some([LN_KILOBIT, LN_TERABIT]), false),
            Self::Outcomes => (256.0, Some([-2.0, 2.0]), true),
            Self::ResponseSize => (256.0, Some([0.0, LN_TERABYTE]), false),
            Self::UdpWorks => (1.0, None, false),
            Self::UdpFails => (1.0, Some([-MONTH, MONTH]), false),
        };
        Bounds {
            weight,
            mean,
            scatters,
        }
    }

    /// Number of its parts: one, or one for each transport, arm or kind of failure.
    const fn parts(self) -> usize {
        match self {
            Self::Loss | Self::Rate | Self::OpenRate => Transport::ALL.len(),
            Self::Outcomes => ARMS,
            Self::UdpFails => FAILURES,
            _ => 1,
        }
    }

    /// The place of its first part.
    pub(super) const fn first(self) -> usize {
        let (mut first, mut before) = (0, 0);
        while before < self as usize {
            first += Self::ALL[before].parts();
            before += 1;
        }
        first
    }

    /// The places of its parts.
    pub(super) const fn places(self) -> std::ops::Range<usize> {
        self.first()..self.first() + self.parts()
    }
}

/// The statistic of each part.
pub(super) const OF_PART: [Statistic; PARTS] = {
    let mut of = [Statistic::Samples; PARTS];
    let mut next = 0;
    while next < Statistic::ALL.len() {
        let statistic = Statistic::ALL[next];
        let mut place = statistic.first();
        while place < statistic.places().end {
            of[place] = statistic;
            place += 1;
        }
        next += 1;
    }
    of
};

/// Number of parts of all statistics.
pub(super) const PARTS: usize = Statistic::UdpFails.places().end;
/// Kinds of failures of UDP.
pub(super) const FAILURES: usize = 3;

/// 60 s, in µs.
const LN_MINUTE: f64 = 17.91;
const LN_KILOBIT: f64 = 6.907_755_278_982_137;
const LN_TERABIT: f64 = 27.631_021_115_928_547;
const LN_TERABYTE: f64 = LN_TERABIT;
/// The next probe of a failing UDP, in seconds from the last observation.
const MONTH: f64 = 31.0 * 86_400.0;
