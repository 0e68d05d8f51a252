//! The keys of estimates: client addresses and the prefixes around them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use hikyaku_units::mix;
use hikyaku_units::serde_as_text;

/// A client address or a prefix. As text `192.0.2.7` or `192.0.2.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// One client address; never an IPv4-mapped IPv6 one.
    Address(IpAddr),
    /// Neighbours that share a path.
    Prefix(Prefix),
}

impl Key {
    /// The key of an address; `::ffff:192.0.2.7` is the client `192.0.2.7`.
    #[must_use]
    pub fn address(addr: IpAddr) -> Self {
        Self::Address(addr.to_canonical())
    }

    /// Whether the other is the same or lies in it.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        let inside = |prefix: &Prefix| prefix.contains(other.first());
        match (self, other) {
            (Self::Address(_), _) => self == other,
            (Self::Prefix(prefix), Self::Address(_)) => inside(prefix),
            (Self::Prefix(prefix), Self::Prefix(other)) => {
                prefix.len <= other.len && inside(prefix)
            }
        }
    }

    /// The address, or the prefix's first one.
    #[must_use]
    pub const fn first(&self) -> IpAddr {
        match self {
            Self::Address(addr) => *addr,
            Self::Prefix(prefix) => prefix.network,
        }
    }
}

/// In as few bytes as there are: tables hash a key at each look-up.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.first() {
            IpAddr::V4(addr) => state.write_u32(addr.to_bits()),
            IpAddr::V6(addr) => state.write(&addr.octets()),
        }
        state.write_u8(match self {
            Self::Address(_) => u8::MAX,
            Self::Prefix(prefix) => prefix.len,
        });
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(addr) => addr.fmt(f),
            Self::Prefix(prefix) => prefix.fmt(f),
        }
    }
}

impl FromStr for Key {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains('/') {
            return text.parse().map(Self::Prefix);
        }
        text.parse()
            .map(Self::address)
            .map_err(|_| ParseKeyError::Address)
    }
}

serde_as_text!(Key);

/// A prefix of one of the lengths that are kept: /24 of IPv4, /56 and /48 of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    network: IpAddr,
    len: u8,
}

impl Prefix {
    /// The prefix of length `len` around `addr`; `None` for a length that is not kept.
    #[must_use]
    pub fn around(addr: IpAddr, len: u8) -> Option<Self> {
        match (addr.to_canonical(), len) {
            (IpAddr::V4(addr), 24) => Some(Self::around_v4(addr)),
            (IpAddr::V6(addr), 56) => Some(Self::around_v6(addr)[0]),
            (IpAddr::V6(addr), 48) => Some(Self::around_v6(addr)[1]),
            _ => None,
        }
    }

    /// The /24 around an address.
    pub(crate) const fn around_v4(addr: Ipv4Addr) -> Self {
        let network = Ipv4Addr::from_bits(addr.to_bits() & (u32::MAX << 8));
        Self {
            network: IpAddr::V4(network),
            len: 24,
        }
    }

    /// The /56 and the /48 around an address that is not IPv4-mapped.
    pub(crate) fn around_v6(addr: Ipv6Addr) -> [Self; 2] {
        [56, 48].map(|len| {
            let network = Ipv6Addr::from_bits(addr.to_bits() & (u128::MAX << (128 - len)));
            Self {
                network: IpAddr::V6(network),
                len,
            }
        })
    }

    /// The first address.
    #[must_use]
    pub const fn network(&self) -> IpAddr {
        self.network
    }

    /// Its length in bits: 24, 48 or 56.
    #[must_use]
    pub const fn prefix_len(&self) -> u8 {
        self.len
    }

    /// Whether `addr` lies in it.
    #[must_use]
    pub fn contains(&self, addr: IpAddr) -> bool {
        Self::around(addr, self.len) == Some(*self)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.len)
    }
}

