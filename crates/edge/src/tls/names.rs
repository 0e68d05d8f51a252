//! Names that a certificate is for.

use std::net::IpAddr;

use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Subject alternative names (RFC 5280 §4.2.1.6); clients look at no others.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// In lower case; `*.` before a name covers one label.
    dns: Vec<String>,
    addresses: Vec<IpAddr>,
}

impl Names {
    /// Those of the leaf; none where it cannot be read.
    pub(super) fn of(key: &CertifiedKey) -> Self {
        let mut names = Self::default();
        let Some(leaf) = key.cert.first() else {
            return names;
        };
        let Ok((_, leaf)) = X509Certificate::from_der(leaf) else {
            return names;
        };
        let Ok(Some(extension)) = leaf.subject_alternative_name() else {
            return names;
        };
        for name in &extension.value.general_names {
            match name {
                GeneralName::DNSName(name) => names.dns.push(name.to_ascii_lowercase()),
                GeneralName::IPAddress(bytes) => names.addresses.extend(address(bytes)),
                _ => {}
            }
        }
        names
    }

    /// Whether they hold a name or an address (RFC 9525 §6.3).
    pub(super) fn cover(&self, host: &str) -> bool {
        if let Ok(address) = host.parse::<IpAddr>() {
            return self.addresses.contains(&address);
        }
        let host = host.to_ascii_lowercase();
        let parent = host.split_once('.').map(|(_, parent)| parent);
        self.dns.iter().any(|name| match name.strip_prefix("*.") {
            Some(name) => parent == Some(name),
            None => *name == host,
        })
    }

    /// Whether both hold the same.
    pub(super) fn are(&self, other: &Self) -> bool {
        let sorted = |names: &Self| {
            let mut all = names.to_strings();
            all.sort_unstable();
            all.dedup();
            all
        };
        sorted(self) == sorted(other)
    }

    pub(super) fn to_strings(&self) -> Vec<String> {
        let addresses = self.addresses.iter().map(ToString::to_string);
        self.dns.iter().cloned().chain(addresses).collect()
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn names_and_addresses_are_covered() {
        let names = Names {
            dns: ["www.example.org", "*.img.example.org"]
                .map(str::to_owned)
                .to_vec(),
            addresses: vec!["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()],
        };
        let cases = [
            ("www.example.org", true),
            ("WWW.example.org", true),
            ("example.org", false),
            ("a.img.example.org", true),
            ("a.b.img.example.org", false),
            ("img.example.org", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("2001:db8:0::7", true),
        ];
        for (host, want) in cases {
            assert_eq!(names.cover(host), want, "{host}");
        }
    }
}
