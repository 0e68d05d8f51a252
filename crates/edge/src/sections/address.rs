//! Addresses to listen on, as people write them.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// Where to listen: `127.0.0.1:443`, `[::1]:443`, `localhost:443`, `:443`, `*:443` or `443`. A port
/// alone is that of the IPv6 wildcard, which takes IPv4, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// An IP address.
    Ip(SocketAddr),
    /// A name that is looked up when the server starts; all of its addresses are meant.
    Name {
        /// A host name.
        host: String,
        /// A TCP and UDP port.
        port: u16,
    },
}

/// What is wrong with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("the port is missing")]
    NoPort,
    #[error("its port is no number from 0 to 65535")]
    Port,
    #[error("an IPv6 address stands in brackets")]
    Brackets,
    #[error("it is a URL")]
    Url,
    #[error("its host is neither an IP address nor a name")]
    Host,
}

/// A text that is no [`ListenAddress`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no address to listen on: {fault}; expected ADDRESS:PORT, NAME:PORT or a PORT, such as \
     127.0.0.1:8443, [::1]:8443, localhost:8443, :8443 or 8443"
)]
pub struct ParseAddressError {
    text: String,
    fault: Fault,
}

impl ListenAddress {
    /// A port of the IPv6 wildcard.
    pub(crate) const fn any(port: u16) -> Self {
        Self::Ip(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port))
    }

    /// Every socket address that is meant. Looks names up, which may take a while.
    ///
    /// # Errors
    /// When a name can't be looked up.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let mut addresses = match self {
            Self::Ip(address) => vec![*address],
            Self::Name { host, port } => (host.as_str(), *port).to_socket_addrs()?.collect(),
        };
        addresses.sort_unstable();
        addresses.dedup();
        Ok(addresses)
    }

    /// Whether only this machine reaches it.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Name { host, .. } if host.eq_ignore_ascii_case("localhost") => true,
            address => address.resolve().is_ok_and(|addresses| {
                !addresses.is_empty() && addresses.iter().all(|a| a.ip().is_loopback())
            }),
        }
    }

    /// The authority of a URL by which this machine reaches it.
    #[must_use]
    pub fn authority(&self) -> String {
        match self {
            Self::Ip(address) if address.ip().is_unspecified() => {
                format!("localhost:{}", address.port())
            }
            address => address.to_string(),
        }
    }

    fn read(text: &str) -> Result<Self, Fault> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Ip(address));
        }
        if text.contains('/') {
            return Err(Fault::Url);
        }
        let (host, port) = match text.rsplit_once(':') {
            Some(parts) => parts,
            None if is_digits(text) => ("", text),
            None => return Err(Fault::NoPort),
        };
        match (text.starts_with('['), text.ends_with(']')) {
            (true, true) => return Err(Fault::NoPort),
            (false, _) if host.contains(':') => return Err(Fault::Brackets),
            _ => {}
        }
        let port = port.parse().ok().filter(|_| is_digits(port));
        let port = port.ok_or(Fault::Port)?;
        match host {
            "" | "*" => Ok(Self::any(port)),
            host if is_name(host) => Ok(Self::Name {
                host: host.to_owned(),
                port,
            }),
            _ => Err(Fault::Host),
        }
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        Self::read(text).map_err(|fault| ParseAddressError {
            text: text.to_owned(),
            fault,
        })
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether it may be a host name. One that ends in a number is an IPv4 address gone wrong.
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let bare = text.strip_suffix('.').unwrap_or(text);
    let ends_in_number = bare.rsplit('.').next().is_some_and(is_digits);
    text.len() <= 253 && bare.split('.').all(is_label) && !ends_in_number
}

impl<'de> Deserialize<'de> for ListenAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(One)?.map_err(D::Error::custom)
    }
}

/// Reads an address, or none of an empty text.
pub(super) fn address_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ListenAddress>, D::Error> {
    match deserializer.deserialize_any(One)? {
        Err(error) if error.text.is_empty() => Ok(None),
        read => read.map(Some).map_err(D::Error::custom),
    }
}

struct One;

impl Visitor<'_> for One {
    type Value = Result<ListenAddress, ParseAddressError>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address such as \"127.0.0.1:8440\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(text.parse())
    }

    fn visit_i64<E: Error>(self, port: i64) -> Result<Self::Value, E> {
        Ok(port.to_string().parse())
    }
}

/// Reads a list of addresses, or a single one. A number is a port.
pub(crate) fn addresses<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<ListenAddress>, D::Error> {
    deserializer.deserialize_any(Addresses)
}

struct Addresses;

impl<'de> Visitor<'de> for Addresses {
    type Value = Vec<ListenAddress>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("addresses such as \"[::]:8443\" or \":8443\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        text.parse().map(|address| vec![address]).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, port: i64) -> Result<Self::Value, E> {
        self.visit_str(&port.to_string())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut addresses = Vec::new();
        while let Some(address) = seq.next_element()? {
            addresses.push(address);
        }
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        // as written, and what is meant
        let cases = [
            ("443", Ok("[::]:443")),
            (":443", Ok("[::]:443")),
            ("*:443", Ok("[::]:443")),
            ("[::]:443", Ok("[::]:443")),
            ("0.0.0.0:443", Ok("0.0.0.0:443")),
            ("127.0.0.1:0", Ok("127.0.0.1:0")),
            ("[::1]:443", Ok("[::1]:443")),
            ("localhost:443", Ok("localhost:443")),
            ("localhost.:443", Ok("localhost.:443")),
            ("www-1.example.org:443", Ok("www-1.example.org:443")),
            ("", Err(Fault::NoPort)),
            ("localhost", Err(Fault::NoPort)),
            ("127.0.0.1", Err(Fault::NoPort)),
            ("[::1]", Err(Fault::NoPort)),
            (":", Err(Fault::Port)),
            ("localhost:", Err(Fault::Port)),
            (":65536", Err(Fault::Port)),
            ("70000", Err(Fault::Port)),
            (":+443", Err(Fault::Port)),
            (":-1", Err(Fault::Port)),
            (":https", Err(Fault::Port)),
            ("::1:443", Err(Fault::Brackets)),
            ("::1", Err(Fault::Brackets)),
            ("https://localhost:443", Err(Fault::Url)),
            ("localhost:443/", Err(Fault::Url)),
            ("300.0.0.1:443", Err(Fault::Host)),
            ("127.0.1:443", Err(Fault::Host)),
            ("a b:443", Err(Fault::Host)),
            ("[::g]:443", Err(Fault::Host)),
            ("a..b:443", Err(Fault::Host)),
        ];
        for (text, want) in cases {
            let got = text.parse::<ListenAddress>();
            let got = got.map(|a| a.to_string()).map_err(|error| error.fault);
            assert_eq!(got, want.map(str::to_owned), "{text}");
        }
        let error = "localhost"
            .parse::<ListenAddress>()
            .unwrap_err()
            .to_string();
        for word in ["`localhost`", "the port is missing", "[::1]:8443", ":8443"] {
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn who_can_reach_an_address() {
        let cases = [
            ("127.0.0.1:1", true, "127.0.0.1:1"),
            ("[::1]:1", true, "[::1]:1"),
            ("localhost:1", true, "localhost:1"),
            (":1", false, "localhost:1"),
            ("0.0.0.0:1", false, "localhost:1"),
            ("192.0.2.1:1", false, "192.0.2.1:1"),
        ];
        for (text, loopback, authority) in cases {
            let address: ListenAddress = text.parse().unwrap();
            assert_eq!(address.is_loopback(), loopback, "{text}");
            assert_eq!(address.authority(), authority, "{text}");
        }
    }
}
