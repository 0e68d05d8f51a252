//! The client of a request that has come through proxies.

use std::net::{IpAddr, SocketAddr};

use http::header::{self, HeaderMap, HeaderName};
use serde::Deserialize;

use hikyaku_content::Scheme;

/// The field by which proxies name the client of a request.
///
/// One alone is believed: a proxy adds to the field that it knows, and may hand on another as the client
/// has written it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum ClientField {
    /// A list of addresses, the client's first.
    #[default]
    #[serde(rename = "X-Forwarded-For")]
    XForwardedFor,
    /// The parameters `for` of RFC 7239 §5.2.
    #[serde(rename = "Forwarded")]
    Forwarded,
}

impl ClientField {
    /// The rightmost address that is not of a trusted proxy. Whatever stands before it may be invented.
    /// Where all are trusted it is the leftmost; where there is none, the one from which the request came.
    pub(super) fn client(
        self,
        headers: &HeaderMap,
        from: SocketAddr,
        is_trusted: impl Fn(IpAddr) -> bool,
    ) -> SocketAddr {
        self.named(headers, is_trusted)
            .map_or(from, |(client, _)| client)
    }

    /// The scheme of a client's request, as the proxies name it; `None` where they name none.
    ///
    /// Beside `X-Forwarded-For` that is the last word of `X-Forwarded-Proto`, which the nearest proxy has.
    /// In `Forwarded` the client's element has it (RFC 7239 §5.4).
    pub(super) fn scheme(
        self,
        headers: &HeaderMap,
        is_trusted: impl Fn(IpAddr) -> bool,
    ) -> Option<Scheme> {
        match self {
            Self::XForwardedFor => {
                let name = HeaderName::from_static("x-forwarded-proto");
                let last = headers.get_all(name).into_iter().next_back()?.as_bytes();
                let last = last.rsplit(|&byte| byte == b',').next()?;
                Scheme::of(last.trim_ascii())
            }
            Self::Forwarded => {
                let (_, element) = self.named(headers, is_trusted)?;
                Scheme::of(parameter(element, "proto")?.as_bytes())
            }
        }
    }

    /// The client, and the element that names it.
    fn named(
        self,
        headers: &HeaderMap,
        is_trusted: impl Fn(IpAddr) -> bool,
    ) -> Option<(SocketAddr, &str)> {
        let mut nearest = None;
        for element in self.elements(headers) {
            // Only proxies before this one could know more.
            let Some(address) = self.address(element) else {
                break;
            };
            nearest = Some((address, element));
            if !is_trusted(address.ip()) {
                break;
            }
        }
        nearest
    }

    const fn name(self) -> HeaderName {
        match self {
            Self::XForwardedFor => HeaderName::from_static("x-forwarded-for"),
            Self::Forwarded => header::FORWARDED,
        }
    }

    /// The elements of all lines of the field, the last one first. No comma is in an address, so that one
    /// in quotes, which a client may have left open, takes none of the proxies' elements away.
    fn elements(self, headers: &HeaderMap) -> impl Iterator<Item = &str> {
        let lines = headers.get_all(self.name()).into_iter().rev();
        let elements = lines.flat_map(|line| line.as_bytes().rsplit(|&byte| byte == b','));
        let elements = elements.map(|element| str::from_utf8(element).unwrap_or("?").trim());
        elements.filter(|element| !element.is_empty())
    }

    /// The address of an element; `None` where it is hidden or malformed.
    fn address(self, element: &str) -> Option<SocketAddr> {
        match self {
            Self::XForwardedFor => node(element),
            Self::Forwarded => node(parameter(element, "for")?),
        }
    }
}

/// The value of a parameter of an element, without its quotes.
fn parameter<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(own, _)| own.trim().eq_ignore_ascii_case(name))?;
    let value = value.trim();
    let quoted = value.strip_prefix('"');
    quoted.map_or(Some(value), |value| value.strip_suffix('"'))
}

