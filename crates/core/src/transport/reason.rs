//! Why a version was chosen, as data, as a sentence and as a stable code.

use std::fmt;
use std::time::Duration;

use super::{Comparison, Decision};
use crate::choice::{Bar, Evidence, Group, HELD_BACK, Reason};
use crate::client::key::Prefix;
use hikyaku_units::arm::Version;
use hikyaku_units::{LossRate, human, names};

/// Why a version was chosen. `Display` gives a clause, [`VersionReason::code`] a name for logs and metrics.
pub type VersionReason = Reason<Version, UdpBar, Comparison>;

/// Why UDP rules HTTP/3 out, or has to be probed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum UdpBar {
    /// UDP fails.
    Fails {
        /// How.
        failure: UdpFailure,
        /// The prefix that this is known of; `None` when it is the client's own.
        prefix: Option<Prefix>,
        /// Time until UDP is tried again.
        probe_in: Duration,
    },
    /// UDP failed and is tried again in this session.
    Probed {
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
}

impl Bar for UdpBar {
    fn group(&self) -> Group {
        Group::Udp
    }
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

names! {
    /// The code that a [`VersionReason`] is counted by.
    pub enum VersionReasonCode {
        Pinned = "pinned",
        HoldBack = "hold_back",
        TooFewSamples = "too_few_samples",
        NotComparable = "not_comparable",
        UdpNeverCame = "udp_never_came",
        UdpBroken = "udp_broken",
        UdpThrottled = "udp_throttled",
        UdpProbe = "udp_probe",
        QuicLoss = "quic_loss",
        Explore = "explore",
        Trial = "trial",
        H3Faster = "h3_faster",
        H2Faster = "h2_faster",
        H3Kept = "h3_kept",
        H2Kept = "h2_kept",
    }
}

impl VersionReason {
    /// A stable name in snake case.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.kind().name()
    }

    /// The code that it is counted by.
    #[must_use]
    pub const fn kind(&self) -> VersionReasonCode {
        use VersionReasonCode as Code;
        match self {
            Self::Only | Self::Pinned(_) => Code::Pinned,
            Self::HoldBack => Code::HoldBack,
            Self::TooFewSamples(_) => Code::TooFewSamples,
            Self::NotComparable(_) | Self::NoGain(_) => Code::NotComparable,
            Self::Barred(UdpBar::Fails { failure, .. }) => match failure {
                UdpFailure::NeverCame { .. } => Code::UdpNeverCame,
                UdpFailure::Broken { .. } => Code::UdpBroken,
                UdpFailure::Throttled { .. } => Code::UdpThrottled,
            },
            Self::Barred(UdpBar::Probed { .. }) => Code::UdpProbe,
            Self::Barred(UdpBar::QuicLoss { .. }) => Code::QuicLoss,
            Self::Explore(_) => Code::Explore,
            Self::Trial(_) => Code::Trial,
            Self::Better(over) if matches!(over.arm, Version::H3) => Code::H2Faster,
            Self::Better(_) => Code::H3Faster,
            Self::Kept(over) if matches!(over.arm, Version::H3) => Code::H2Kept,
            Self::Kept(_) => Code::H3Kept,
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.version, self.reason)
    }
}

impl fmt::Display for VersionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only | Self::Pinned(_) => f.write_str("pinned"),
            Self::Barred(bar) => bar.fmt(f),
            Self::HoldBack => f.write_str(HELD_BACK),
            Self::TooFewSamples(Evidence { samples, needed }) => {
                write!(
                    f,
                    "the plain choice, {samples:.0} of {needed} samples so far"
                )
            }
            Self::NotComparable(missing) => missing.fmt(f),
            Self::NoGain(_) => f.write_str("no other gains enough"),
            Self::Explore(over) | Self::Trial(over) | Self::Better(over) | Self::Kept(over) => {
                let Some(comparison) = &over.gain else {
                    return write!(f, "instead of {}", over.arm);
                };
                self.compared(other(over.arm), comparison, f)
            }
        }
    }
}

impl VersionReason {
    fn compared(
        &self,
        version: Version,
        comparison: &Comparison,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let times = Times(version, comparison);
        let percent = |share: f32| human::percent(share.into());
        match self {
            Self::Explore(_) => write!(f, "exploring; {times}"),
            Self::Trial(_) => {
                let best = percent(comparison.gain(version).high());
                write!(f, "a trial; {times}; upper bound of the gain {best}")
            }
            Self::Kept(_) => {
                let [gain, needed] = [
                    comparison.gain(other(version)).expected(),
                    comparison.needed,
                ]
                .map(percent);
                write!(f, "kept; {times}; gain of a change {gain}, needed {needed}")
            }
            _ => {
                let low = percent(comparison.gain(version).low());
                write!(f, "{times}; lower bound of the gain {low}")
            }
        }
    }
}

impl fmt::Display for UdpBar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fails {
                failure,
                prefix,
                probe_in,
            } => {
                let (whose, wait) = (Whose(*prefix), human::time(*probe_in));
                write!(f, "{whose}{failure}; next probe in {wait}")
            }
            Self::Probed { failure, prefix } => {
                write!(f, "a probe, since {}{failure}", Whose(*prefix))
            }
            Self::QuicLoss { quic, tcp } => {
                let (quic, tcp) = (human::loss(*quic), human::loss(*tcp));
                write!(f, "QUIC loses {quic} where TCP loses {tcp}")
            }
        }
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
