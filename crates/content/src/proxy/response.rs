//! Heads of an upstream's responses on their way to the client.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header, response};

use super::error::SendError;
use super::headers::{append_element, elements, strip_hop_by_hop, trim_values};
use super::special::Special;
use crate::header_size::HeaderSize;

/// Prepares an upstream's response for the client. With `sends_via`, the proxy names itself.
///
/// # Errors
/// If its fields are larger than `header_size`, or its content has an unknown transfer coding.
pub(super) fn prepare(
    response: &mut response::Parts,
    header_size: HeaderSize,
    sends_via: bool,
) -> Result<(), SendError> {
    let headers = &mut response.headers;
    if header_size.is_exceeded(headers, 0) {
        return Err(SendError::HeadersTooLarge);
    }
    // The content would pass with the coding, but without the coding's name (RFC 9112 §6.1).
    let special = Special::of(headers);
    let is_other = |coding: &str| !coding.eq_ignore_ascii_case("chunked");
    if special.has_any(Special::TRANSFER_ENCODING)
        && elements(headers, &header::TRANSFER_ENCODING).any(is_other)
    {
        return Err(SendError::TransferCoding);
    }
    let received = match response.version {
        http::Version::HTTP_2 => "2 hikyaku",
        http::Version::HTTP_10 => "1.0 hikyaku",
        _ => "1.1 hikyaku",
    };
    make_fit(headers, special);
    if sends_via {
        append_element(headers, &header::VIA, HeaderValue::from_static(received));
    }
    // The response's version is that of the client's connection.
    response.version = http::Version::HTTP_11;
    Ok(())
}

/// Makes an interim response for the client (RFC 9110 §15.2).
///
/// `None` for 100, which answers the server's own expectation, and for 101.
pub(super) fn interim(status: StatusCode, headers: &HeaderMap) -> Option<Response<()>> {
    if matches!(
        status,
        StatusCode::CONTINUE | StatusCode::SWITCHING_PROTOCOLS
    ) {
        return None;
    }
    let mut response = Response::new(());
    *response.status_mut() = status;
    let fields = response.headers_mut();
    *fields = headers.clone();
    make_fit(fields, Special::of(headers));
    fields.remove(header::CONTENT_LENGTH);
    Some(response)
}

/// `special` are those of the section.
fn make_fit(headers: &mut HeaderMap, special: Special) {
    strip_hop_by_hop(headers, special);
    trim_values(headers);
    if special.has_any(Special::CONTENT_LENGTH) {
        unify_length(headers);
    }
    if special.has_any(Special::ALT_SVC) {
        // This server alone advertises other places of the origin.
        headers.remove(header::ALT_SVC);
    }
}

/// Joins repeated equal lengths (RFC 9110 §8.6), and removes malformed ones: a response without
/// content, as one to `HEAD`, may have any.
fn unify_length(headers: &mut HeaderMap) {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let Some(first) = lengths.next() else { return };
    let is_digits =
        |text: &&str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let is_number = first
        .to_str()
        .is_ok_and(|text| text.len() < 20 && is_digits(&text));
    if is_number && headers.get_all(header::CONTENT_LENGTH).iter().count() == 1 {
        return;
    }
    let mut elements = std::iter::once(first)
        .chain(lengths)
        .flat_map(|value| value.to_str().unwrap_or("-").split(','))
        .map(|text| Some(text.trim()).filter(is_digits)?.parse::<u64>().ok());
    let length = elements.next().flatten();
    match length.filter(|_| elements.all(|other| other == length)) {
        Some(length) => headers.insert(header::CONTENT_LENGTH, length.into()),
        None => headers.remove(header::CONTENT_LENGTH),
    };
}

