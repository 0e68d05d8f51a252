//! Prefixes of clients, of any length.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::bpf::Prefix;

/// A prefix of any length, without host bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Net {
    network: IpAddr,
    len: u8,
}

impl Net {
    /// The prefix of `len` bits around an address; at most all of them.
    pub(crate) fn around(address: IpAddr, len: u8) -> Self {
        let address = address.to_canonical();
        let len = len.min(bits(address));
        let (network, _) = range(address, len);
        Self { network, len }
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let (first, last) = self.range();
        let address = address.to_canonical();
        // Addresses of IPv4 and IPv6 compare, too, but are never between two of the other.
        first <= address && address <= last
    }

    /// As the kernel's programs know it.
    pub(crate) fn prefix(&self) -> Prefix {
        Prefix::around(self.network, self.len)
    }

    /// The first and the last address.
    pub(crate) fn range(&self) -> (IpAddr, IpAddr) {
        range(self.network, self.len)
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn range(address: IpAddr, len: u8) -> (IpAddr, IpAddr) {
    match address {
        IpAddr::V4(address) => {
            let host = u32::MAX.checked_shr(len.into()).unwrap_or(0);
            let (first, last) = (address.to_bits() & !host, address.to_bits() | host);
            (IpAddr::V4(first.into()), IpAddr::V4(last.into()))
        }
        IpAddr::V6(address) => {
            let host = u128::MAX.checked_shr(len.into()).unwrap_or(0);
            let (first, last) = (address.to_bits() & !host, address.to_bits() | host);
            (IpAddr::V6(first.into()), IpAddr::V6(last.into()))
        }
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.len)
    }
}

/// A text that is no prefix.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no prefix such as 192.0.2.0/24")]
pub(crate) struct NotANet(String);

impl FromStr for Net {
    type Err = NotANet;

    fn from_str(text: &str) -> Result<Self, NotANet> {
        let parse = || {
            let (network, len) = text.split_once('/')?;
            let (network, len) = (network.parse::<IpAddr>().ok()?, len.parse().ok()?);
            (len <= bits(network)).then(|| Self::around(network, len))
        };
        parse().ok_or_else(|| NotANet(text.chars().take(64).collect()))
    }
}

impl<'de> Deserialize<'de> for Net {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Net {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        let cases = [
            ("192.0.2.77/24", Some("192.0.2.0/24"), "192.0.2.255", true),
            ("192.0.2.0/24", Some("192.0.2.0/24"), "192.0.3.0", false),
            ("0.0.0.0/0", Some("0.0.0.0/0"), "::1", false),
            ("0.0.0.0/0", Some("0.0.0.0/0"), "::ffff:192.0.2.1", true),
            (
                "2001:db8::/32",
                Some("2001:db8::/32"),
                "2001:db8:9::1",
                true,
            ),
            ("::/0", Some("::/0"), "192.0.2.1", false),
            (
                "2001:db8::1/128",
                Some("2001:db8::1/128"),
                "2001:db8::1",
                true,
            ),
            ("192.0.2.0/33", None, "::", false),
            ("192.0.2.0", None, "::", false),
            ("x/8", None, "::", false),
        ];
        for (text, want, address, inside) in cases {
            let net = text.parse::<Net>().ok();
            let shown = net.map(|net| net.to_string());
            assert_eq!(shown.as_deref(), want, "{text}");
            let has = net.is_some_and(|net| net.contains(address.parse().unwrap()));
            assert_eq!(has, inside, "{text} {address}");
        }
    }
}
