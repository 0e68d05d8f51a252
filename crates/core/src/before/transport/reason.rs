//! Why a decision fell, as data, as a sentence and as a stable code.

use std::fmt;
use std::time::Duration;

use super::{Comparison, ReasonCode};
use crate::client::key::Prefix;
use hikyaku_units::LossRate;
use hikyaku_units::arm::Version;
use hikyaku_units::human;

/// Why a decision fell. `Display` gives one sentence, [`Reason::code`] a name for logs and metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// The configuration pins the version.
    Pinned {
        /// The version.
        version: Version,
    },
    /// The client is in the hold-back group.
    HoldBack {
        /// The plain choice.
        version: Version,
    },
    /// Too little is known.
    TooFewSamples {
        /// The plain choice.
        version: Version,
        /// Samples so far; those of the prefix count a quarter.
        samples: f32,
        /// Samples needed.
        needed: u32,
    },
    /// The arms cannot be compared.
    NotComparable {
        /// The plain choice, or the last one.
        version: Version,
        /// The missing part.
        missing: Missing,
    },
    /// UDP fails.
    UdpFails {
        /// How.
        failure: UdpFailure,
        /// The prefix that this is known of; `None` when it is the client's own.
        prefix: Option<Prefix>,
        /// Time until UDP is tried again.
        probe_in: Duration,
    },
    /// UDP failed and is tried again in this session.
    UdpProbe {
        /// How it failed.
        failure: UdpFailure,
        /// The prefix that this is known of; `None` when it is the client's own.
        prefix: Option<Prefix>,
    },
    /// QUIC loses far more than TCP on the same path: UDP is policed, and may die.
    QuicLoss {
        /// QUIC's loss.
        quic: LossRate,
        /// TCP's loss.
        tcp: LossRate,
    },
    /// The other arm gets this session, to keep its outcomes known.
    Explore {
        /// The other arm's version.
        version: Version,
        /// The comparison.
        comparison: Comparison,
    },
    /// Which is faster is in doubt, and the other arm has hardly been seen: it gets this session.
    Trial {
        /// The other arm's version.
        version: Version,
        /// The comparison.
        comparison: Comparison,
    },
    /// The version is expected to be faster.
    Faster {
        /// The version.
        version: Version,
        /// The comparison.
        comparison: Comparison,
    },
    /// The other version may be faster, but not by enough for a change.
    Kept {
        /// The version.
        version: Version,
        /// The comparison.
        comparison: Comparison,
        /// Expected gain that a change would need, as a share.
        needed: f32,
    },
}

/// The missing part of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// No round-trip time was measured.
    Rtt,
    /// No delivery rate was measured.
    Rate,
    /// The model lacks the arms of the pinned congestion control.
    Arm,
}

/// How UDP fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpFailure {
    /// HTTP/3 was advertised and QUIC never came.
    NeverCame {
        /// The number of sessions without an answer.
        sessions: u8,
    },
    /// QUIC connections died.
    Broken {
        /// How long ago they died.
        ago: Duration,
    },
    /// QUIC delivers far less than TCP.
    Throttled {
        /// Found so long ago.
        ago: Duration,
    },
}

impl Reason {
    /// A stable name in snake case.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.kind().name()
    }

    /// The code that it is counted by.
    #[must_use]
    pub const fn kind(&self) -> ReasonCode {
        match self {
            Self::Pinned { .. } => ReasonCode::Pinned,
            Self::HoldBack { .. } => ReasonCode::HoldBack,
            Self::TooFewSamples { .. } => ReasonCode::TooFewSamples,
            Self::NotComparable { .. } => ReasonCode::NotComparable,
            Self::UdpFails {
                failure: UdpFailure::NeverCame { .. },
                ..
            } => ReasonCode::UdpNeverCame,
            Self::UdpFails {
                failure: UdpFailure::Broken { .. },
                ..
            } => ReasonCode::UdpBroken,
            Self::UdpFails {
                failure: UdpFailure::Throttled { .. },
                ..
            } => ReasonCode::UdpThrottled,
            Self::UdpProbe { .. } => ReasonCode::UdpProbe,
            Self::QuicLoss { .. } => ReasonCode::QuicLoss,
            Self::Explore { .. } => ReasonCode::Explore,
            Self::Trial { .. } => ReasonCode::Trial,
            Self::Faster {
                version: Version::H3,
                ..
            } => ReasonCode::H3Faster,
            Self::Faster { .. } => ReasonCode::H2Faster,
            Self::Kept {
                version: Version::H3,
                ..
            } => ReasonCode::H3Kept,
            Self::Kept { .. } => ReasonCode::H2Kept,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pinned { version } => write!(f, "{version}: pinned by the configuration"),
            Self::HoldBack { version } => {
                write!(
                    f,
                    "{version}: held back on the plain choice to measure the gain"
                )
            }
            Self::TooFewSamples {
                version,
                samples,
                needed,
            } => {
                write!(
                    f,
                    "{version}: the plain choice, {samples:.0} of {needed} samples so far"
                )
            }
            Self::NotComparable { version, missing } => write!(f, "{version}: {missing}"),
            Self::UdpFails { .. } | Self::UdpProbe { .. } | Self::QuicLoss { .. } => self.udp(f),
            Self::Explore {
                version,
                comparison,
            }
            | Self::Trial {
                version,
                comparison,
            }
            | Self::Faster {
                version,
                comparison,
            }
            | Self::Kept {
                version,
                comparison,
                ..
            } => self.compared(*version, comparison, f),
        }
    }
}