/// The time for which an HTTP/1.1 connection may be unused, by its upstream's `Keep-Alive:
/// timeout=N` (RFC 2068 §19.7.1.1). A second less, for the transmission.
pub(super) fn keep_alive(headers: &HeaderMap) -> Option<Duration> {
    const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
    let fields = headers.get_all(KEEP_ALIVE).iter();
    let parameters = fields
        .filter_map(|field| field.to_str().ok())
        .flat_map(|field| field.split(','));
    let seconds = parameters.filter_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_timeout = name.trim().eq_ignore_ascii_case("timeout");
        let seconds = value.trim().trim_matches('"').parse::<u64>().ok();
        seconds.filter(|_| is_timeout)
    });
    let shortest = seconds.min()?;
    Some(Duration::from_secs(shortest.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hikyaku_units::ByteSize;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let value = HeaderValue::from_str(value).unwrap();
            headers.append(HeaderName::from_static(name), value);
        }
        headers
    }

    #[test]
    fn heads_are_made_fit_or_refused() {
        type Fields<'a> = &'a [(&'static str, &'a str)];
        let cases: &[(Fields<'_>, Option<Fields<'_>>)] = &[
            (&[("x", " 1\t")], Some(&[("x", "1")])),
            (
                &[("content-length", "5"), ("content-length", "5")],
                Some(&[("content-length", "5")]),
            ),
            (
                &[("content-length", "5, 5")],
                Some(&[("content-length", "5")]),
            ),
            (&[("content-length", "5, 6")], Some(&[])),
            (&[("content-length", "+5")], Some(&[])),
            (&[("content-length", "")], Some(&[])),
            (
                &[("transfer-encoding", "chunked"), ("content-length", "5")],
                Some(&[]),
            ),
            (&[("transfer-encoding", "gzip, chunked")], None),
            (&[("transfer-encoding", "gzip")], None),
            (
                &[
                    ("connection", "keep-alive, x-hop"),
                    ("keep-alive", "timeout=5"),
                    ("proxy-connection", "x"),
                    ("upgrade", "h2c"),
                    ("te", "x"),
                    ("x-hop", "1"),
                    ("alt-svc", "clear"),
                ],
                Some(&[]),
            ),
            (&[("x", &"1".repeat(1000))], None),
        ];
        for (fields, want) in cases {
            let (mut parts, ()) = Response::new(()).into_parts();
            parts.headers = headers(fields);
            let got = prepare(&mut parts, ByteSize::from_bytes(1000).into(), false);
            let got = got.ok().map(|()| parts.headers);
            assert_eq!(got, want.map(headers), "{fields:?}");
        }
    }

    #[test]
    fn the_proxy_names_itself_after_others() {
        let cases = [
            (&[][..], false, None),
            (&[], true, Some("1.1 hikyaku")),
            (&[("via", "1.0 old")], false, Some("1.0 old")),
            (&[("via", "1.0 old")], true, Some("1.0 old, 1.1 hikyaku")),
        ];
        for (fields, sends_via, want) in cases {
            let (mut parts, ()) = Response::new(()).into_parts();
            parts.headers = headers(fields);
            let size = ByteSize::from_bytes(1000).into();
            prepare(&mut parts, size, sends_via).unwrap();
            let got = parts.headers.get(header::VIA);
            assert_eq!(got.map(|via| via.to_str().unwrap()), want, "{fields:?}");
        }
    }

    #[test]
    fn interim_responses_are_passed_on_but_for_those_of_the_connection() {
        let fields = headers(&[
            ("link", "</a>"),
            ("connection", "x"),
            ("content-length", "1"),
        ]);
        let hints = interim(StatusCode::EARLY_HINTS, &fields).unwrap();
        assert_eq!(hints.status(), 103);
        assert_eq!(*hints.headers(), headers(&[("link", "</a>")]));
        assert!(interim(StatusCode::PROCESSING, &fields).is_some());
        assert!(interim(StatusCode::CONTINUE, &fields).is_none());
        assert!(interim(StatusCode::SWITCHING_PROTOCOLS, &fields).is_none());
    }

    #[test]
    fn the_upstreams_keep_alive_is_read_with_a_margin() {
        let cases = [
            ("timeout=5", Some(4)),
            ("timeout=5, max=100", Some(4)),
            ("max=100, Timeout = \"30\"", Some(29)),
            ("timeout=1", Some(0)),
            ("timeout=0", Some(0)),
            ("timeout=never", None),
            ("max=5", None),
            ("", None),
        ];
        for (value, want) in cases {
            let got = keep_alive(&headers(&[("keep-alive", value)]));
            assert_eq!(got, want.map(Duration::from_secs), "{value}");
        }
    }
}
