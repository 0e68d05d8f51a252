//! Faults that make a request unanswerable, whatever is served.

use std::net::Ipv6Addr;

use hikyaku_units::arm::Version;
use http::{HeaderMap, Method, Request, StatusCode, header};

use hikyaku_content::{HeaderSize, Protocol, Scheme};

/// The status to refuse a request with, and a sentence for client and log.
pub(super) type Fault = (StatusCode, &'static str);

/// Refuses requests that no content may answer.
///
/// `header_size` bounds the header section of HTTP/1.1. HTTP/2 and 3 apply it while they
/// decode.
///
/// # Errors
/// Where the method is `CONNECT` without a protocol that is offered, or target, host, framing or fields are malformed.
pub(super) fn check<B>(
    request: &Request<B>,
    version: Version,
    header_size: HeaderSize,
) -> Result<(), Fault> {
    if request.method() == Method::CONNECT {
        check_protocol(request)?;
    }
    check_target(request)?;
    check_host(request, version)?;
    let headers = request.headers();
    if version != Version::H1 {
        return check_padding(headers);
    }
    check_coding(headers)?;
    let target = request.uri().path_and_query();
    let target = target.map_or(0, |target| target.as_str().len());
    if header_size.is_exceeded(headers, target) {
        return Err(HEADERS_TOO_LARGE);
    }
    Ok(())
}

/// Refuses a request for an `https` target by a client of another `scheme` (RFC 9110 §7.4).
///
/// # Errors
/// Where the target is so.
pub(super) fn check_scheme<B>(request: &Request<B>, scheme: Scheme) -> Result<(), Fault> {
    let named = request.uri().scheme_str();
    let named = named.and_then(|name| Scheme::of(name.as_bytes()));
    match (named, scheme) {
        (Some(Scheme::Https), Scheme::Http) => Err((
            StatusCode::MISDIRECTED_REQUEST,
            "a request for https has come in the clear",
        )),
        _ => Ok(()),
    }
}

/// CONNECT is for WebSocket alone (RFC 8441 §5, RFC 9220 §3).
fn check_protocol<B>(request: &Request<B>) -> Result<(), Fault> {
    match request.extensions().get::<Protocol>() {
        None => Err((StatusCode::METHOD_NOT_ALLOWED, "CONNECT is not offered")),
        Some(protocol) if protocol.is_websocket() => Ok(()),
        // RFC 9220 §3.
        Some(_) => Err((
            StatusCode::NOT_IMPLEMENTED,
            "no protocol but websocket is offered",
        )),
    }
}

/// Authority-form is for `CONNECT` alone, `*` for `OPTIONS` alone (RFC 9112 §3.2).
fn check_target<B>(request: &Request<B>) -> Result<(), Fault> {
    let target = request.uri();
    let scheme = target.scheme_str();
    if scheme.is_some_and(|scheme| scheme != "https" && scheme != "http") {
        return Err(bad("the target's scheme is not https"));
    }
    if scheme.is_none() && target.authority().is_some() {
        return Err(bad("the target is a host, not a path"));
    }
    if target.path() == "*" && request.method() != Method::OPTIONS {
        return Err(bad("the target * is for OPTIONS alone"));
    }
    Ok(())
}

/// There is exactly one host, and it is well-formed (RFC 9112 §3.2); HTTP/1.0 needs none.
/// HTTP/2 and 3 may repeat `:authority` in `Host` (RFC 9113 §8.3.1).
fn check_host<B>(request: &Request<B>, version: Version) -> Result<(), Fault> {
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    let mut fields = request.headers().get_all(header::HOST).iter();
    let host = fields.next();
    let missing = host.is_none() && authority.is_none();
    if fields.next().is_some() || missing && request.version() != http::Version::HTTP_10 {
        return Err(bad(match version {
            Version::H1 => "a request needs exactly one Host header",
            _ => "a request needs exactly one :authority or Host",
        }));
    }
    if !authority.is_none_or(|authority| is_host(authority.as_bytes())) {
        return Err(bad(
            "the target's host is not one host, with or without a port",
        ));
    }
    let Some(host) = host.map(http::HeaderValue::as_bytes) else {
        return Ok(());
    };
    if !is_host(host) {
        return Err(bad("Host is not one host, with or without a port"));
    }
    let differs = |authority: &str| !authority.as_bytes().eq_ignore_ascii_case(host);
    if version != Version::H1 && authority.is_some_and(differs) {
        return Err(bad(":authority and Host differ"));
    }
    Ok(())
}

/// `uri-host [ ":" port ]` (RFC 9110 §7.2), without user information. Empty is well-formed.
///
/// Of RFC 3986's names those with a comma are refused, which a list of hosts would be.
fn is_host(value: &[u8]) -> bool {
    let colon = value.iter().rposition(|&byte| byte == b':');
    let (host, port) = match value.iter().rposition(|&byte| byte == b']') {
        Some(end) => value.split_at(end + 1),
        None => value.split_at(colon.unwrap_or(value.len())),
    };
    let is_port = match port {
        [] => true,
        [b':', digits @ ..] => is_port(digits),
        _ => false,
    };
    is_port
        && match host {
            [b'[', address @ .., b']'] => is_ipv6(address),
            name => name.iter().all(|&byte| is_of_name(byte)),
        }
}

fn is_port(digits: &[u8]) -> bool {
    let text = std::str::from_utf8(digits).unwrap_or("-");
    text.is_empty() || text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

fn is_ipv6(address: &[u8]) -> bool {
    std::str::from_utf8(address).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// A character of `reg-name` (RFC 3986 §3.2.2), but for the comma.
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=".contains(&byte)
}

/// A transfer coding other than `chunked` is not understood (RFC 9112 §6.1), and none may
/// be applied twice (§7).
fn check_coding(headers: &HeaderMap) -> Result<(), Fault> {
    let mut is_chunked = false;
    for field in headers.get_all(header::TRANSFER_ENCODING) {
        let codings = field.as_bytes().split(|&byte| byte == b',');
        for coding in codings
            .map(<[u8]>::trim_ascii)
            .filter(|coding| !coding.is_empty())
        {
            if !coding.eq_ignore_ascii_case(b"chunked") {
                return Err((
                    StatusCode::NOT_IMPLEMENTED,
                    "no transfer coding but chunked is understood",
                ));
            }
            if std::mem::replace(&mut is_chunked, true) {
                return Err(bad("the body is chunked twice"));
            }
        }
    }
    Ok(())
}

/// A field value neither starts nor ends with whitespace (RFC 9113 §8.2.1, RFC 9114 §4.2).
fn check_padding(headers: &HeaderMap) -> Result<(), Fault> {
    let is_padded = |value: &[u8]| value.trim_ascii().len() != value.len();
    if headers.values().any(|value| is_padded(value.as_bytes())) {
        return Err(bad("a field value starts or ends with whitespace"));
    }
    Ok(())
}

const fn bad(reason: &'static str) -> Fault {
    (StatusCode::BAD_REQUEST, reason)
}

const HEADERS_TOO_LARGE: Fault = (
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    "the request's headers are larger than limits.header_size",
);

#[cfg(test)]
mod tests {
    use hikyaku_units::ByteSize;

    use super::*;

    #[test]
    fn a_host_is_one_name_or_address_and_a_port() {
        let cases = [
            ("", true),
            ("a.example", true),
            ("A_b.example.", true),
            ("xn--bcher-kva.example:8443", true),
            ("192.0.2.1:443", true),
            ("[2001:db8::1]", true),
            ("[2001:db8::1]:8443", true),
            ("a:", true),
            ("a%20b", true),
            ("a b", false),
            ("a,b", false),
            ("a, b", false),
            ("user@a", false),
            ("user:secret@a", false),
            ("a/b", false),
            ("a?b", false),
            ("a#b", false),
            ("https://a", false),
            ("a:b", false),
            ("a:+80", false),
            ("a:65536", false),
            ("a:80:81", false),
            ("2001:db8::1", false),
            ("[2001:db8::1", false),
            ("[2001:db8::g]", false),
            ("[::1]80", false),
            ("[::1]:80 ", false),
            ("a\\b", false),
            ("<a>", false),
            ("b\u{fc}cher", false),
        ];
        for (host, want) in cases {
            assert_eq!(is_host(host.as_bytes()), want, "{host}");
        }
    }

    /// A request line with `Host` and further fields, each `name: value`.
    fn request(line: &str, fields: &[&str]) -> Request<()> {
        let (method, target) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(target);
        for field in fields {
            let (name, value) = field.split_once(": ").unwrap();
            request = request.header(name, value);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn malformed_requests_are_refused() {
        use Version::{H1, H2, H3};
        type Case<'a> = (&'a str, &'a [&'a str], Version, u16);
        let cases: &[Case<'_>] = &[
            ("GET /", &["host: a"], H1, 200),
            ("GET https://b/", &["host: a"], H1, 200),
            ("GET https://b", &["host: b"], H1, 200),
            ("OPTIONS *", &["host: a"], H1, 200),
            ("GET *", &["host: a"], H1, 400),
            ("GET a:443", &["host: a"], H1, 400),
            ("GET ftp://a/", &["host: a"], H1, 400),
            ("GET https://u@a/", &["host: a"], H1, 400),
            ("GET https://a:b/", &["host: a"], H1, 400),
            ("GET https://a/", &["host: a b"], H1, 400),
            ("GET https://a/", &["host: a", "host: a"], H1, 400),
            ("CONNECT a:443", &["host: a"], H1, 405),
            ("GET https://a/", &[], H2, 200),
            ("GET https://a/", &["host: A"], H2, 200),
            ("GET https://a/", &["host: b"], H2, 400),
            ("GET https://a/", &["host: a:443"], H3, 400),
            ("GET /", &["host: a"], H3, 200),
            ("GET /", &[], H3, 400),
            ("GET https://u@a/", &[], H3, 400),
            ("GET https://a/", &["x: y "], H2, 400),
            ("GET https://a/", &["x:  y"], H3, 400),
            ("GET https://a/", &["x: y\t"], H3, 400),
            ("GET /", &["host: a", "transfer-encoding: Chunked"], H1, 200),
            (
                "GET /",
                &["host: a", "transfer-encoding: gzip, chunked"],
                H1,
                501,
            ),
            (
                "GET /",
                &["host: a", "transfer-encoding: identity"],
                H1,
                501,
            ),
            (
                "GET /",
                &["host: a", "transfer-encoding: chunked, chunked"],
                H1,
                400,
            ),
        ];
        for (line, fields, version, want) in cases {
            let got = check(&request(line, fields), *version, size(1000));
            let got = got.err().map_or(200, |(status, _)| status.as_u16());
            assert_eq!(got, *want, "{line} {fields:?} {version:?}");
        }
    }

    #[test]
    fn https_is_not_answered_in_the_clear() {
        use Scheme::{Http, Https};
        let cases = [
            ("GET /", Http, 200),
            ("GET http://a/", Http, 200),
            ("GET https://a/", Http, 421),
            ("GET HTTPS://a/", Http, 421),
            ("GET https://a/", Https, 200),
        ];
        for (line, scheme, want) in cases {
            let got = check_scheme(&request(line, &["host: a"]), scheme);
            let got = got.err().map_or(200, |(status, _)| status.as_u16());
            assert_eq!(got, want, "{line} {scheme:?}");
        }
    }

    #[test]
    fn connect_is_for_websocket_alone() {
        let cases = [
            (None, 405),
            (Some("websocket"), 200),
            (Some("WebSocket"), 200),
            (Some("connect-udp"), 501),
        ];
        for (protocol, want) in cases {
            let mut request = request("CONNECT https://a/chat", &[]);
            Protocol::attach(protocol, &mut request);
            let got = check(&request, Version::H3, size(1000));
            let got = got.err().map_or(200, |(status, _)| status.as_u16());
            assert_eq!(got, want, "{protocol:?}");
        }
    }

    #[test]
    fn header_sections_of_http_1_1_are_bounded_with_their_target() {
        // host: 4 + 1 + 32, x: 1 + 28 + 32, target: 2.
        let fields = ["host: a", "x: aaaaaaaaaaaaaaaaaaaaaaaaaaaa"];
        let request = request("GET /b", &fields);
        assert_eq!(check(&request, Version::H1, size(100)), Ok(()));
        let refused = Err(HEADERS_TOO_LARGE);
        assert_eq!(check(&request, Version::H1, size(99)), refused);
    }

    fn size(bytes: u64) -> HeaderSize {
        ByteSize::from_bytes(bytes).into()
    }
}
