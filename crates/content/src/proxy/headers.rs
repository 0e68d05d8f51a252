//! Header fields on their way through the proxy.

use hikyaku_units::arm::Version;
use http::header::{self, HeaderName};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue};

use super::description::Description;
use super::special::{FORWARDED, HOP_BY_HOP, Special};
use crate::Peer;

/// Removes the fields of one connection (RFC 9110 §7.6.1), with all that `Connection` names. Of
/// `TE`, only `trailers` may pass. A `Content-Length` beside `Transfer-Encoding` is invalid (RFC
/// 9112 §6.3). `special` are those of the section.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap, special: Special) {
    if !special.has_any(Special::HOP_BY_HOP) {
        return;
    }
    if special.has_any(Special::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    let takes_trailers = special.has_any(Special::TE) && lists(headers, &header::TE, "trailers");
    if special.has_any(Special::CONNECTION) {
        remove_named(headers);
    }
    remove(headers, special, &HOP_BY_HOP);
    if takes_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
}

/// Removes the fields that `Connection` names.
fn remove_named(headers: &mut HeaderMap) {
    // `Keep-Alive` goes in any case, and most connections name nothing else.
    let mut options = headers.get_all(header::CONNECTION).iter();
    if options.all(|option| option.as_bytes().eq_ignore_ascii_case(b"keep-alive")) {
        return;
    }
    let named: Vec<HeaderName> = elements(headers, &header::CONNECTION)
        .filter_map(|name| name.parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
}

/// Removes the fields that `Connection` names, and their names from it. Fields of these names that the server
/// adds then go on to the upstream. An upgrade and trailers stay named.
pub(crate) fn settle_connection(headers: &mut HeaderMap) {
    if !headers.contains_key(header::CONNECTION) {
        return;
    }
    let named = elements(headers, &header::CONNECTION).filter_map(|name| name.parse().ok());
    let (kept, named): (Vec<HeaderName>, Vec<_>) =
        named.partition(|name| matches!(*name, header::UPGRADE | header::TE));
    headers.remove(header::CONNECTION);
    for name in named {
        headers.remove(name);
    }
    for name in kept {
        headers.append(header::CONNECTION, HeaderValue::from(name));
    }
}

/// Removes those of `fields` that are there.
pub(super) fn remove(headers: &mut HeaderMap, special: Special, fields: &[(Special, HeaderName)]) {
    for (field, name) in fields {
        if special.has_any(*field) {
            headers.remove(name);
        }
    }
}

/// The protocol to which a request wants to change, as WebSocket does (RFC 9110 §7.8).
///
/// HTTP/2 is excepted: requests within such a tunnel would pass unseen.
pub(super) fn upgrade_of(headers: &HeaderMap) -> Option<HeaderValue> {
    let value = headers.get(header::UPGRADE)?;
    let is_asked = lists(headers, &header::CONNECTION, "upgrade");
    let is_http = lists(headers, &header::UPGRADE, "h2c");
    (is_asked && !is_http).then(|| value.clone())
}

/// Whether the client waits for 100 before it sends the content (RFC 9110 §10.1.1). On HTTP/1.1
/// hyper sends it when the content is read.
pub(super) fn expects_continue(headers: &HeaderMap, version: Version) -> bool {
    version != Version::H1 && lists(headers, &header::EXPECT, "100-continue")
}

/// Adds the fields of a connection that is to become, or becomes, another protocol's.
pub(super) fn set_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, protocol);
}

/// The host that the client requested. The request's target goes before `Host` (RFC 9112 §3.2.2).
/// `None` if there is neither.
///
/// # Errors
/// If `Host` has not the form of a host.
pub(super) fn requested_host(request: &Parts) -> Result<Option<Authority>, InvalidHost> {
    if let Some(authority) = request.uri.authority() {
        return Ok(Some(authority.clone()));
    }
    let mut fields = request.headers.get_all(header::HOST).iter();
    match (fields.next(), fields.next()) {
        (None, _) => Ok(None),
        (Some(host), None) if host.is_empty() => Ok(None),
        (Some(host), None) => Authority::try_from(host.as_bytes())
            .map(Some)
            .map_err(|_| InvalidHost),
        (Some(_), Some(_)) => Err(InvalidHost),
    }
}

