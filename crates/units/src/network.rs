//! Networks of IP addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use crate::serde_as_text;

/// The addresses with a common prefix, such as `192.0.2.0/24` or `2001:db8::/32` (RFC 4632 §3.1, RFC 4291
/// §2.3). An address alone is a network of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(IpNet);

impl Network {
    /// Whether an address is in the network. An IPv4-mapped IPv6 address is the IPv4 address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// The bits that all addresses of the network share.
    #[must_use]
    pub fn prefix_len(&self) -> u8 {
        self.0.prefix_len()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.prefix_len() == self.0.max_prefix_len() {
            true => self.0.addr().fmt(f),
            false => self.0.fmt(f),
        }
    }
}

/// A text that is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseNetworkError {
    /// It is neither an address nor a prefix.
    #[error(
        "`{0}` is no network: expected a prefix such as 192.0.2.0/24 or 2001:db8::/32, or an address"
    )]
    Malformed(String),
    /// Bits are set behind the prefix, so that an address or a prefix may be meant.
    #[error("`{given}` has bits behind its prefix: write {network}, or the address alone")]
    HostBits {
        /// The text.
        given: String,
        /// The network that its prefix gives.
        network: Network,
    },
}

impl FromStr for Network {
    type Err = ParseNetworkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self(address.to_canonical().into()));
        }
        let network: IpNet = text
            .parse()
            .map_err(|_| ParseNetworkError::Malformed(text.to_owned()))?;
        match network.trunc() == network {
            true => Ok(Self(canonical(network))),
            false => Err(ParseNetworkError::HostBits {
                given: text.to_owned(),
                network: Self(network.trunc()),
            }),
        }
    }
}

/// The network of IPv4 that an IPv4-mapped one stands for (RFC 4291 §2.5.5.2).
fn canonical(network: IpNet) -> IpNet {
    let mapped = network.prefix_len().checked_sub(96);
    let within = mapped.and_then(|len| IpNet::new(network.addr().to_canonical(), len).ok());
    let is_mapped = network.addr().is_ipv6() && network.addr().to_canonical().is_ipv4();
    within.filter(|_| is_mapped).unwrap_or(network)
}

serde_as_text!(Network);

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_are_in_their_networks() {
        let cases = [
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("192.0.2.0/24", "::ffff:192.0.2.7", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            ("::ffff:192.0.2.7", "192.0.2.7", true),
            ("::ffff:10.0.0.0/104", "10.9.8.7", true),
            ("::ffff:10.0.0.0/104", "11.0.0.1", false),
            ("0.0.0.0/0", "203.0.113.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "192.0.2.1", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::1", "::1", true),
        ];
        for (text, address, want) in cases {
            let got = network(text).contains(address.parse().unwrap());
            assert_eq!(got, want, "{address} in {text}");
        }
    }

    #[test]
    fn the_text_is_read_and_printed() {
        for text in [
            "192.0.2.0/24",
            "192.0.2.7",
            "0.0.0.0/0",
            "2001:db8::/32",
            "::1",
        ] {
            assert_eq!(network(text).to_string(), text);
        }
        assert_eq!(network("192.0.2.7/32").to_string(), "192.0.2.7");
        assert_eq!(network("192.0.2.0/25").prefix_len(), 25);
    }

    #[test]
    fn other_texts_are_refused_with_what_to_write() {
        let cases = [
            ("192.0.2.1/24", "write 192.0.2.0/24"),
            ("2001:db8::1/64", "write 2001:db8::/64"),
            ("192.0.2.0/33", "`192.0.2.0/33` is no network"),
            ("192.0.2", "`192.0.2` is no network"),
            ("example.org", "`example.org` is no network"),
            ("", "`` is no network"),
        ];
        for (text, want) in cases {
            let error = text.parse::<Network>().unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
