//! Who may use the admin API.

use std::net::IpAddr;

use http::{Method, Request, StatusCode, header};

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) why: &'static str,
}

/// Checks a request: by its token, or, where none is configured (and the address is
/// loopback), that no web page of another site makes the operator's own browser send it.
pub(super) fn check<B>(request: &Request<B>, token: Option<&str>) -> Result<(), Refusal> {
    match token {
        // The page asks for the token; it holds no secret itself.
        Some(_) if request.method() == Method::GET && request.uri().path() == "/" => Ok(()),
        Some(token) => check_token(request, token),
        None => check_local(request),
    }
}

fn check_token<B>(request: &Request<B>, token: &str) -> Result<(), Refusal> {
    let given = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    if given.is_some_and(|given| same(given, token.as_bytes())) {
        return Ok(());
    }
    Err(Refusal {
        status: StatusCode::UNAUTHORIZED,
        why: "send `Authorization: Bearer` with the token of `admin.token`",
    })
}

/// Compares in a time that does not tell how much is right.
fn same(given: &[u8], token: &[u8]) -> bool {
    let differing = given.iter().zip(token).fold(0, |acc, (a, b)| acc | (a ^ b));
    given.len() == token.len() && differing == 0
}

fn check_local<B>(request: &Request<B>) -> Result<(), Refusal> {
    let refused = |why| {
        Err(Refusal {
            status: StatusCode::FORBIDDEN,
            why,
        })
    };
    let text = |name| request.headers().get(name)?.to_str().ok();
    // A name could be rebound to a loopback address by whoever owns it.
    let host = text(header::HOST).unwrap_or_default();
    if !is_local_host(host) {
        return refused("use an IP address or localhost as the host, or configure `admin.token`");
    }
    if let Some(origin) = text(header::ORIGIN)
        && origin.split_once("://").map(|(_, origin)| origin) != Some(host)
    {
        return refused("pages of other sites may not use the admin API");
    }
    Ok(())
}

fn is_local_host(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
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
}
