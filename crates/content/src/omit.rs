//! Responses that have no content.

use http::{HeaderMap, Method, Response, StatusCode, header};
use http_body::Body as _;

use super::Body;

/// Takes the content from a response that must have none (RFC 9110 §6.4.1, §15.3.6).
///
/// These are answers to `HEAD`, and responses of status 1xx, 204, 205 and 304.
///
/// A response to `HEAD` has the length that one to `GET` would have, if it is known (§8.6).
pub fn omit_content(method: &Method, response: &mut Response<Body>) {
    let status = response.status();
    if has_no_content(status) {
        *response.body_mut() = Body::empty();
        remove_framing(response.headers_mut());
    } else if *method == Method::HEAD {
        let content = std::mem::take(response.body_mut());
        let length = content.size_hint().exact().filter(|&length| length > 0);
        let headers = response.headers_mut();
        if let Some(length) = length {
            headers
                .entry(header::CONTENT_LENGTH)
                .or_insert(length.into());
        }
    }
}

/// Whether responses of this status never have content, whatever the method.
fn has_no_content(status: StatusCode) -> bool {
    status.is_informational()
        || matches!(
            status,
            StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED
        )
}

/// Removes a length that is forbidden with 1xx and 204 (§8.6). A 304 may have one, but it is the
/// length of another response's content.
fn remove_framing(headers: &mut HeaderMap) {
    for name in [
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::TRAILER,
    ] {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_left_out_where_there_must_be_none() {
        // method, status and Content-Length of the response; then the length and content after the
        // call
        let cases = [
            ("GET", 200, None, None, "text"),
            ("GET", 200, Some(4), Some("4"), "text"),
            ("POST", 404, None, None, "text"),
            ("HEAD", 200, None, Some("4"), ""),
            ("HEAD", 200, Some(9), Some("9"), ""),
            ("HEAD", 502, None, Some("4"), ""),
            ("HEAD", 304, Some(9), None, ""),
            ("GET", 103, Some(4), None, ""),
            ("GET", 204, Some(4), None, ""),
            ("GET", 205, Some(4), None, ""),
            ("GET", 304, Some(4), None, ""),
        ];
        for (method, status, length, want_length, want) in cases {
            let mut response = Response::new(Body::from("text"));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            let headers = response.headers_mut();
            if let Some(length) = length {
                headers.insert(header::CONTENT_LENGTH, length.into());
            }
            omit_content(&method.parse().unwrap(), &mut response);
            let name = format!("{method} {status} {length:?}");
            let got = response.headers().get(header::CONTENT_LENGTH);
            let got = got.map(|value| value.to_str().unwrap());
            assert_eq!(got, want_length, "{name}");
            let left = response.body().size_hint().exact();
            assert_eq!(left, Some(want.len() as u64), "{name}");
        }
        let mut unknown = Response::new(Body::empty());
        omit_content(&Method::HEAD, &mut unknown);
        assert!(unknown.headers().is_empty(), "a length that nobody stated");
    }
}
