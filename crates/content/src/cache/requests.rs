//! Requests of clients: which of them a stored response can answer, and what the upstream gets of them.

use http::header::{self, HeaderMap, HeaderName};
use http::{Method, Request, Uri, request};
use http_body_util::{BodyExt as _, Empty};

use super::key::host;
use super::status::Forwarded;
use crate::proxy::elements;
use crate::{Protocol, RequestBody, Scheme};

/// Why a request goes to the upstream whatever is stored; `None` if a stored response can answer it.
pub(super) fn is_not_for_caches(parts: &request::Parts, has_no_content: bool) -> Option<Forwarded> {
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return Some(Forwarded::Method);
    }
    let headers = &parts.headers;
    let is_other = is_tunnel(parts)
        || !has_no_content
        || names_fields(headers)
        // Caches don't evaluate them (RFC 9111 §4.3.2).
        || headers.contains_key(header::IF_MATCH)
        || headers.contains_key(header::IF_UNMODIFIED_SINCE);
    is_other.then_some(Forwarded::Bypass)
}

/// Whether a request may become a stream of another protocol.
pub(super) fn is_tunnel(parts: &request::Parts) -> bool {
    parts.method == Method::CONNECT
        || parts.headers.contains_key(header::UPGRADE)
        || parts.extensions.get::<Protocol>().is_some()
}

/// Whether the client wants the whole of a response, as it is stored.
pub(super) fn asks_plainly(headers: &HeaderMap) -> bool {
    let is_plain = |name: &HeaderName| {
        let name = name.as_str();
        !matches!(name, "cache-control" | "pragma" | "range" | "upgrade")
            && !name.starts_with("if-")
    };
    headers.keys().all(is_plain) && !names_fields(headers)
}

/// Whether `Connection` names fields of the request. The upstream does not get these, so that they choose
/// no response, whatever `Vary` says.
fn names_fields(headers: &HeaderMap) -> bool {
    headers.contains_key(header::CONNECTION)
        && elements(headers, &header::CONNECTION).any(|option| {
            let own = ["close", "keep-alive", "te"];
            !own.iter().any(|own| option.eq_ignore_ascii_case(own))
        })
}

/// The request that the upstream gets on behalf of all who wait: for the whole of the current response.
pub(super) fn to_upstream(uri: &Uri, fields: &HeaderMap) -> Request<RequestBody> {
    let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let mut request = Request::new(body);
    *request.uri_mut() = uri.clone();
    let headers = request.headers_mut();
    headers.clone_from(fields);
    for name in OF_ONE_CLIENT {
        headers.remove(name);
    }
    request
}

/// Whether a request asks for something else than [`to_upstream`] does.
pub(super) fn is_altered(parts: &request::Parts) -> bool {
    parts.method == Method::HEAD
        || OF_ONE_CLIENT
            .iter()
            .any(|name| parts.headers.contains_key(name))
}

/// Whether a method may change the state of a resource (RFC 9110 §9.2.1), as unknown ones may.
pub(super) fn is_unsafe(method: &Method) -> bool {
    !matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE | Method::CONNECT
    )
}

/// The targets that a response to an unsafe request names, of the same origin (RFC 9111 §4.4).
pub(super) fn named_targets(response: &HeaderMap, scheme: Scheme, of_host: &str) -> Vec<Uri> {
    let names = [header::LOCATION, header::CONTENT_LOCATION];
    let values = names.iter().filter_map(|name| response.get(name));
    let uris = values.filter_map(|value| Uri::try_from(value.as_bytes()).ok());
    let own = uris.filter(|uri| match uri.authority() {
        Some(authority) => {
            uri.scheme_str() == Some(scheme.name()) && host(scheme, authority.as_str()) == of_host
        }
        None => uri.path().starts_with('/'),
    });
    own.collect()
}

/// Fields by which a client asks for a part, or whether what it has is current.
const OF_ONE_CLIENT: [HeaderName; 4] = [
    header::RANGE,
    header::IF_RANGE,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(method: &str, fields: &[(&str, &str)]) -> request::Parts {
        let mut request = Request::builder().method(method).uri("/");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn some_requests_are_not_for_caches() {
        use Forwarded::{Bypass, Method};
        let cases: &[(&str, &[(&str, &str)], bool, Option<Forwarded>)] = &[
            ("GET", &[], true, None),
            ("HEAD", &[], true, None),
            ("GET", &[("connection", "keep-alive, TE")], true, None),
            (
                "GET",
                &[("range", "bytes=0-1"), ("if-none-match", "*")],
                true,
                None,
            ),
            ("GET", &[], false, Some(Bypass)),
            ("GET", &[("upgrade", "websocket")], true, Some(Bypass)),
            ("GET", &[("connection", "x-a")], true, Some(Bypass)),
            ("GET", &[("if-match", "*")], true, Some(Bypass)),
            ("GET", &[("if-unmodified-since", "x")], true, Some(Bypass)),
            ("POST", &[], true, Some(Method)),
            ("OPTIONS", &[], true, Some(Method)),
            ("PURGE", &[], true, Some(Method)),
        ];
        for (method, fields, has_no_content, want) in cases {
            let parts = parts(method, fields);
            let got = is_not_for_caches(&parts, *has_no_content);
            assert_eq!(got, *want, "{method} {fields:?}");
        }
    }

    #[test]
    fn the_upstream_is_asked_for_the_whole() {
        let fields = [
            ("range", "bytes=0-1"),
            ("if-range", "\"a\""),
            ("if-none-match", "\"a\""),
            ("if-modified-since", "x"),
            ("accept", "*/*"),
        ];
        let asked = parts("GET", &fields);
        let request = to_upstream(&asked.uri, &asked.headers);
        let names: Vec<_> = request.headers().keys().collect();
        assert_eq!(names, ["accept"]);
        assert!(is_altered(&asked));
        assert!(!is_altered(&parts("GET", &[("accept", "*/*")])));
    }

    #[test]
    fn plain_requests_want_the_whole_of_what_is_stored() {
        let cases: &[(&[(&str, &str)], bool)] = &[
            (&[], true),
            (&[("accept", "*/*"), ("cookie", "a=1")], true),
            (&[("connection", "keep-alive")], true),
            (&[("connection", "x")], false),
            (&[("connection", "keep-alive"), ("range", "x")], false),
            (&[("range", "bytes=0-")], false),
            (&[("if-none-match", "*")], false),
            (&[("if-modified-since", "x")], false),
            (&[("cache-control", "max-age=0")], false),
            (&[("pragma", "no-cache")], false),
            (&[("upgrade", "websocket")], false),
        ];
        for (fields, want) in cases {
            assert_eq!(
                asks_plainly(&parts("GET", fields).headers),
                *want,
                "{fields:?}"
            );
        }
    }

    #[test]
    fn targets_of_other_origins_stay() {
        let cases: &[(&[(&str, &str)], &[&str])] = &[
            (&[("location", "/a?b")], &["/a?b"]),
            (
                &[("location", "https://A.example:443/a")],
                &["https://A.example:443/a"],
            ),
            (&[("location", "https://b.example/a")], &[]),
            (&[("location", "http://a.example/a")], &[]),
            (&[("location", "a")], &[]),
            (
                &[("location", "/a"), ("content-location", "/b")],
                &["/a", "/b"],
            ),
        ];
        for (fields, want) in cases {
            let response = parts("GET", fields).headers;
            let targets = named_targets(&response, Scheme::Https, "a.example");
            let want: Vec<Uri> = want.iter().map(|uri| uri.parse().unwrap()).collect();
            assert_eq!(targets, want, "{fields:?}");
        }
    }
}
