//! The proxy's description of a client, for the upstream.

use std::fmt::Display;
use std::io::Write as _;
use std::net::IpAddr;

use hikyaku_h1::request::HeadEncoder;
use hikyaku_units::arm::Version;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, header};

use super::headers::{append_element, elements};
use super::special::{
    X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PORT, X_FORWARDED_PROTO, X_REAL_IP,
};
use crate::{Peer, Scheme};

/// The proxy's description of a client: `Forwarded`, `X-Forwarded-*`, `X-Real-IP` and `Via`.
#[derive(Clone, Debug)]
pub(super) struct Description {
    address: IpAddr,
    /// Of the connection over which the request came.
    scheme: Scheme,
    host: Option<Authority>,
    /// The port that the client asked for.
    port: u16,
    /// Element of `Via`; `None` if the proxy does not name itself.
    received: Option<&'static str>,
}

impl Description {
    /// `host` is the one that the client requested. The request is described as of the trusted proxy that
    /// has sent it, where one has: that has described the client (RFC 7239 §4).
    pub(super) fn new(peer: &Peer, host: Option<&Authority>, sends_via: bool) -> Self {
        let (sender, scheme) = match peer.via {
            Some(via) => (via.address, via.scheme),
            None => (peer.remote.ip(), peer.scheme),
        };
        let received = match peer.version {
            Version::H1 => "1.1 hikyaku",
            Version::H2 => "2 hikyaku",
            Version::H3 => "3 hikyaku",
        };
        Self {
            address: sender.to_canonical(),
            scheme,
            host: host.cloned(),
            port: host
                .and_then(Authority::port_u16)
                .unwrap_or(peer.scheme.port()),
            received: sends_via.then_some(received),
        }
    }

    /// Encodes the fields for a request that has none of their names.
    pub(super) fn encode(&self, head: &mut HeadEncoder<'_>) {
        head.value(b"forwarded", |out| self.write_forwarded(out));
        head.value(b"x-forwarded-for", |out| write_to(out, self.address));
        head.field(b"x-forwarded-proto", self.scheme.name().as_bytes());
        if let Some(host) = &self.host {
            head.field(b"x-forwarded-host", host.as_str().as_bytes());
        }
        head.value(b"x-forwarded-port", |out| write_to(out, self.port));
        head.value(b"x-real-ip", |out| write_to(out, self.address));
        if let Some(received) = self.received {
            head.field(b"via", received.as_bytes());
        }
    }

    /// Adds elements to the lists of `headers`. The first proxy's scheme, host and port stay. The client
    /// of `X-Real-IP` is the first one of `X-Forwarded-For`.
    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        let (mut forwarded, mut address) = (Vec::new(), Vec::new());
        self.write_forwarded(&mut forwarded);
        write_to(&mut address, self.address);
        for (name, element) in [(header::FORWARDED, forwarded), (X_FORWARDED_FOR, address)] {
            if let Ok(element) = HeaderValue::try_from(element) {
                append_element(headers, &name, element);
            }
        }
        let host = self.host.as_ref().map(|host| host.as_str().to_owned());
        let client = elements(headers, &X_FORWARDED_FOR).next();
        for (name, value) in [
            (X_REAL_IP, client.map(str::to_owned)),
            (X_FORWARDED_PROTO, Some(self.scheme.name().to_owned())),
            (X_FORWARDED_HOST, host),
            (X_FORWARDED_PORT, Some(self.port.to_string())),
        ] {
            let value = value.and_then(|value| HeaderValue::try_from(value).ok());
            if let Some(value) = value.filter(|_| !headers.contains_key(&name)) {
                headers.insert(name, value);
            }
        }
        if let Some(received) = self.received {
            append_element(headers, &header::VIA, HeaderValue::from_static(received));
        }
    }

    /// Appends an element of `Forwarded` (RFC 7239 §4). An IPv6 address has brackets and quotes (§6),
    /// and any host with a port has quotes.
    fn write_forwarded(&self, out: &mut Vec<u8>) {
        let (before, after): (&[u8], &[u8]) = match self.address {
            IpAddr::V4(_) => (b"for=", b""),
            IpAddr::V6(_) => (b"for=\"[", b"]\""),
        };
        out.extend_from_slice(before);
        write_to(out, self.address);
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
        out.extend_from_slice(b";proto=");
        out.extend_from_slice(self.scheme.name().as_bytes());
    }
}

fn write_to(out: &mut Vec<u8>, value: impl Display) {
    // Writing to memory does not fail.
    write!(out, "{value}").unwrap_or_default();
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
                Some("[::1]:444"),
                "for=192.0.2.1;host=\"[::1]:444\";proto=https",
            ),
            ("2001:db8::1", None, "for=\"[2001:db8::1]\";proto=https"),
        ];
        let variants = [
            (true, Scheme::Https),
            (false, Scheme::Https),
            (true, Scheme::Http),
        ];
        for ((remote, host, want), (sends_via, scheme)) in cases
            .iter()
            .flat_map(|case| variants.map(|variant| (*case, variant)))
        {
            let want = want.replace("https", scheme.name());
            let peer = Peer {
                remote: SocketAddr::new(remote.parse().unwrap(), 1),
                local: SocketAddr::from(([192, 0, 2, 2], 443)),
                version: Version::H3,
                tls: None,
                server_name: None,
                scheme,
                via: None,
            };
            let host = host.map(|host| host.parse().unwrap());
            let description = Description::new(&peer, host.as_ref(), sends_via);
            let mut fields = HeaderMap::new();
            description.add_to(&mut fields);
            assert_eq!(fields.contains_key("via"), sends_via);
            assert_eq!(fields["forwarded"], want);
            let address: IpAddr = remote.parse().unwrap();
            let address = address.to_canonical().to_string();
            assert_eq!(fields["x-forwarded-for"], *address, "{remote}");
            assert_eq!(fields["x-real-ip"], *address, "{remote}");
            let port = host.as_ref().and_then(Authority::port_u16);
            let port = port.unwrap_or(scheme.port());
            assert_eq!(fields["x-forwarded-port"], *port.to_string(), "{remote}");
            assert_eq!(fields["x-forwarded-proto"], scheme.name(), "{remote}");

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