/// The request's `Host` is malformed, or there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reading the request's Host: it is not one host")]
pub(super) struct InvalidHost;

/// Prepares a client's request for the upstream, except for its target and `Host`. `sends_via` says whether the
/// proxy names itself in `Via` (RFC 9110 §7.6.3).
///
/// Returns the description of who has sent the request. If a trusted proxy has, and the request has
/// a description already, it is added to that instead.
pub(super) fn prepare_request(
    request: &mut Parts,
    host: Option<&Authority>,
    peer: &Peer,
    sends_via: bool,
) -> Option<Description> {
    let headers = &mut request.headers;
    let special = Special::of(headers);
    strip_hop_by_hop(headers, special);
    if special.has_any(Special::EXPECT) {
        // This server answers the expectation itself.
        headers.remove(header::EXPECT);
    }
    if special.has_any(Special::COOKIE) {
        join_cookies(headers);
    }
    let mut described = Special::VIA;
    match peer.via.is_some() {
        true => described = described.and(Special::FORWARDED),
        false => remove(headers, special, &FORWARDED),
    }
    let description = Description::new(peer, host, sends_via);
    if special.has_any(described) {
        description.add_to(headers);
        return None;
    }
    Some(description)
}

/// Removes the whitespace around field values. HTTP/1.1 allows it; HTTP/2 and 3 forbid it (RFC 9113
/// §8.2.1, RFC 9114 §4.2).
pub(super) fn trim_values(headers: &mut HeaderMap) {
    for value in headers.values_mut() {
        let trimmed = value.as_bytes().trim_ascii();
        if trimmed.len() != value.len()
            && let Ok(trimmed) = HeaderValue::from_bytes(trimmed)
        {
            *value = trimmed;
        }
    }
}

/// Joins `Cookie` fields. HTTP/2 and 3 may split them; other versions have one field (RFC 9113
/// §8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let mut cookies = headers.get_all(header::COOKIE).iter();
    let (Some(first), Some(second)) = (cookies.next(), cookies.next()) else {
        return;
    };
    let mut joined = first.as_bytes().to_vec();
    for cookie in std::iter::once(second).chain(cookies) {
        joined.extend_from_slice(b"; ");
        joined.extend_from_slice(cookie.as_bytes());
    }
    if let Ok(value) = HeaderValue::try_from(joined) {
        headers.insert(header::COOKIE, value);
    }
}