/// An address, with a port or without (RFC 7239 §6).
fn node(text: &str) -> Option<SocketAddr> {
    let text = match text.rsplit_once(':') {
        // A port may be hidden.
        Some((address, port)) if port.starts_with('_') => address,
        _ => text,
    };
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let address = match bare.unwrap_or(text).parse::<IpAddr>() {
        Ok(address) => SocketAddr::new(address, 0),
        Err(_) => text.parse().ok()?,
    };
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    const PROXY: &str = "10.0.0.1:4000";

    /// The client of a request of [`PROXY`] with these lines, where 10.0.0.0/8 and fd00::/8 are trusted.
    fn client(field: ClientField, lines: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            let line = HeaderValue::from_bytes(line.as_bytes()).unwrap();
            headers.append(field.name(), line);
        }
        let is_trusted = |address| match address {
            IpAddr::V4(address) => address.octets()[0] == 10,
            IpAddr::V6(address) => address.octets()[0] == 0xfd,
        };
        let client = field.client(&headers, PROXY.parse().unwrap(), is_trusted);
        client.to_string()
    }

    #[test]
    fn the_client_is_the_rightmost_address_that_is_not_trusted() {
        type Case = (&'static str, &'static [&'static str], &'static str);
        let cases: &[Case] = &[
            ("no field", &[], PROXY),
            ("an empty one", &["", " , "], PROXY),
            ("one", &["192.0.2.1"], "192.0.2.1:0"),
            ("of IPv6", &["2001:db8::1"], "[2001:db8::1]:0"),
            ("in brackets", &["[2001:db8::1]"], "[2001:db8::1]:0"),
            ("with a port", &["192.0.2.1:77"], "192.0.2.1:77"),
            (
                "of IPv6 with a port",
                &["[2001:db8::1]:77"],
                "[2001:db8::1]:77",
            ),
            ("mapped", &["::ffff:192.0.2.1"], "192.0.2.1:0"),
            (
                "what the client wrote",
                &["198.51.100.9, 192.0.2.1"],
                "192.0.2.1:0",
            ),
            (
                "proxies behind the client",
                &["192.0.2.1,10.0.0.3,fd00::2"],
                "192.0.2.1:0",
            ),
            (
                "several lines",
                &["198.51.100.9", "192.0.2.1, 10.0.0.3", "10.0.0.2"],
                "192.0.2.1:0",
            ),
            ("all trusted", &["10.9.9.9, 10.0.0.2"], "10.9.9.9:0"),
            ("hidden", &["unknown"], PROXY),
            (
                "hidden before a proxy",
                &["192.0.2.1, unknown, 10.0.0.2"],
                "10.0.0.2:0",
            ),
            ("no text", &["192.0.2.1, \u{ff}"], PROXY),
            ("a name", &["a.example"], PROXY),
            ("a zone", &["fe80::1%eth0"], PROXY),
            ("half a bracket", &["[2001:db8::1"], PROXY),
        ];
        for (name, lines, want) in cases {
            assert_eq!(client(ClientField::XForwardedFor, lines), *want, "{name}");
        }
    }

    #[test]
    fn forwarded_is_read_as_rfc_7239_has_it() {
        type Case = (&'static str, &'static [&'static str], &'static str);
        let cases: &[Case] = &[
            (
                "one",
                &["for=192.0.2.60;proto=http;by=203.0.113.43"],
                "192.0.2.60:0",
            ),
            (
                "in any case",
                &["Proto=https; FOR=192.0.2.60"],
                "192.0.2.60:0",
            ),
            (
                "IPv6 is quoted",
                &["For=\"[2001:db8:cafe::17]:4711\""],
                "[2001:db8:cafe::17]:4711",
            ),
            (
                "a hidden port",
                &["for=\"192.0.2.60:_gazonk\""],
                "192.0.2.60:0",
            ),
            (
                "a list",
                &["for=192.0.2.43, for=198.51.100.17"],
                "198.51.100.17:0",
            ),
            (
                "proxies behind the client",
                &["for=192.0.2.43, for=\"10.0.0.2:80\""],
                "192.0.2.43:0",
            ),
            (
                "an obfuscated node",
                &["for=192.0.2.43, for=_hidden"],
                PROXY,
            ),
            ("unknown", &["for=unknown"], PROXY),
            ("without for", &["proto=https"], PROXY),
            (
                "a quote that the client left open",
                &["for=\"198.51.100.9, for=192.0.2.1"],
                "192.0.2.1:0",
            ),
            ("a quote that ends nowhere", &["for=\"192.0.2.1"], PROXY),
            ("for is no suffix of another", &["xfor=192.0.2.1"], PROXY),
        ];
        for (name, lines, want) in cases {
            assert_eq!(client(ClientField::Forwarded, lines), *want, "{name}");
        }
    }

    #[test]
    fn the_scheme_is_that_of_the_clients_request() {
        use ClientField::{Forwarded, XForwardedFor};
        use Scheme::{Http, Https};
        type Case = (ClientField, &'static [&'static str], Option<Scheme>);
        let cases: &[Case] = &[
            (XForwardedFor, &["https"], Some(Https)),
            (XForwardedFor, &["HTTP"], Some(Http)),
            (XForwardedFor, &["https, http"], Some(Http)),
            (XForwardedFor, &["http", "https"], Some(Https)),
            (XForwardedFor, &[], None),
            (XForwardedFor, &["wss"], None),
            (Forwarded, &["for=192.0.2.1;proto=https"], Some(Https)),
            (
                Forwarded,
                &[
                    "for=198.51.100.1;proto=https, for=192.0.2.1;proto=http, for=10.0.0.2;proto=https",
                ],
                Some(Http),
            ),
            (Forwarded, &["for=192.0.2.1"], None),
            (Forwarded, &["proto=https"], None),
        ];
        for (field, lines, want) in cases {
            let name = match field {
                XForwardedFor => HeaderName::from_static("x-forwarded-proto"),
                Forwarded => header::FORWARDED,
            };
            let lines = lines.iter().map(|line| HeaderValue::from_static(line));
            let headers = lines.map(|line| (name.clone(), line)).collect();
            let is_trusted = |address| matches!(address, IpAddr::V4(a) if a.octets()[0] == 10);
            assert_eq!(field.scheme(&headers, is_trusted), *want, "{headers:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_a_client_writes_hides_it(written in "[ -~]{0,64}", last in 1_u8..10) {
            let own = format!("192.0.2.{last}");
            let fields = [
                (ClientField::XForwardedFor, own.clone()),
                (ClientField::Forwarded, format!("for={own}")),
            ];
            for (field, element) in fields {
                let want = format!("{own}:0");
                let line = format!("{written}, {element}");
                prop_assert_eq!(&client(field, &[&line]), &want);
                prop_assert_eq!(&client(field, &[&written, &element]), &want);
            }
        }
    }
}
