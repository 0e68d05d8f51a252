//! What can be chosen: the HTTP version and the congestion control under it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::units::serde_as_text;

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
    use super::{Arm, Congestion, Version};

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
}
