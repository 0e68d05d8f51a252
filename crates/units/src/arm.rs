//! The arms that a choice compares: HTTP versions, and the congestion control under them.

mod congestion;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::serde_as_text;

pub use congestion::{Congestion, CongestionSet, ParseCongestionError};

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
    /// All, in the order of their indices.
    pub const ALL: [Self; 3] = [Self::H1, Self::H2, Self::H3];

    /// The position in an array that has an element for each.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

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

/// The transport under an HTTP version.
///
/// A middlebox may treat UDP differently from TCP. Loss and rate of one transport therefore say
/// little about the other, and each is measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP or MPTCP.
    Tcp,
    /// QUIC over UDP.
    Quic,
}

impl Transport {
    /// Both transports, in the order of [`Transport::index`].
    pub const ALL: [Self; 2] = [Self::Tcp, Self::Quic];

    /// `tcp` or `quic`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Quic => "quic",
        }
    }

    /// The position in an array that has an element for each transport.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The transport that is not this one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Tcp => Self::Quic,
            Self::Quic => Self::Tcp,
        }
    }
}

/// A value for each transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ByTransport<T> {
    /// The value for TCP.
    pub tcp: T,
    /// The value for QUIC.
    pub quic: T,
}

impl<T> ByTransport<T> {
    /// Makes the value of each transport with `of`.
    pub fn from_fn(mut of: impl FnMut(Transport) -> T) -> Self {
        Self {
            tcp: of(Transport::Tcp),
            quic: of(Transport::Quic),
        }
    }

    /// Returns the value for `transport`.
    #[must_use]
    pub const fn get(&self, transport: Transport) -> &T {
        match transport {
            Transport::Tcp => &self.tcp,
            Transport::Quic => &self.quic,
        }
    }

    /// Returns the value for `transport`, mutably.
    #[must_use]
    pub const fn get_mut(&mut self, transport: Transport) -> &mut T {
        match transport {
            Transport::Tcp => &mut self.tcp,
            Transport::Quic => &mut self.quic,
        }
    }
}

/// An option for sending a response: a version over a congestion control. As text `h2-cubic`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arm {
    /// The HTTP version.
    pub version: Version,
    /// The congestion control of its transport.
    pub congestion: Congestion,
}

impl Arm {
    /// The distinct arms, in the order of [`Arm::index`]. HTTP/1.1 counts as HTTP/2, since both use
    /// TCP.
    pub const ALL: [Self; ARMS] = [
        Self::new(Version::H2, Congestion::Cubic),
        Self::new(Version::H2, Congestion::Floor),
        Self::new(Version::H2, Congestion::Bbr),
        Self::new(Version::H3, Congestion::Cubic),
        Self::new(Version::H3, Congestion::Floor),
        Self::new(Version::H3, Congestion::Bbr),
    ];

    /// The arm of a version and a congestion control.
    #[must_use]
    pub const fn new(version: Version, congestion: Congestion) -> Self {
        Self {
            version,
            congestion,
        }
    }

    /// The arm of responses over a transport: HTTP/3 over QUIC, HTTP/2 over TCP.
    #[must_use]
    pub const fn over(transport: Transport, congestion: Congestion) -> Self {
        match transport {
            Transport::Tcp => Self::new(Version::H2, congestion),
            Transport::Quic => Self::new(Version::H3, congestion),
        }
    }

    /// The position in [`Arm::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.version.transport().index() * Congestion::ALL.len() + self.congestion.index()
    }
}

/// The number of distinct arms.
pub const ARMS: usize = 6;

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.version.name(), self.congestion.name())
    }
}

/// A text that names no arm.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "reading an arm: expected h1, h2 or h3, a hyphen, and cubic, floor or bbr, such as `h2-cubic`"
)]
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
        let congestion = congestion.parse().map_err(|_| ParseArmError)?;
        Ok(Self {
            version,
            congestion,
        })
    }
}

serde_as_text!(Arm);

#[cfg(test)]
mod tests {
    use super::{Arm, Congestion, Transport, Version};

    #[test]
    fn every_version_transport_and_congestion_control_is_counted_at_its_index() {
        let next = |version| match version {
            Version::H1 => Some(Version::H2),
            Version::H2 => Some(Version::H3),
            Version::H3 => None,
        };
        let versions = std::iter::successors(Some(Version::H1), |version| next(*version));
        assert!(versions.eq(Version::ALL));
        assert_eq!(Version::ALL.map(Version::index), [0, 1, 2]);
        let next = |transport| match transport {
            Transport::Tcp => Some(Transport::Quic),
            Transport::Quic => None,
        };
        let transports = std::iter::successors(Some(Transport::Tcp), |transport| next(*transport));
        assert!(transports.eq(Transport::ALL));
        assert_eq!(Transport::ALL.map(Transport::index), [0, 1]);
        let next = |congestion| match congestion {
            Congestion::Cubic => Some(Congestion::Floor),
            Congestion::Floor => Some(Congestion::Bbr),
            Congestion::Bbr => None,
        };
        let controls = std::iter::successors(Some(Congestion::Cubic), |one| next(*one));
        assert!(controls.eq(Congestion::ALL));
        assert_eq!(Congestion::ALL.map(Congestion::index), [0, 1, 2]);
    }

    #[test]
    fn arms_read_their_own_text() {
        for version in [Version::H1, Version::H2, Version::H3] {
            for congestion in Congestion::ALL {
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
    fn arms_are_found_by_their_index() {
        for (index, arm) in Arm::ALL.into_iter().enumerate() {
            assert_eq!(arm.index(), index, "{arm}");
            assert_eq!(Arm::over(arm.version.transport(), arm.congestion), arm);
        }
        let h1 = Arm::new(Version::H1, Congestion::Floor);
        assert_eq!(Arm::ALL[h1.index()].to_string(), "h2-floor");
    }
}