impl FromStr for Prefix {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (network, len) = text.split_once('/').ok_or(ParseKeyError::Length)?;
        let network: IpAddr = network.parse().map_err(|_| ParseKeyError::Address)?;
        let len = len.parse().map_err(|_| ParseKeyError::Length)?;
        let prefix = Self::around(network, len).ok_or(ParseKeyError::Length)?;
        if prefix.network == network {
            Ok(prefix)
        } else {
            Err(ParseKeyError::HostBits)
        }
    }
}

serde_as_text!(Prefix);

/// Why a text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseKeyError {
    /// The part before any slash is no address.
    #[error("reading an address or prefix: expected an IPv4 or IPv6 address")]
    Address,
    /// Estimates are not kept for this length.
    #[error("reading a prefix: expected the length /24 (IPv4), /48 or /56 (IPv6)")]
    Length,
    /// Bits behind the prefix are set.
    #[error("reading a prefix: bits behind its length are set")]
    HostBits,
}

/// The prefixes around an address, nearest first: IPv4 /24; IPv6 /56, /48.
pub fn prefixes(addr: IpAddr) -> impl Iterator<Item = Prefix> {
    let lengths: &[u8] = match addr.to_canonical() {
        IpAddr::V4(_) => &[24],
        IpAddr::V6(_) => &[56, 48],
    };
    lengths
        .iter()
        .filter_map(move |&len| Prefix::around(addr, len))
}

/// The index of the table, among `stripes`, that keeps an address. All addresses of a /24 or /48 have
/// the same, so that an address and its prefixes are kept together. `stripes` of 0 counts as 1.
#[must_use]
pub fn stripe_of(addr: IpAddr, stripes: usize) -> usize {
    let network = match addr.to_canonical() {
        IpAddr::V4(addr) => u64::from(addr.to_bits() >> 8),
        IpAddr::V6(addr) => (addr.to_bits() >> 80) as u64 | V6_SHARDS,
    };
    (mix::mix(network) % stripes.max(1) as u64) as usize
}

/// Keeps IPv6 networks apart from IPv4 ones of the same number.
const V6_SHARDS: u64 = 1 << 63;

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::{Key, ParseKeyError, Prefix, prefixes, stripe_of};

    #[test]
    fn prefixes_of_an_address() {
        let cases: &[(&str, &[&str])] = &[
            ("192.0.2.7", &["192.0.2.0/24"]),
            ("::ffff:192.0.2.7", &["192.0.2.0/24"]),
            (
                "2001:db8:1:2ff::9",
                &["2001:db8:1:200::/56", "2001:db8:1::/48"],
            ),
        ];
        for (addr, want) in cases {
            let addr: IpAddr = addr.parse().unwrap();
            let got: Vec<String> = prefixes(addr).map(|p| p.to_string()).collect();
            assert_eq!(got, *want, "{addr}");
        }
    }

    #[test]
    fn keys_are_read_strictly() {
        let cases: &[(&str, Result<&str, ParseKeyError>)] = &[
            ("192.0.2.7", Ok("192.0.2.7")),
            ("::ffff:192.0.2.7", Ok("192.0.2.7")),
            ("2001:db8::/48", Ok("2001:db8::/48")),
            ("192.0.2.7/24", Err(ParseKeyError::HostBits)),
            ("192.0.0.0/16", Err(ParseKeyError::Length)),
            ("2001:db8::/24", Err(ParseKeyError::Length)),
            ("192.0.2.0/", Err(ParseKeyError::Length)),
            ("example.org", Err(ParseKeyError::Address)),
        ];
        for (text, want) in cases {
            let got = text.parse::<Key>().map(|k| k.to_string());
            assert_eq!(got.as_deref().map_err(|e| *e), *want, "`{text}`");
        }
    }

    proptest! {
        #[test]
        fn an_address_and_its_prefixes_share_a_stripe(addr: IpAddr, stripes in 1usize..64) {
            let stripe = stripe_of(addr, stripes);
            prop_assert!(stripe < stripes);
            for prefix in prefixes(addr) {
                prop_assert!(prefix.contains(addr));
                prop_assert_eq!(stripe_of(prefix.network(), stripes), stripe);
                prop_assert_eq!(prefix.to_string().parse::<Prefix>(), Ok(prefix));
            }
        }
    }
}
