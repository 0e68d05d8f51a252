//! Who may use the admin API.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::{HeaderValue, Method, Request, StatusCode, header};

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) why: &'static str,
}

/// Checks a request by its token. Without a configured token, the address is loopback. The check is then
/// that no web page of another site makes the operator's own browser send the request.
pub(super) fn check<B>(request: &Request<B>, token: Option<&str>) -> Result<(), Refusal> {
    check_site(request)?;
    match token {
        // The page asks for the token; it holds no secret itself.
        Some(_) if request.method() == Method::GET && is_page(request.uri().path()) => Ok(()),
        Some(token) => check_token(request, token),
        None => check_local(request),
    }
}

/// Whether a path is that of the page or of one of its files.
fn is_page(path: &str) -> bool {
    path == "/" || path.starts_with("/page/")
}

/// Refuses what a page of another site makes a browser send (W3C Fetch Metadata). Browsers send
/// no `Origin` with most GETs, but this field with all requests to loopback addresses. A link
/// to the page itself may be followed: it cannot be framed, and the other site sees no answer.
fn check_site<B>(request: &Request<B>) -> Result<(), Refusal> {
    let field = |name: &str| request.headers().get_all(name).iter();
    let is_own = field("sec-fetch-site").all(|value| value == "none" || value == "same-origin");
    let is_link = matches!(*request.method(), Method::GET | Method::HEAD)
        && request.uri().path() == "/"
        && field("sec-fetch-mode").any(|value| value == "navigate")
        && field("sec-fetch-dest").any(|value| value == "document");
    if is_own || is_link {
        return Ok(());
    }
    Err(forbidden("pages of other sites may not use the admin API"))
}

fn check_token<B>(request: &Request<B>, token: &str) -> Result<(), Refusal> {
    let given = request.headers().get(header::AUTHORIZATION);
    if given
        .and_then(bearer)
        .is_some_and(|given| same(given, token.as_bytes()))
    {
        return Ok(());
    }
    Err(Refusal {
        status: StatusCode::UNAUTHORIZED,
        why: "send `Authorization: Bearer` with the token of `admin.token`",
    })
}

/// The token of `Bearer TOKEN`; the scheme is compared without case (RFC 9110 §11.1).
fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, rest) = value.as_bytes().split_at_checked("Bearer".len())?;
    let token = rest.trim_ascii_start();
    (scheme.eq_ignore_ascii_case(b"Bearer") && token.len() < rest.len()).then_some(token)
}

/// Compares in a time that does not reveal how much is right.
fn same(given: &[u8], token: &[u8]) -> bool {
    let differing = given.iter().zip(token).fold(0, |acc, (a, b)| acc | (a ^ b));
    given.len() == token.len() && differing == 0
}

const fn forbidden(why: &'static str) -> Refusal {
    Refusal {
        status: StatusCode::FORBIDDEN,
        why,
    }
}

fn check_local<B>(request: &Request<B>) -> Result<(), Refusal> {
    // A name could be rebound to a loopback address by whoever owns it.
    let host = host(request)
        .filter(|host| is_local_host(host))
        .ok_or(forbidden(
            "use an IP address or localhost as the host, or configure `admin.token`",
        ))?;
    let is_own = |origin: &HeaderValue| {
        let origin = origin.to_str().ok().and_then(|text| text.split_once("://"));
        origin.is_some_and(|(_, origin)| origin.eq_ignore_ascii_case(host))
    };
    match request.headers().get_all(header::ORIGIN).iter().all(is_own) {
        true => Ok(()),
        false => Err(forbidden("pages of other sites may not use the admin API")),
    }
}

/// The host that is asked for, with its port: the target's where it has one (RFC 9112 §3.2.2).
fn host<B>(request: &Request<B>) -> Option<&str> {
    if let Some(authority) = request.uri().authority() {
        return Some(authority.as_str());
    }
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = hosts.next()?;
    hosts.next().is_none().then(|| host.to_str().ok()).flatten()
}

