//! Access by the client's address.

use std::net::IpAddr;

use hikyaku_units::Network;

/// Networks whose clients may, and those whose clients may not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Addresses {
    allow: Vec<Network>,
    deny: Vec<Network>,
}

impl Addresses {
    /// `None` if all clients may.
    pub(super) fn new(allow: &[Network], deny: &[Network]) -> Option<Self> {
        let is_any = allow.is_empty() && deny.is_empty();
        (!is_any).then(|| Self {
            allow: allow.to_vec(),
            deny: deny.to_vec(),
        })
    }

    /// Whether a client may. The longest prefix with its address counts, and of equal ones that of `deny`.
    pub(super) fn may(&self, client: IpAddr) -> bool {
        match (longest(&self.allow, client), longest(&self.deny, client)) {
            (Some(allowed), Some(denied)) => allowed > denied,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => self.allow.is_empty(),
        }
    }
}

/// The bits of the longest prefix with an address.
fn longest(networks: &[Network], address: IpAddr) -> Option<u8> {
    let with = networks.iter().filter(|network| network.contains(address));
    with.map(Network::prefix_len).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(text: &str) -> Vec<Network> {
        text.split_whitespace()
            .map(|text| text.parse().unwrap())
            .collect()
    }

    #[test]
    fn the_longest_prefix_counts() {
        let cases = [
            ("10.0.0.0/8", "", "10.1.2.3", true),
            ("10.0.0.0/8", "", "::ffff:10.1.2.3", true),
            ("10.0.0.0/8", "", "192.0.2.1", false),
            ("10.0.0.0/8", "", "2001:db8::1", false),
            ("", "10.0.0.0/8", "10.1.2.3", false),
            ("", "10.0.0.0/8", "192.0.2.1", true),
            ("", "2001:db8::/32", "2001:db8::1", false),
            ("10.0.0.0/8", "10.0.0.13", "10.0.0.13", false),
            ("10.0.0.0/8", "10.0.0.13", "10.0.0.12", true),
            ("10.0.0.13", "10.0.0.0/8", "10.0.0.13", true),
            ("10.0.0.13", "10.0.0.0/8", "10.0.0.12", false),
            ("10.0.0.0/8", "10.0.0.0/8", "10.0.0.1", false),
            ("0.0.0.0/0 10.0.0.13", "10.0.0.0/8", "192.0.2.1", true),
        ];
        for (allow, deny, client, want) in cases {
            let addresses = Addresses::new(&networks(allow), &networks(deny)).unwrap();
            let got = addresses.may(client.parse().unwrap());
            assert_eq!(got, want, "{client}: allow {allow}, deny {deny}");
        }
        assert_eq!(Addresses::new(&[], &[]), None);
    }
}
