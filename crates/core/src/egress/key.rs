//! What knowledge of routes is kept for.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::client::key::{Key, ParseKeyError, Prefix};

/// What a record is of. As text `192.0.2.7`, `192.0.2.0/24`, `2001:db8:1::/48` or `AS64496`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EgressKey {
    /// A client (an IPv4 address, an IPv6 /56) or the prefix around it.
    Net(Key),
    /// A client AS, by its number.
    As(u32),
}

impl EgressKey {
    pub(super) fn is_in(&self, prefix: Prefix) -> bool {
        match self {
            Self::Net(key) => Key::Prefix(prefix).contains(key),
            Self::As(_) => false,
        }
    }
}

impl fmt::Display for EgressKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(key) => key.fmt(f),
            Self::As(number) => write!(f, "AS{number}"),
        }
    }
}

impl FromStr for EgressKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(number) = text.strip_prefix("AS") {
            let number = number.parse().map_err(|_| ParseKeyError::Address)?;
            return Ok(Self::As(number));
        }
        text.parse().map(Self::Net)
    }
}

/// The records that a client's observations go into.
pub(super) struct EgressKeys {
    pub(super) own: EgressKey,
    pub(super) prefix: EgressKey,
    pub(super) asn: Option<EgressKey>,
}

impl EgressKeys {
    pub(super) fn of(client: IpAddr, asn: Option<u32>) -> Self {
        let (own, prefix) = match client.to_canonical() {
            IpAddr::V4(addr) => (Key::Address(addr.into()), Prefix::around_v4(addr)),
            IpAddr::V6(addr) => {
                let [site, wider] = Prefix::around_v6(addr);
                (Key::Prefix(site), wider)
            }
        };
        Self {
            own: EgressKey::Net(own),
            prefix: EgressKey::Net(Key::Prefix(prefix)),
            asn: asn.map(EgressKey::As),
        }
    }

    pub(super) fn wider(&self) -> impl Iterator<Item = EgressKey> + use<> {
        [Some(self.prefix), self.asn].into_iter().flatten()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = EgressKey> + use<> {
        std::iter::once(self.own).chain(self.wider())
    }
}
