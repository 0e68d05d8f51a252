//! The authority that responses advertise.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

use crate::sections::ListenAddress;

/// The authority that `Alt-Svc` names (RFC 7838 §2): `:443`, `443` or `www.example.org:443`. Without a host
/// it is the one that the client asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertise {
    /// As in a URL; empty for none.
    host: String,
    port: u16,
}

/// A text that is no [`Advertise`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no authority for Alt-Svc; expected a port, with or without a host, such as :443 or \
     www.example.org:443"
)]
pub struct ParseAdvertiseError {
    text: String,
}

impl Advertise {
    /// The UDP port.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    fn read(text: &str) -> Option<Self> {
        let (host, port) = match text.parse::<ListenAddress>().ok()? {
            ListenAddress::Ip(address) if address.ip().is_unspecified() => {
                (String::new(), address.port())
            }
            ListenAddress::Ip(address) => {
                let authority = address.to_string();
                let (host, _) = authority.rsplit_once(':')?;
                (host.to_owned(), address.port())
            }
            ListenAddress::Name { host, port } => (host, port),
        };
        (port != 0).then_some(Self { host, port })
    }
}

impl fmt::Display for Advertise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl FromStr for Advertise {
    type Err = ParseAdvertiseError;

    fn from_str(text: &str) -> Result<Self, ParseAdvertiseError> {
        Self::read(text).ok_or_else(|| ParseAdvertiseError {
            text: text.to_owned(),
        })
    }
}

impl<'de> Deserialize<'de> for Advertise {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(One)
    }
}

struct One;

impl Visitor<'_> for One {
    type Value = Advertise;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an authority such as \":443\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Advertise, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, port: i64) -> Result<Advertise, E> {
        self.visit_str(&port.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_port_with_or_without_a_host() {
        let cases = [
            (":443", Some(":443")),
            ("443", Some(":443")),
            ("*:443", Some(":443")),
            ("www.example.org:8443", Some("www.example.org:8443")),
            ("192.0.2.7:443", Some("192.0.2.7:443")),
            ("[2001:db8::1]:443", Some("[2001:db8::1]:443")),
            (":0", None),
            ("www.example.org", None),
            ("https://www.example.org:443", None),
            (":65536", None),
            ("a\"b:443", None),
            ("", None),
        ];
        for (text, want) in cases {
            let got = text.parse::<Advertise>();
            let got = got.map(|authority| authority.to_string());
            assert_eq!(got.as_deref().ok(), want, "{text}");
            if let Err(error) = got {
                assert!(error.to_string().starts_with(&format!("`{text}` is no")));
            }
        }
    }
}
