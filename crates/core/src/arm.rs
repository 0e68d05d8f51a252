//! What can be chosen: the HTTP version and the congestion control under it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{LossRate, Rate, serde_as_text};

/// An HTTP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Version {
    /// HTTP/1.1 over TCP (RFC 9112).
    H1,
    /// HTTP/2 over TCP (RFC 9113).
    H2,
    /// HTTP/3 over QUIC (RFC 9114).
    H3,
}

impl Version {
    /// The transport that carries this version.
    #[must_use]
    pub const fn transport(self) -> Transport {
        match self {
            Self::H1 | Self::H2 => Transport::Tcp,
            Self::H3 => Transport::Quic,
        }
    }

    /// `h1`, `h2` or `h3`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::H1 => "h1",
            Self::H2 => "h2",
            Self::H3 => "h3",
        }
    }
}

/// For people: `HTTP/2`.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::H1 => "HTTP/1.1",
            Self::H2 => "HTTP/2",
            Self::H3 => "HTTP/3",
        })
    }
}

/// The transport under an HTTP version. What one loses or delivers says little about the other where
/// a middlebox treats UDP in its own way, so both are measured apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP or MPTCP.
    Tcp,
    /// QUIC over UDP.
    Quic,
}

impl Transport {
    /// Both, in the order of their indices.
    pub const ALL: [Self; 2] = [Self::Tcp, Self::Quic];

    /// The position in an array that has an element for each transport.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Tcp => Self::Quic,
            Self::Quic => Self::Tcp,
        }
    }
}

/// A congestion control algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Congestion {
    /// CUBIC (RFC 9438).
    Cubic,
    /// BBR.
    Bbr,
}

impl Congestion {
    /// `cubic` or `bbr`, as the kernel and the configuration name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }

    /// The rate that it gets at random losses of any path, however fast; `None` where losses do not
    /// limit it.
    ///
    /// CUBIC's mean window for packets of 1460 bytes: RFC 9438 §5.1, and that of Reno where it is
    /// larger (Mathis et al., "The macroscopic behavior of the TCP congestion avoidance
    /// algorithm", CCR 1997).
    pub(crate) fn rate_at_loss(self, loss: LossRate, rtt: Duration) -> Option<Rate> {
        let (loss, rtt) = (loss.fraction(), rtt.as_secs_f64());
        if self == Self::Bbr || loss <= 0.0 || rtt <= 0.0 {
            return None;
        }
        // To the power of 3/4: asked at each decision, and roots are quick.
        let root = (rtt / loss).sqrt();
        let cubic = 1.054 * root * root.sqrt();
        let reno = (1.5 / loss).sqrt();
        let bits = cubic.max(reno) * 1460.0 * 8.0 / rtt;
        Some(Rate::from_bits_per_sec(bits as u64))
    }
}

/// A way to send a response. As text `h2-cubic`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arm {
    /// The HTTP version.
    pub version: Version,
    /// The congestion control of its transport.
    pub congestion: Congestion,
}

impl Arm {
    /// The arm of a version and a congestion control.
    #[must_use]
    pub const fn new(version: Version, congestion: Congestion) -> Self {
        Self {
            version,
            congestion,
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.version.name(), self.congestion.name())
    }
}

/// A text that names no arm.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("reading an arm: expected h1, h2 or h3, a hyphen, and cubic or bbr, such as `h2-cubic`")]
pub struct ParseArmError;

impl FromStr for Arm {
    type Err = ParseArmError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (version, congestion) = text.split_once('-').ok_or(ParseArmError)?;
        let version = match version {
            "h1" => Version::H1,
            "h2" => Version::H2,
            "h3" => Version::H3,
            _ => return Err(ParseArmError),
        };
        let congestion = match congestion {
            "cubic" => Congestion::Cubic,
            "bbr" => Congestion::Bbr,
            _ => return Err(ParseArmError),
        };
        Ok(Self {
            version,
            congestion,
        })
    }
}

serde_as_text!(Arm);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Arm, Congestion, Version};
    use crate::units::LossRate;

    #[test]
    fn arms_read_what_they_print() {
        for version in [Version::H1, Version::H2, Version::H3] {
            for congestion in [Congestion::Cubic, Congestion::Bbr] {
                let arm = Arm::new(version, congestion);
                assert_eq!(arm.to_string().parse(), Ok(arm));
            }
        }
        for text in [
            "",
            "h2",
            "h2-",
            "h2-reno",
            "H2-cubic",
            "h4-bbr",
            "h2-cubic-",
        ] {
            assert!(text.parse::<Arm>().is_err(), "`{text}`");
        }
        assert_eq!(
            serde_json::to_string(&Arm::new(Version::H2, Congestion::Bbr)).unwrap(),
            r#""h2-bbr""#
        );
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
        assert_eq!(rate(Congestion::Bbr, 0.05, 50), None);
    }
}
