//! Clients that follow advertisements of HTTP/3.

use http::{HeaderMap, HeaderName, header};

/// Whether a request comes from a client that follows `Alt-Svc` (RFC 7838): a browser. Scripts and tools
/// ignore it; that they stay on TCP says nothing of UDP to their address.
///
/// Browsers send Fetch Metadata with every request, which no script in them can change. Older ones are
/// recognised by `Accept-Language`, the languages that people prefer to read.
pub(super) fn follows_alt_svc(headers: &HeaderMap) -> bool {
    let is_browser = |value: &http::HeaderValue| value.as_bytes().starts_with(b"Mozilla/");
    FETCH_METADATA.iter().any(|name| headers.contains_key(name))
        || headers.contains_key(header::ACCEPT_LANGUAGE)
            && headers.get(header::USER_AGENT).is_some_and(is_browser)
}

/// Request header fields of the W3C's Fetch Metadata.
const FETCH_METADATA: [HeaderName; 3] = [
    HeaderName::from_static("sec-fetch-site"),
    HeaderName::from_static("sec-fetch-mode"),
    HeaderName::from_static("sec-fetch-dest"),
];

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn browsers_follow_and_tools_do_not() {
        const SAFARI_15: &str = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) \
            AppleWebKit/605.1.15 (KHTML, like Gecko) Version/15.6 Safari/605.1.15";
        type Case = (&'static str, &'static [(&'static str, &'static str)], bool);
        let cases: &[Case] = &[
            ("nothing", &[], false),
            (
                "curl",
                &[("user-agent", "curl/7.88.1"), ("accept", "*/*")],
                false,
            ),
            (
                "Go",
                &[
                    ("user-agent", "Go-http-client/2.0"),
                    ("accept-encoding", "gzip"),
                ],
                false,
            ),
            (
                "a script in disguise",
                &[("user-agent", SAFARI_15), ("accept", "*/*")],
                false,
            ),
            (
                "a script that wants German",
                &[("user-agent", "python"), ("accept-language", "de")],
                false,
            ),
            (
                "Safari 15",
                &[("user-agent", SAFARI_15), ("accept-language", "en-GB")],
                true,
            ),
            (
                "an image of Chromium's",
                &[
                    ("sec-fetch-site", "same-origin"),
                    ("sec-fetch-dest", "image"),
                ],
                true,
            ),
            ("a page", &[("sec-fetch-mode", "navigate")], true),
        ];
        for (name, fields, want) in cases {
            let headers = fields.iter().map(|(name, value)| {
                let name = HeaderName::from_static(name);
                (name, HeaderValue::from_static(value))
            });
            assert_eq!(follows_alt_svc(&headers.collect()), *want, "{name}");
        }
    }
}