impl Reason {
    fn udp(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UdpFails {
                failure,
                prefix,
                probe_in,
            } => {
                let (whose, wait) = (Whose(*prefix), human::time(*probe_in));
                write!(f, "HTTP/2: {whose}{failure}; next probe in {wait}")
            }
            Self::UdpProbe { failure, prefix } => {
                write!(f, "HTTP/3: a probe, since {}{failure}", Whose(*prefix))
            }
            Self::QuicLoss { quic, tcp } => {
                let (quic, tcp) = (human::loss(*quic), human::loss(*tcp));
                write!(f, "HTTP/2: QUIC loses {quic} where TCP loses {tcp}")
            }
            _ => Ok(()),
        }
    }

    fn compared(
        &self,
        version: Version,
        comparison: &Comparison,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let times = Times(version, comparison);
        match self {
            Self::Explore { .. } => write!(f, "{version}: exploring; {times}"),
            Self::Trial { .. } => {
                let best = human::percent(comparison.gain_high(version).into());
                write!(
                    f,
                    "{version}: a trial; {times}; upper bound of the gain {best}"
                )
            }
            Self::Kept { needed, .. } => {
                let gain = comparison.gain(other(version));
                let [gain, needed] = [gain, *needed].map(|share| human::percent(share.into()));
                write!(
                    f,
                    "{version}: kept; {times}; gain of a change {gain}, needed {needed}"
                )
            }
            _ => {
                let low = human::percent(comparison.gain_low(version).into());
                write!(f, "{version}: {times}; lower bound of the gain {low}")
            }
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rtt => "no round-trip time is known yet",
            Self::Rate => "no delivery rate is known yet",
            Self::Arm => "the model lacks the configured congestion control",
        })
    }
}

impl fmt::Display for UdpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverCame { sessions: 1 } => {
                f.write_str("QUIC never came in 1 advertised session")
            }
            Self::NeverCame { sessions } => {
                write!(f, "QUIC never came in {sessions} advertised sessions")
            }
            Self::Broken { ago } => write!(f, "QUIC broke {} ago", human::time(*ago)),
            Self::Throttled { ago } => {
                write!(f, "QUIC was found throttled {} ago", human::time(*ago))
            }
        }
    }
}

/// "in 192.0.2.0/24 " before a failure known of a prefix.
struct Whose(Option<Prefix>);

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |prefix| write!(f, "in {prefix} "))
    }
}

/// The expected times, the given version's first, and the path they are for.
struct Times<'a>(Version, &'a Comparison);

impl fmt::Display for Times<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(version, c) = *self;
        let (this, that) = (
            human::time(c.load(version).time),
            human::time(c.load(other(version)).time),
        );
        let (size, rtt, rate) = (
            human::size(c.size),
            human::time(c.min_rtt),
            human::rate(c.rate),
        );
        write!(
            f,
            "predicted {this} against {that} on {} for {size} and TCP's longer handshake (RTT {rtt}, ",
            other(version)
        )?;
        if c.loss_tcp == c.loss_quic {
            write!(f, "loss {}", human::loss(c.loss_tcp))?;
        } else {
            let (tcp, quic) = (human::loss(c.loss_tcp), human::loss(c.loss_quic));
            write!(f, "loss {tcp} on TCP and {quic} on QUIC")?;
        }
        write!(f, ", {rate})")
    }
}

/// The version that this one is compared with.
pub(super) const fn other(version: Version) -> Version {
    match version {
        Version::H1 | Version::H2 => Version::H3,
        Version::H3 => Version::H2,
    }
}
