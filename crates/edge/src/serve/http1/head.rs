//! The head of a request, as far as it shows who is to answer.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version, header};
use httparse::Status;

/// Fields of a head that are looked at. Heads with more are rare, and room for all that
/// `limits.header_size` permits would cost several microseconds a request.
pub(super) const FIELDS: usize = 100;

/// The first request of some bytes.
// Lives for a moment on the stack; a box would cost an allocation a request.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub(super) enum Head {
    /// It is not complete yet.
    Partial,
    /// GET or HEAD of HTTP/1.1 without content and without any wish for the connection, in so many bytes.
    Plain { request: Request<()>, length: usize },
    /// Another one, or none at all.
    Other,
}

impl Head {
    /// Looks at the first request of `bytes` (RFC 9112 §2.1).
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
        let mut head = httparse::Request::new(&mut []);
        match head.parse_with_uninit_headers(bytes, &mut fields) {
            Ok(Status::Partial) => Self::Partial,
            Ok(Status::Complete(length)) if is_plain(&head) => {
                match request(&head, bytes, length) {
                    Some(request) => Self::Plain { request, length },
                    None => Self::Other,
                }
            }
            _ => Self::Other,
        }
    }
}

fn is_plain(head: &httparse::Request<'_, '_>) -> bool {
    head.version == Some(1)
        && matches!(head.method, Some("GET" | "HEAD"))
        && head.headers.iter().all(|field| {
            let is = |name: HeaderName| field.name.eq_ignore_ascii_case(name.as_str());
            match field.name.len() {
                // Content-Length, Transfer-Encoding
                14 => !is(header::CONTENT_LENGTH),
                17 => !is(header::TRANSFER_ENCODING),
                6 => !is(header::EXPECT),
                7 => !is(header::UPGRADE),
                10 => !is(header::CONNECTION) || field.value.eq_ignore_ascii_case(b"keep-alive"),
                _ => true,
            }
        })
}

/// The request that is meant; `None` if a part of it is no valid one.
fn request(head: &httparse::Request<'_, '_>, bytes: &[u8], length: usize) -> Option<Request<()>> {
    let shared = Bytes::copy_from_slice(&bytes[..length]);
    let at = |part: &[u8]| {
        let begin = part.as_ptr() as usize - bytes.as_ptr() as usize;
        shared.slice(begin..begin + part.len())
    };
    let target = head.path?;
    if target.len() > MAX_TARGET {
        return None;
    }
    let mut headers = HeaderMap::with_capacity(head.headers.len());
    for field in &*head.headers {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        let value = HeaderValue::from_maybe_shared(at(field.value)).ok()?;
        headers.append(name, value);
    }
    let mut request = Request::new(());
    *request.method_mut() = match head.method? {
        "GET" => Method::GET,
        _ => Method::HEAD,
    };
    *request.uri_mut() = Uri::from_maybe_shared(at(target.as_bytes())).ok()?;
    *request.version_mut() = Version::HTTP_11;
    *request.headers_mut() = headers;
    Some(request)
}

/// Longest target that [`Uri`] holds.
const MAX_TARGET: usize = u16::MAX as usize - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_head_shows() {
        let with = |fields: &str| format!("GET /a?b HTTP/1.1\r\nHost: a\r\n{fields}\r\nrest");
        let many = |count| "x: y\r\n".repeat(count);
        let cases = [
            ("nothing", String::new(), "partial"),
            (
                "a part",
                "GET / HTTP/1.1\r\nHost: a\r\n".to_owned(),
                "partial",
            ),
            ("a file", with(""), "plain"),
            ("after an empty line", format!("\r\n{}", with("")), "plain"),
            ("HEAD", with("").replace("GET", "HEAD"), "plain"),
            ("keep-alive", with("connection: Keep-Alive\r\n"), "plain"),
            ("close", with("Connection: close\r\n"), "other"),
            (
                "an upgrade",
                with("Connection: upgrade\r\nUpgrade: x\r\n"),
                "other",
            ),
            ("an upgrade alone", with("upgrade: h2c\r\n"), "other"),
            ("content", with("Content-Length: 4\r\n"), "other"),
            ("no content", with("content-length: 0\r\n"), "other"),
            ("chunks", with("Transfer-Encoding: chunked\r\n"), "other"),
            ("expects", with("Expect: 100-continue\r\n"), "other"),
            ("POST", with("").replace("GET", "POST"), "other"),
            ("HTTP/1.0", with("").replace("1.1", "1.0"), "other"),
            ("99 more fields", with(&many(99)), "plain"),
            ("100 more fields", with(&many(100)), "other"),
            ("a space in a name", with("a b: c\r\n"), "other"),
            ("a folded line", with("a: b\r\n c\r\n"), "other"),
            ("no HTTP", "\0\0\0\r\n\r\n".to_owned(), "other"),
            ("no target", with("").replace("/a?b", "{"), "other"),
        ];
        for (name, text, want) in cases {
            let got = match Head::of(text.as_bytes()) {
                Head::Partial => "partial",
                Head::Plain { length, .. } => {
                    assert_eq!(&text[length..], "rest", "{name}");
                    "plain"
                }
                Head::Other => "other",
            };
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn a_request_is_whole() {
        let text = b"GET /a?b HTTP/1.1\r\nHost: a.example\r\nX-Y:  one \r\nx-y: two\r\n\r\n";
        let Head::Plain { request, .. } = Head::of(text) else {
            panic!("it is plain");
        };
        assert_eq!(request.uri(), "/a?b");
        assert_eq!(request.headers()["host"], "a.example");
        let values: Vec<_> = request.headers().get_all("x-y").iter().collect();
        assert_eq!(values, ["one", "two"]);
    }

    proptest::proptest! {
        /// hyper gets a request alone, so that it must find the same end.
        #[test]
        fn a_plain_request_ends_where_it_ends_alone(
            parts in proptest::collection::vec(0..PARTS.len(), 0..12),
            any in proptest::collection::vec(proptest::num::u8::ANY, 0..4),
            at in 0..12_usize,
        ) {
            let mut parts: Vec<&[u8]> = parts.iter().map(|&part| PARTS[part]).collect();
            parts.insert(at.min(parts.len()), &any);
            let bytes = parts.concat();
            if let Head::Plain { length, .. } = Head::of(&bytes) {
                let alone = Head::of(&bytes[..length]);
                let is_same = matches!(alone, Head::Plain { length: end, .. } if end == length);
                proptest::prop_assert!(is_same);
                let less = Head::of(&bytes[..length - 1]);
                proptest::prop_assert!(matches!(less, Head::Partial));
            }
        }
    }

    const PARTS: [&[u8]; 12] = [
        b"GET / HTTP/1.1",
        b"HEAD /a HTTP/1.1",
        b"\r\n",
        b"\r\n",
        b"\n",
        b"\r\n\r\n",
        b"Host: a",
        b"x: ",
        b" ",
        b":",
        b"Content-Length: 0",
        b"Connection: keep-alive",
    ];
}
