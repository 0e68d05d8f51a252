//! Trailer fields on their way through the proxy.

use http::HeaderMap;
use http::header::{self, HeaderName};
use http_body::Frame;

/// Removes fields that must not be trailers. A trailer section without any other field is dropped.
///
/// The forbidden fields frame or route the message, authenticate, or describe the content. A
/// recipient must know them before the content (RFC 9110 §6.5.1).
pub(super) fn without_forbidden<D, E>(
    frame: Option<Result<Frame<D>, E>>,
) -> Option<Result<Frame<D>, E>> {
    match frame.transpose() {
        Ok(Some(frame)) => match frame.into_trailers() {
            Ok(trailers) => strip(trailers).map(Frame::trailers).map(Ok),
            Err(frame) => Some(Ok(frame)),
        },
        other => other.transpose(),
    }
}

fn strip(mut trailers: HeaderMap) -> Option<HeaderMap> {
    for name in &FORBIDDEN {
        trailers.remove(name);
    }
    super::headers::trim_values(&mut trailers);
    (!trailers.is_empty()).then_some(trailers)
}

const FORBIDDEN: [HeaderName; 42] = [
    // These concern framing, routing and the connection.
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::HOST,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("http2-settings"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    // These are controls and conditions of requests.
    header::CACHE_CONTROL,
    header::EXPECT,
    header::IF_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    header::IF_UNMODIFIED_SINCE,
    header::MAX_FORWARDS,
    header::PRAGMA,
    header::RANGE,
    // These concern authentication.
    header::AUTHORIZATION,
    header::COOKIE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::SET_COOKIE,
    header::WWW_AUTHENTICATE,
    HeaderName::from_static("authentication-info"),
    HeaderName::from_static("proxy-authentication-info"),
    // These are controls of responses.
    header::AGE,
    header::ALT_SVC,
    header::DATE,
    header::EXPIRES,
    header::LOCATION,
    header::RETRY_AFTER,
    header::VARY,
    header::WARNING,
    // These describe the content.
    header::CONTENT_ENCODING,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    // These are the proxy's own description of the client.
    header::FORWARDED,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-proto"),
];

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::HeaderValue;

    use super::*;

    fn passed(names: &[&'static str]) -> Option<Vec<String>> {
        let one = HeaderValue::from_static(" 1");
        let trailers = names
            .iter()
            .map(|name| (name.parse().unwrap(), one.clone()));
        let frame = Frame::<()>::trailers(trailers.collect());
        let frame = without_forbidden::<(), Infallible>(Some(Ok(frame)))?;
        let trailers = frame.unwrap().into_trailers().ok().unwrap();
        assert!(trailers.values().all(|value| value == "1"), "{trailers:?}");
        Some(trailers.keys().map(ToString::to_string).collect())
    }

    #[test]
    fn forbidden_fields_are_left_out() {
        let cases: &[(&[&str], Option<&[&str]>)] = &[
            (
                &["x-sum", "server-timing"],
                Some(&["x-sum", "server-timing"]),
            ),
            (&["x-sum", "content-length"], Some(&["x-sum"])),
            (&["content-length", "transfer-encoding"], None),
            (&["set-cookie", "authorization", "host"], None),
            (&["connection", "keep-alive", "upgrade"], None),
            (&[], None),
        ];
        for (names, want) in cases {
            let want = want.map(|names| names.iter().map(ToString::to_string).collect());
            assert_eq!(passed(names), want, "{names:?}");
        }
        let data = without_forbidden::<_, Infallible>(Some(Ok(Frame::data(1))));
        assert!(data.unwrap().unwrap().is_data());
        assert!(without_forbidden::<(), Infallible>(None).is_none());
    }
}
