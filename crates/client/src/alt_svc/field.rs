//! Alternative services in the fields of requests and responses.

use http::header::{ALT_SVC, HeaderName};
use http::{HeaderMap, HeaderValue};

use super::cache::{Authority, is_http3};
use super::parse::{AltSvc, Alternative};

/// Returns the Alt-Svc field of a response. Several fields are one list (RFC 9110 §5.2).
pub(crate) fn field(headers: &HeaderMap) -> Option<String> {
    let fields: Vec<_> = headers
        .get_all(ALT_SVC)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    (!fields.is_empty()).then(|| fields.join(", "))
}

/// Returns the Alt-Used field for a request. RFC 7838 §5: "When using an alternative service,
/// clients SHOULD include an Alt-Used header field in all requests."
pub(crate) fn alt_used(at: &Authority) -> Option<(HeaderName, HeaderValue)> {
    let authority = if at.host.contains(':') {
        format!("[{}]:{}", at.host, at.port)
    } else {
        format!("{}:{}", at.host, at.port)
    };
    let value = HeaderValue::from_str(&authority).ok()?;
    Some((HeaderName::from_static("alt-used"), value))
}

/// Drops the alternatives that browsers reject. Chromium takes no `ma=0`, and no move from a
/// privileged port to an unprivileged one. Returns `false` if no alternative remains.
pub(crate) fn keep_alternatives_that_browsers_accept(origin_port: u16, value: &mut AltSvc) -> bool {
    const FIRST_UNPRIVILEGED: u16 = 1024;
    let AltSvc::Alternatives(alternatives) = value else {
        return true;
    };
    let takes = |alternative: &Alternative| {
        is_http3(alternative)
            && !alternative.ma.is_zero()
            && (origin_port >= FIRST_UNPRIVILEGED || alternative.port < FIRST_UNPRIVILEGED)
    };
    alternatives.retain(takes);
    !alternatives.is_empty()
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    #[test]
    fn several_fields_are_one_list() {
        let mut headers = HeaderMap::new();
        assert_eq!(field(&headers), None);
        headers.append(ALT_SVC, HeaderValue::from_static(r#"h3=":1""#));
        headers.append(ALT_SVC, HeaderValue::from_static(r#"h3=":2""#));
        assert_eq!(field(&headers).unwrap(), r#"h3=":1", h3=":2""#);
    }

    #[test]
    fn browsers_reject_some_alternatives() {
        let cases: &[(&str, u16, &str, Option<usize>)] = &[
            ("clear", 443, "clear", Some(0)),
            ("the same port", 443, r#"h3=":443""#, Some(1)),
            ("to an unprivileged port", 443, r#"h3=":8443""#, None),
            ("between unprivileged ports", 8443, r#"h3=":9443""#, Some(1)),
            ("no lifetime", 443, r#"h3=":443"; ma=0"#, None),
            (
                "one of three",
                443,
                r#"h2=":443", h3=":443", h3=":8443""#,
                Some(1),
            ),
        ];
        for (name, port, value, want) in cases {
            let mut value = parse(value).unwrap();
            let taken = keep_alternatives_that_browsers_accept(*port, &mut value);
            let left = match &value {
                AltSvc::Clear => 0,
                AltSvc::Alternatives(left) => left.len(),
            };
            assert_eq!(taken.then_some(left), *want, "{name}");
        }
    }

    #[test]
    fn alt_used_names_host_and_port() {
        let used = |host: &str| {
            let host = host.to_owned();
            alt_used(&Authority { host, port: 8443 }).unwrap().1
        };
        assert_eq!(used("a.test"), "a.test:8443");
        assert_eq!(used("::1"), "[::1]:8443");
    }
}