/// Whether a host, perhaps with a port, is an IP address or `localhost`.
fn is_local_host(host: &str) -> bool {
    let is_port = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').is_some_and(|(address, port)| {
            address.parse::<Ipv6Addr>().is_ok()
                && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
        });
    }
    let name = match host.split_once(':') {
        Some((name, port)) if is_port(port) => name,
        Some(_) => return false,
        None => host,
    };
    // The root's dot makes it no other name.
    let bare = name.strip_suffix('.').unwrap_or(name);
    bare.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method, path: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut builder = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap()
    }

    #[test]
    fn only_the_operator_gets_in() {
        let cases: &[(&str, Option<&str>, &str, &[(&str, &str)], u16)] = &[
            (
                "loopback address",
                None,
                "/v1/status",
                &[("host", "127.0.0.1:8440")],
                200,
            ),
            (
                "IPv6 loopback",
                None,
                "/v1/status",
                &[("host", "[::1]:8440")],
                200,
            ),
            (
                "localhost",
                None,
                "/v1/status",
                &[("host", "localhost:8440")],
                200,
            ),
            (
                "a rebound name",
                None,
                "/v1/status",
                &[("host", "evil.example")],
                403,
            ),
            ("no host", None, "/v1/status", &[], 403),
            (
                "its own page",
                None,
                "/v1/forget",
                &[("host", "localhost:1"), ("origin", "http://localhost:1")],
                200,
            ),
            (
                "another site's page",
                None,
                "/v1/forget",
                &[("host", "localhost:1"), ("origin", "https://evil.example")],
                403,
            ),
            (
                "no token",
                Some("s3cret"),
                "/metrics",
                &[("host", "a.example")],
                401,
            ),
            (
                "the page without token",
                Some("s3cret"),
                "/",
                &[("host", "a.example")],
                200,
            ),
            (
                "a file of the page without token",
                Some("s3cret"),
                "/page/app.js",
                &[("host", "a.example")],
                200,
            ),
            (
                "a path that is like it",
                Some("s3cret"),
                "/pages",
                &[("host", "a.example")],
                401,
            ),
            (
                "a wrong token",
                Some("s3cret"),
                "/metrics",
                &[("authorization", "Bearer s3crex")],
                401,
            ),
            (
                "a part of it",
                Some("s3cret"),
                "/metrics",
                &[("authorization", "Bearer s3c")],
                401,
            ),
            (
                "the token",
                Some("s3cret"),
                "/metrics",
                &[("authorization", "Bearer s3cret")],
                200,
            ),
        ];
        for (name, token, path, headers, want) in cases {
            let request = request(Method::GET, path, headers);
            let got = check(&request, *token).map_or_else(|r| r.status.as_u16(), |()| 200);
            assert_eq!(got, *want, "{name}");
        }
    }

    #[test]
    fn hosts_are_local_by_address_or_name() {
        let cases = [
            ("127.0.0.1", true),
            ("127.0.0.1:8440", true),
            ("192.0.2.1:8440", true),
            ("[::1]", true),
            ("[::1]:8440", true),
            ("[::ffff:127.0.0.1]:8440", true),
            ("localhost", true),
            ("localhost.", true),
            ("LocalHost.:8440", true),
            ("evil.example", false),
            ("evil.example:8440", false),
            ("localhost.evil.example", false),
            ("evil.localhost", false),
            ("127.0.0.1.evil.example", false),
            ("127.0.0.1@evil.example", false),
            ("127.0.0.1:8440:1", false),
            ("127.0.0.1:port", false),
            ("::1", false),
            ("[::1", false),
            ("[::1]evil.example", false),
            ("[127.0.0.1]", false),
            ("0x7f000001", false),
            ("", false),
        ];
        for (host, want) in cases {
            assert_eq!(is_local_host(host), want, "{host}");
            let request = request(Method::GET, "/metrics", &[("host", host)]);
            assert_eq!(check(&request, None).is_ok(), want, "{host}");
        }
        let twice = [("host", "localhost"), ("host", "evil.example")];
        assert!(check(&request(Method::GET, "/metrics", &twice), None).is_err());
        let target = "http://evil.example/metrics";
        let absolute = request(Method::GET, target, &[("host", "localhost")]);
        assert!(check(&absolute, None).is_err());
    }

    #[test]
    fn other_sites_may_link_to_the_page_and_do_no_more() {
        let navigate: &[(&str, &str)] = &[
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        let frame: &[(&str, &str)] =
            &[("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        let image: &[(&str, &str)] = &[("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")];
        let (get, post) = (Method::GET, Method::POST);
        // site, method, path, mode and destination, whether it may
        let cases = [
            (None, &get, "/metrics", image, true),
            (Some("none"), &get, "/", navigate, true),
            (Some("none"), &get, "/metrics", navigate, true),
            (Some("same-origin"), &get, "/v1/status", image, true),
            (Some("same-origin"), &post, "/v1/forget", image, true),
            (Some("cross-site"), &get, "/", navigate, true),
            (Some("same-site"), &get, "/", navigate, true),
            (Some("cross-site"), &post, "/", navigate, false),
            (Some("cross-site"), &get, "/", frame, false),
            (Some("cross-site"), &get, "/", image, false),
            (Some("cross-site"), &get, "/v1/status", navigate, false),
            (Some("cross-site"), &get, "/v1/events", image, false),
            (Some("same-site"), &get, "/metrics", image, false),
            (Some("same-site"), &post, "/v1/forget", image, false),
            (Some("anything-else"), &get, "/metrics", image, false),
        ];
        for (site, method, path, about, want) in cases {
            let mut headers = about.to_vec();
            headers.push(("host", "localhost:8440"));
            headers.extend(site.map(|site| ("sec-fetch-site", site)));
            let asked = request(method.clone(), path, &headers);
            let got = check(&asked, None).is_ok();
            assert_eq!(got, want, "{site:?} {method} {path} {about:?}");
            headers.push(("authorization", "Bearer s3cret"));
            let asked = request(method.clone(), path, &headers);
            let got = check(&asked, Some("s3cret")).is_ok();
            assert_eq!(
                got, want,
                "with a token: {site:?} {method} {path} {about:?}"
            );
        }
    }

    #[test]
    fn the_scheme_of_the_token_has_no_case() {
        let cases = [
            ("Bearer s3cret", true),
            ("bearer s3cret", true),
            ("BEARER  s3cret", true),
            ("Bearers3cret", false),
            ("Bearer S3CRET", false),
            ("Bearer", false),
            ("Bearer ", false),
            ("Basic s3cret", false),
            ("s3cret", false),
        ];
        for (value, want) in cases {
            let asked = request(Method::GET, "/metrics", &[("authorization", value)]);
            assert_eq!(check(&asked, Some("s3cret")).is_ok(), want, "{value}");
        }
    }
}
