//! The proxy's description of a client, for the upstream.

use std::io::Write as _;
use std::net::IpAddr;

use hikyaku_h1::request::HeadEncoder;
use hikyaku_units::arm::Version;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, header};

use super::headers::append_element;
use super::special::{X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO};
use crate::Peer;

/// The proxy's description of a client: `Forwarded`, `X-Forwarded-*` and `Via`.
#[derive(Clone, Debug)]
pub(super) struct Description {
    address: IpAddr,
    host: Option<Authority>,
    /// Element of `Via`.
    received: &'static str,
}

impl Description {
    /// `host` is the one that the client requested.
    pub(super) fn new(peer: &Peer, host: Option<&Authority>) -> Self {
        Self {
            address: peer.remote.ip().to_canonical(),
            host: host.cloned(),
            received: match peer.version {
                Version::H1 => "1.1 hikyaku",
                Version::H2 => "2 hikyaku",
                Version::H3 => "3 hikyaku",
            },
        }
    }

    /// Encodes the fields for a request that has none of their names.
    pub(super) fn encode(&self, head: &mut HeadEncoder<'_>) {
        head.value(b"forwarded", |out| self.write_forwarded(out));
        head.value(b"x-forwarded-for", |out| write_address(self.address, out));
        head.field(b"x-forwarded-proto", b"https");
        if let Some(host) = &self.host {
            head.field(b"x-forwarded-host", host.as_str().as_bytes());
        }
        head.field(b"via", self.received.as_bytes());
    }

    /// Adds elements to the lists of `headers`. The first proxy's scheme and host stay.
    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        let (mut forwarded, mut address) = (Vec::new(), Vec::new());
        self.write_forwarded(&mut forwarded);
        write_address(self.address, &mut address);
        for (name, element) in [(header::FORWARDED, forwarded), (X_FORWARDED_FOR, address)] {
            if let Ok(element) = HeaderValue::try_from(element) {
                append_element(headers, &name, element);
            }
        }
        if !headers.contains_key(&X_FORWARDED_PROTO) {
            headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static("https"));
        }
        if let Some(host) = &self.host
            && !headers.contains_key(&X_FORWARDED_HOST)
            && let Ok(value) = HeaderValue::from_str(host.as_str())
        {
            headers.insert(X_FORWARDED_HOST, value);
        }
        append_element(
            headers,
            &header::VIA,
            HeaderValue::from_static(self.received),
        );
    }

    /// Appends an element of `Forwarded` (RFC 7239 §4). An IPv6 address has brackets and quotes (§6),
    /// and any host with a port has quotes.
    fn write_forwarded(&self, out: &mut Vec<u8>) {
        let (before, after): (&[u8], &[u8]) = match self.address {
            IpAddr::V4(_) => (b"for=", b""),
            IpAddr::V6(_) => (b"for=\"[", b"]\""),
        };
        out.extend_from_slice(before);
        write_address(self.address, out);
        out.extend_from_slice(after);
        if let Some(host) = &self.host {
            let host = host.as_str().as_bytes();
            // An authority has neither quotes nor backslashes.
            let quote: &[u8] = match host.iter().copied().all(is_token) {
                true => b"",
                false => b"\"",
            };
            for part in [b";host=", quote, host, quote] {
                out.extend_from_slice(part);
            }
        }
        out.extend_from_slice(b";proto=https");
    }
}

fn write_address(address: IpAddr, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    write!(out, "{address}").unwrap_or_default();
}

/// A character of a token (RFC 9110 §5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use http::Method;

    use super::*;

    #[test]
    fn lines_and_fields_say_the_same() {
        let cases = [
            ("0.0.0.0", None, "for=0.0.0.0;proto=https"),
            (
                "192.0.2.109",
                Some("a.example"),
                "for=192.0.2.109;host=a.example;proto=https",
            ),
            (
                "255.10.9.100",
                Some("a.example:8443"),
                "for=255.10.9.100;host=\"a.example:8443\";proto=https",
            ),
            (
                "::ffff:192.0.2.1",
                Some("[::1]"),
                "for=192.0.2.1;host=\"[::1]\";proto=https",
            ),
            ("2001:db8::1", None, "for=\"[2001:db8::1]\";proto=https"),
        ];
        for (remote, host, want) in cases {
            let peer = Peer {
                remote: SocketAddr::new(remote.parse().unwrap(), 1),
                local: SocketAddr::from(([192, 0, 2, 2], 443)),
                version: Version::H3,
                server_name: None,
            };
            let host = host.map(|host| host.parse().unwrap());
            let description = Description::new(&peer, host.as_ref());
            let mut fields = HeaderMap::new();
            description.add_to(&mut fields);
            assert_eq!(fields["forwarded"], want);
            let address: IpAddr = remote.parse().unwrap();
            let address = address.to_canonical().to_string();
            assert_eq!(fields["x-forwarded-for"], *address, "{remote}");

            let mut lines = Vec::new();
            let mut head = HeadEncoder::new(&mut lines, &Method::GET, "/");
            description.encode(&mut head);
            head.finish();
            let lines = String::from_utf8(lines).unwrap();
            let lines = lines.trim_end().lines().skip(1);
            let mut lines: Vec<_> = lines.map(|line| line.split_once(": ").unwrap()).collect();
            lines.sort_unstable();
            let mut want: Vec<_> = fields
                .iter()
                .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
                .collect();
            want.sort_unstable();
            assert_eq!(lines, want, "{remote}");
        }
    }
}