/// Adds an element to a list, in one field with the elements that are there.
pub(crate) fn append_element(headers: &mut HeaderMap, name: &HeaderName, element: HeaderValue) {
    if !headers.contains_key(name) {
        headers.insert(name.clone(), element);
        return;
    }
    let mut list = Vec::new();
    for field in headers.get_all(name) {
        list.extend_from_slice(field.as_bytes());
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(element.as_bytes());
    if let Ok(value) = HeaderValue::try_from(list) {
        headers.insert(name.clone(), value);
    }
}

fn lists(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    elements(headers, name).any(|element| element.eq_ignore_ascii_case(wanted))
}

/// Elements of a list, without their parameters.
pub(crate) fn elements<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|field| field.to_str().ok())
        .flat_map(|field| field.split(','))
        .filter_map(|element| element.split(';').next())
        .map(str::trim)
        .filter(|element| !element.is_empty())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::{Scheme, Via};

    type Fields<'a> = &'a [(&'static str, &'a str)];

    fn headers(fields: Fields<'_>) -> HeaderMap {
        let fields = fields.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_str(value).unwrap())
        });
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, value);
        }
        headers
    }

    /// A client at `remote`, or one whose request a trusted proxy has sent from there.
    fn peer(remote: &str, is_trusted: bool) -> Peer {
        let address = remote.parse().unwrap();
        let client = match is_trusted {
            true => [203, 0, 113, 9].into(),
            false => address,
        };
        Peer {
            remote: SocketAddr::new(client, 1),
            local: SocketAddr::from(([192, 0, 2, 2], 443)),
            version: Version::H2,
            tls: None,
            server_name: None,
            scheme: Scheme::Https,
            via: is_trusted.then_some(Via {
                address,
                scheme: Scheme::Https,
            }),
        }
    }

    fn prepared(fields: Fields<'_>, remote: &str, is_trusted: bool) -> HeaderMap {
        prepared_for(fields, &peer(remote, is_trusted), true)
    }

    fn prepared_for(fields: Fields<'_>, peer: &Peer, sends_via: bool) -> HeaderMap {
        let (mut parts, ()) = http::Request::new(()).into_parts();
        parts.headers = headers(fields);
        let host = Authority::from_static("a.example:8443");
        let description = prepare_request(&mut parts, Some(&host), peer, sends_via);
        if let Some(description) = description {
            description.add_to(&mut parts.headers);
        }
        parts.headers
    }

    #[test]
    fn fields_of_one_connection_are_removed() {
        let cases: &[(Fields<'_>, Fields<'_>)] = &[
            (&[("connection", "close"), ("a", "1")], &[("a", "1")]),
            (
                &[
                    ("connection", "X-One , x-two"),
                    ("connection", "x-three"),
                    ("x-one", ""),
                    ("x-two", ""),
                    ("x-three", ""),
                    ("x-four", "4"),
                ],
                &[("x-four", "4")],
            ),
            (
                &[
                    ("connection", "Keep-Alive"),
                    ("keep-alive", "1"),
                    ("proxy-connection", "x"),
                    ("transfer-encoding", "chunked"),
                    ("upgrade", "h2c"),
                    ("http2-settings", "x"),
                ],
                &[],
            ),
            (
                &[("proxy-authorization", "x"), ("authorization", "y")],
                &[("authorization", "y")],
            ),
            (
                &[("te", "gzip, Trailers;q=1"), ("connection", "te")],
                &[("te", "trailers")],
            ),
            (&[("te", "gzip")], &[]),
            (
                &[("transfer-encoding", "chunked"), ("content-length", "5")],
                &[],
            ),
            (&[("content-length", "5")], &[("content-length", "5")]),
            (
                &[("trailer", "x"), ("connection", "\u{ff}, ,")],
                &[("trailer", "x")],
            ),
        ];
        for (fields, want) in cases {
            let mut got = headers(fields);
            let special = Special::of(&got);
            strip_hop_by_hop(&mut got, special);
            assert_eq!(got, headers(want), "{fields:?}");
        }
    }

    #[test]
    fn the_client_is_described_and_its_own_fields_dropped_unless_trusted() {
        let spoofed: Fields<'_> = &[
            ("forwarded", "for=1.2.3.4"),
            ("x-forwarded-for", "1.2.3.4"),
            ("x-forwarded-for", "5.6.7.8"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", "evil"),
            ("x-real-ip", "1.2.3.4"),
            ("via", "1.0 old"),
        ];
        let dropped = prepared(spoofed, "192.0.2.1", false);
        assert_eq!(
            dropped["forwarded"],
            "for=192.0.2.1;host=\"a.example:8443\";proto=https"
        );
        assert_eq!(dropped["x-forwarded-for"], "192.0.2.1");
        assert_eq!(dropped["x-forwarded-proto"], "https");
        assert_eq!(dropped["x-forwarded-host"], "a.example:8443");
        assert_eq!(dropped["x-forwarded-port"], "8443");
        assert_eq!(dropped["x-real-ip"], "192.0.2.1");
        assert_eq!(dropped["via"], "1.0 old, 2 hikyaku");

        let kept = prepared(spoofed, "2001:db8::1", true);
        let element = "for=\"[2001:db8::1]\";host=\"a.example:8443\";proto=https";
        assert_eq!(kept["forwarded"], format!("for=1.2.3.4, {element}"));
        assert_eq!(kept["x-forwarded-for"], "1.2.3.4, 5.6.7.8, 2001:db8::1");
        assert_eq!(kept["x-forwarded-proto"], "http");
        assert_eq!(kept["x-forwarded-host"], "evil");
        assert_eq!(kept["x-real-ip"], "1.2.3.4");
        assert_eq!(kept.get_all("x-forwarded-for").iter().count(), 1);

        let behind = prepared(&[("x-forwarded-for", "1.2.3.4")], "192.0.2.1", true);
        assert_eq!(behind["x-real-ip"], "1.2.3.4");

        let mapped = prepared(&[], "::ffff:192.0.2.1", false);
        assert_eq!(mapped["x-forwarded-for"], "192.0.2.1");
    }

    #[test]
    fn the_proxy_need_not_name_itself() {
        let client = peer("192.0.2.1", false);
        let got = prepared_for(&[], &client, false);
        assert_eq!(got.get("via"), None);
        assert_eq!(got["x-forwarded-for"], "192.0.2.1");
        let others = prepared_for(&[("via", "1.0 old")], &client, false);
        assert_eq!(others["via"], "1.0 old", "another proxy's");
    }

    #[test]
    fn connection_cannot_remove_fields_of_the_proxy() {
        let got = prepared(
            &[("connection", "x-forwarded-for, forwarded, via")],
            "192.0.2.1",
            false,
        );
        assert_eq!(got["x-forwarded-for"], "192.0.2.1");
        assert_eq!(got["via"], "2 hikyaku");
    }

    #[test]
    fn cookies_become_one_field() {
        let got = prepared(
            &[
                ("cookie", "a=1"),
                ("cookie", "b=2"),
                ("expect", "100-continue"),
            ],
            "::1",
            false,
        );
        assert_eq!(
            got.get_all("cookie").iter().collect::<Vec<_>>(),
            ["a=1; b=2"]
        );
        assert_eq!(got.get("expect"), None);
    }

    #[test]
    fn the_host_is_the_targets_or_the_fields() {
        type Case<'a> = (&'a str, &'a [&'a str], Result<Option<&'a str>, InvalidHost>);
        let cases: &[Case<'_>] = &[
            ("/x", &["a:80"], Ok(Some("a:80"))),
            ("https://b/x", &["a"], Ok(Some("b"))),
            ("/x", &[], Ok(None)),
            ("/x", &[""], Ok(None)),
            ("/x", &["a", "b"], Err(InvalidHost)),
            ("/x", &["a b"], Err(InvalidHost)),
            ("/x", &["a/b"], Err(InvalidHost)),
        ];
        for (uri, hosts, want) in cases {
            let mut request = http::Request::builder().uri(*uri);
            for host in *hosts {
                request = request.header(header::HOST, *host);
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            let got = requested_host(&parts);
            let got = got
                .as_ref()
                .map(|host| host.as_ref().map(Authority::as_str));
            assert_eq!(got.map_err(|error| *error), *want, "{uri} {hosts:?}");
        }
    }

    #[test]
    fn an_upgrade_needs_both_fields() {
        let cases: &[(Fields<'_>, bool)] = &[
            (
                &[
                    ("upgrade", "websocket"),
                    ("connection", "keep-alive, Upgrade"),
                ],
                true,
            ),
            (
                &[("upgrade", "websocket"), ("connection", "keep-alive")],
                false,
            ),
            (&[("connection", "upgrade")], false),
            (&[("upgrade", "foo, H2C"), ("connection", "upgrade")], false),
        ];
        for (fields, want) in cases {
            assert_eq!(upgrade_of(&headers(fields)).is_some(), *want, "{fields:?}");
        }
    }
}
