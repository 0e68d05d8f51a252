//! Clients, as the gain counts them: their draw, their place in samples, their network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hikyaku_units::mix::mix;

use crate::choice::Assignment;
use crate::client::view::client_number;
use crate::policy::PolicyConfig;

/// A client with its draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Evenly drawn, and independent of the assignment: the clients with the smallest ones are a uniform
    /// random sample.
    pub hash: u64,
    /// The group.
    pub assignment: Assignment,
    /// `policy.holdback` of the draw in 65,535ths. Clients are compared where it is equal.
    pub share: u16,
    /// Its network.
    pub network: Network,
}

impl Subject {
    /// A client under the policy of its connection. `seed` is that of all draws.
    #[must_use]
    pub fn of(client: IpAddr, policy: &PolicyConfig, seed: u64) -> Self {
        let number = client_number(client);
        Self {
            hash: mix(number ^ mix(seed ^ SAMPLE)),
            assignment: Assignment::of(client, policy, seed),
            share: (policy.holdback * f64::from(u16::MAX)).round() as u16,
            network: Network::of(client),
        }
    }
}

/// The /24 of an IPv4 address, or the /48 of an IPv6 one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network(u64);

impl Network {
    /// The network of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(u64::from(address.to_bits() >> 8)),
            IpAddr::V6(address) => Self((address.to_bits() >> 80) as u64 | V6),
        }
    }

    /// Its first address.
    #[must_use]
    pub fn first(self) -> IpAddr {
        match self.0 & V6 {
            0 => IpAddr::V4(Ipv4Addr::from_bits((self.0 as u32) << 8)),
            _ => IpAddr::V6(Ipv6Addr::from_bits(u128::from(self.0 & !V6) << 80)),
        }
    }

    /// It as a number that [`Network::from_bits`] reads.
    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    /// `None` if no network has this number.
    pub(super) const fn from_bits(bits: u64) -> Option<Self> {
        let is_known = bits < 1 << 24 || (bits & V6 != 0 && bits & !V6 < 1 << 48);
        if is_known { Some(Self(bits)) } else { None }
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let len = if self.0 & V6 == 0 { 24 } else { 48 };
        write!(f, "{}/{len}", self.first())
    }
}

/// Keeps IPv6 networks apart from IPv4 ones of the same number.
const V6: u64 = 1 << 63;
/// Keeps the place in samples independent of the draws.
const SAMPLE: u64 = 0x6761_696e;

#[cfg(test)]
mod tests {
    use super::*;

    fn held_back(share: f64) -> PolicyConfig {
        PolicyConfig {
            holdback: share,
            ..PolicyConfig::default()
        }
    }

    #[test]
    fn networks_are_those_of_neighbours() {
        let cases = [
            ("192.0.2.7", "192.0.2.0/24"),
            ("::ffff:192.0.2.7", "192.0.2.0/24"),
            ("2001:db8:1:2::7", "2001:db8:1::/48"),
            ("::1", "::/48"),
        ];
        for (address, want) in cases {
            let network = Network::of(address.parse().unwrap());
            assert_eq!(network.to_string(), want);
            assert_eq!(Network::from_bits(network.bits()), Some(network));
        }
        assert_eq!(Network::from_bits(1 << 24), None);
        assert_eq!(Network::from_bits(V6 | 1 << 48), None);
    }

    #[test]
    fn the_place_in_a_sample_says_nothing_of_the_group() {
        let policy = held_back(0.5);
        let subjects = |low: bool| {
            (0..20_000_u32)
                .map(|n| Subject::of(IpAddr::from(n.to_be_bytes()), &policy, 7))
                .filter(move |subject| (subject.hash < u64::MAX / 4) == low)
        };
        for low in [true, false] {
            let all = subjects(low).count() as f64;
            let held = subjects(low).filter(|s| s.assignment == Assignment::HoldBack);
            let share = held.count() as f64 / all;
            assert!((share - 0.5).abs() < 0.02, "{share} of {all}");
        }
        let address = IpAddr::from([192, 0, 2, 7]);
        let mapped = "::ffff:192.0.2.7".parse().unwrap();
        assert_eq!(
            Subject::of(address, &policy, 7),
            Subject::of(mapped, &policy, 7)
        );
    }
}
