//! Values by host: sites, certificates.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

use hashbrown::HashMap;
use http::uri::Authority;
use http::{HeaderMap, Uri, header};

/// Values by the names of hosts.
///
/// A name is that of a host, such as `www.example.org`, a wildcard for one label, such as
/// `*.example.org` (RFC 9525 §6.3), or an address. A host's own name is preferred to a wildcard.
#[derive(Debug)]
pub struct Hosts<T> {
    /// In lower case.
    names: HashMap<Box<str>, T>,
    /// By what follows `*.`, in lower case.
    wildcards: HashMap<Box<str>, T>,
}

impl<T> Default for Hosts<T> {
    fn default() -> Self {
        Self {
            names: HashMap::new(),
            wildcards: HashMap::new(),
        }
    }
}

impl<T> Hosts<T> {
    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.wildcards.is_empty()
    }

    /// Adds a name.
    ///
    /// # Errors
    /// If it is none, or is there already; the error is a sentence.
    pub fn add(&mut self, name: &str, value: T) -> Result<(), String> {
        let lower = name.to_ascii_lowercase();
        let (names, key) = match lower.strip_prefix("*.") {
            Some(suffix) if is_host(suffix) => (&mut self.wildcards, suffix.to_owned()),
            None if is_host(&lower) => (&mut self.names, lower),
            _ => match name.parse::<IpAddr>() {
                Ok(address) => (&mut self.names, address.to_string()),
                Err(_) => {
                    return Err(format!(
                        "`{name}` is no host name such as `www.example.org` or `xn--bcher-kva.example`, no \
                         wildcard such as `*.example.org`, and no address"
                    ));
                }
            },
        };
        match names.insert(key.into(), value) {
            Some(_) => Err(format!("`{name}` is named twice")),
            None => Ok(()),
        }
    }

    /// Finds what belongs to the host of an authority, whose port, case and last dot do not matter.
    pub fn get(&self, authority: &str) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        let host = host(authority);
        self.names.get(&*host).or_else(|| {
            let (_, suffix) = host.split_once('.')?;
            self.wildcards.get(suffix)
        })
    }
}

/// The host that a request is for, with its port if it has one (RFC 9110 §7.2).
pub(crate) fn requested_host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let authority = uri.authority().map(Authority::as_str);
    let host = || headers.get(header::HOST)?.to_str().ok();
    authority.or_else(host).filter(|host| !host.is_empty())
}

/// The host of an authority in lower case, without its port and the dot of a full name.
fn host(authority: &str) -> Cow<'_, str> {
    if let Some(address) = authority.strip_prefix('[') {
        let address = address.split(']').next().unwrap_or_default();
        let parsed = address.parse::<Ipv6Addr>();
        return parsed.map_or(Cow::Borrowed(address), |parsed| parsed.to_string().into());
    }
    let host = authority.split(':').next().unwrap_or_default();
    let host = host.strip_suffix('.').unwrap_or(host);
    match host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => host.to_ascii_lowercase().into(),
        false => host.into(),
    }
}

/// Whether a text in lower case is the name of a host.
fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !label.is_empty() && label.len() <= 63 && label.bytes().all(is_fine)
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&'static str]) -> Hosts<&'static str> {
        let mut hosts = Hosts::default();
        for name in names {
            hosts.add(name, *name).unwrap();
        }
        hosts
    }

    #[test]
    fn hosts_are_found_by_name_wildcard_and_address() {
        let hosts = hosts(&[
            "example.org",
            "WWW.Example.org",
            "*.example.org",
            "*.deep.example.org",
            "192.0.2.1",
            "2001:DB8:0::1",
        ]);
        let cases = [
            ("example.org", Some("example.org")),
            ("EXAMPLE.org:8443", Some("example.org")),
            ("example.org.", Some("example.org")),
            ("example.org.:443", Some("example.org")),
            ("www.example.org", Some("WWW.Example.org")),
            ("a.example.org", Some("*.example.org")),
            ("a.deep.example.org", Some("*.deep.example.org")),
            ("a.b.deep.example.org", None),
            ("notexample.org", None),
            ("192.0.2.1:443", Some("192.0.2.1")),
            ("[2001:db8::1]:443", Some("2001:DB8:0::1")),
            ("[2001:db8:0:0::1]", Some("2001:DB8:0::1")),
            ("[nonsense", None),
            ("", None),
            (":443", None),
        ];
        for (authority, want) in cases {
            assert_eq!(hosts.get(authority).copied(), want, "{authority}");
        }
    }

    #[test]
    fn wrong_names_are_refused() {
        let names = [
            "",
            ".",
            "a..b",
            "a b",
            "bücher.example",
            "*",
            "*.",
            "a.*.b",
            "a:443",
            "https://a",
        ];
        for name in names {
            let error = Hosts::default().add(name, ()).unwrap_err();
            assert!(error.contains(&format!("`{name}`")), "{error}");
        }
        let mut hosts = hosts(&["a.example", "*.example"]);
        for name in ["A.example", "*.EXAMPLE"] {
            let error = hosts.add(name, "").unwrap_err();
            assert!(error.contains("twice"), "{error}");
        }
    }
}
