//! Field sections, by the sentences of the RFCs.

use bytes::Bytes;
use http::{Method, Request, response};

use super::{Content, Context, Encoded, RequestHead, encode, head, trailer_section};
use crate::error::{Code, Error};
use crate::priority::Priority;
use crate::qpack::Field;

type Fields = &'static [(&'static str, &'static str)];

const GET: Fields = &[
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "a.test"),
    (":path", "/"),
];

fn fields(parts: &[&[(&str, &str)]]) -> Vec<Field> {
    let lines = parts.iter().copied().flatten();
    lines
        .map(|(name, value)| Field {
            name: Bytes::copy_from_slice(name.as_bytes()),
            // "\u{e9}" and other such characters stand for a single byte.
            value: value.chars().map(|char| char as u8).collect(),
            never_indexed: false,
        })
        .collect()
}

fn request(parts: &[&[(&str, &str)]], context: &Context) -> Result<String, Error> {
    let (head, content) = head::<RequestHead>(fields(parts), context)?;
    let mut text = format!("{} {}", head.parts.method, head.parts.uri);
    if let Some(protocol) = head.protocol {
        text = format!("{text} {}", protocol.as_str());
    }
    for (name, value) in &head.parts.headers {
        text = format!("{text} {name}={}", value.as_bytes().escape_ascii());
    }
    match content {
        Content::Open => {}
        Content::Length(length) => text = format!("{text} ({length})"),
        Content::None => text += " (none)",
        Content::Tunnel => text += " (tunnel)",
    }
    Ok(text)
}

fn check(name: &str, got: Result<String, Error>, want: Option<&str>) {
    match want {
        Some(want) => assert_eq!(got.as_deref(), Ok(want), "{name}"),
        None => {
            let error = got.expect_err(name);
            assert_eq!(error.code(), Code::MessageError, "{name}");
            assert!(!error.is_of_connection(), "{name}");
        }
    }
}

#[test]
fn request_targets() {
    let cases: &[(&str, Fields, Option<&str>)] = &[
        ("§4.3.1: a GET", GET, Some("GET https://a.test/")),
        (
            "§4.3.1: any order",
            &[
                (":path", "/a?b"),
                (":authority", "a.test:8443"),
                (":method", "PURGE"),
                (":scheme", "http"),
            ],
            Some("PURGE http://a.test:8443/a?b"),
        ),
        (
            "§4.3.1: no :method",
            &[
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", "/"),
            ],
            None,
        ),
        (
            "§4.3.1: no :scheme",
            &[(":method", "GET"), (":authority", "a.test"), (":path", "/")],
            None,
        ),
        (
            "§4.3.1: no :path",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "a.test"),
            ],
            None,
        ),
        (
            "§4.3.1: neither :authority nor Host",
            &[(":method", "GET"), (":scheme", "https"), (":path", "/")],
            None,
        ),
        (
            "§4.3.1: Host alone",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":path", "/"),
                ("host", "a.test"),
            ],
            Some("GET https://a.test/ host=a.test"),
        ),
        (
            "§4.3.1: an empty Host",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":path", "/"),
                ("host", ""),
            ],
            None,
        ),
        (
            "§4.3.1: an empty :authority",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", ""),
                (":path", "/"),
            ],
            None,
        ),
        (
            "§4.3.1: an empty :path",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", ""),
            ],
            None,
        ),
        (
            "§4.3.1: a :path without a slash",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", "a"),
            ],
            None,
        ),
        (
            "§4.3.1: a :path with a fragment",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", "/#a"),
            ],
            None,
        ),
        (
            "RFC 3986 §3.3: a :path with a space",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", "/a b"),
            ],
            None,
        ),
        (
            "§4.3.1: OPTIONS of the server",
            &[
                (":method", "OPTIONS"),
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", "*"),
            ],
            Some("OPTIONS https://a.test*"),
        ),
        (
            "§4.3.1: an asterisk is of OPTIONS alone",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", "*"),
            ],
            None,
        ),
        (
            "§4.3.1: userinfo",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "u@a.test"),
                (":path", "/"),
            ],
            None,
        ),
        (
            "§4.3.1: a password",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "u:p@a.test"),
                (":path", "/"),
            ],
            None,
        ),
        (
            "RFC 3986 §3.2: an authority with a slash",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", "a.test/x"),
                (":path", "/"),
            ],
            None,
        ),
        (
            "RFC 3986 §3.2: an authority without a host",
            &[
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", ":443"),
                (":path", "/"),
            ],
            None,
        ),
        (
            "RFC 9110 §9.1: an empty :method",
            &[
                (":method", ""),
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", "/"),
            ],
            None,
        ),
        (
            "RFC 9110 §9.1: a :method that is no token",
            &[
                (":method", "G T"),
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", "/"),
            ],
            None,
        ),
        (
            "RFC 3986 §3.1: a :scheme that is none",
            &[
                (":method", "GET"),
                (":scheme", "ht tp"),
                (":authority", "a.test"),
                (":path", "/"),
            ],
            None,
        ),
        (
            "§4.3.1: :scheme is not restricted",
            &[
                (":method", "GET"),
                (":scheme", "coap"),
                (":authority", "a.test"),
                (":path", "/x"),
            ],
            Some("GET coap://a.test/x"),
        ),
        (
            "§4.4: CONNECT",
            &[(":method", "CONNECT"), (":authority", "a.test:22")],
            Some("CONNECT a.test:22 (tunnel)"),
        ),
        (
            "§4.4: CONNECT without :authority",
            &[(":method", "CONNECT")],
            None,
        ),
        (
            "RFC 9110 §9.3.6: CONNECT without a port",
            &[(":method", "CONNECT"), (":authority", "a.test")],
            None,
        ),
        (
            "RFC 9110 §9.3.6: CONNECT to port 0",
            &[(":method", "CONNECT"), (":authority", "a.test:0")],
            None,
        ),
        (
            "§4.4: CONNECT with :path",
            &[
                (":method", "CONNECT"),
                (":authority", "a.test:22"),
                (":path", "/"),
            ],
            None,
        ),
        (
            "§4.4: CONNECT with :scheme",
            &[
                (":method", "CONNECT"),
                (":authority", "a.test:22"),
                (":scheme", "https"),
            ],
            None,
        ),
        ("no field at all", &[], None),
    ];
    for (name, lines, want) in cases {
        check(name, request(&[lines], &Context::default()), *want);
    }
}

#[test]
fn request_fields() {
    let cases: &[(&str, Fields, Option<&str>)] = &[
        ("§4.3: :method twice", &[(":method", "GET")], None),
        ("§4.3: :path twice", &[(":path", "/")], None),
        ("§4.3: :scheme twice", &[(":scheme", "https")], None),
        ("§4.3: :authority twice", &[(":authority", "a.test")], None),
        ("§4.3: :status in a request", &[(":status", "200")], None),
        (
            "§4.3: an undefined pseudo-header field",
            &[(":x", "1")],
            None,
        ),
        ("§4.3: one without a name", &[(":", "1")], None),
        (
            "§4.3: one after regular fields",
            &[("a", "1"), (":protocol", "x")],
            None,
        ),
        (
            "RFC 9220 §3: :protocol that was not offered",
            &[(":protocol", "websocket")],
            None,
        ),
        ("§4.2: an upper-case name", &[("Accept", "x")], None),
        ("§4.2: a name with a space", &[("a b", "x")], None),
        ("§4.2: an empty name", &[("", "x")], None),
        ("§10.3: a value with CR", &[("a", "x\ry")], None),
        ("§10.3: a value with LF", &[("a", "x\ny")], None),
        ("§10.3: a value with NUL", &[("a", "x\0y")], None),
        ("RFC 9110 §5.5: a value with DEL", &[("a", "x\u{7f}")], None),
        (
            "RFC 9110 §5.5: a value begins with a space",
            &[("a", " x")],
            None,
        ),
        (
            "RFC 9110 §5.5: a value ends with a tab",
            &[("a", "x\t")],
            None,
        ),
        (
            "RFC 9110 §5.5: space within",
            &[("a", "x \ty")],
            Some("a=x \\ty"),
        ),
        ("RFC 9110 §5.5: an empty value", &[("a", "")], Some("a=")),
        (
            "RFC 9110 §5.5: obs-text",
            &[("a", "\u{e9}")],
            Some("a=\\xe9"),
        ),
        ("§4.2: Connection", &[("connection", "close")], None),
        ("§4.2: Keep-Alive", &[("keep-alive", "timeout=5")], None),
        (
            "§4.2: Proxy-Connection",
            &[("proxy-connection", "close")],
            None,
        ),
        (
            "§4.2: Transfer-Encoding",
            &[("transfer-encoding", "chunked")],
            None,
        ),
        ("§4.2: Upgrade", &[("upgrade", "websocket")], None),
        (
            "§4.2: TE: trailers",
            &[("te", "trailers")],
            Some("te=trailers"),
        ),
        ("§4.2: TE: gzip", &[("te", "gzip")], None),
        (
            "§4.2: TE: trailers and gzip",
            &[("te", "trailers, gzip")],
            None,
        ),
        (
            "§4.3.1: the same Host",
            &[("host", "a.test")],
            Some("host=a.test"),
        ),
        ("§4.3.1: another Host", &[("host", "b.test")], None),
        ("§4.3.1: another port", &[("host", "a.test:8443")], None),
        (
            "RFC 9112 §3.2: Host twice",
            &[("host", "a.test"), ("host", "a.test")],
            None,
        ),
        (
            "RFC 9110 §8.6: Content-Length",
            &[("content-length", "3")],
            Some("content-length=3 (3)"),
        ),
        (
            "RFC 9110 §8.6: zero",
            &[("content-length", "0")],
            Some("content-length=0 (0)"),
        ),
        (
            "RFC 9110 §8.6: two",
            &[("content-length", "3"), ("content-length", "5")],
            None,
        ),
        (
            "RFC 9110 §8.6: two equal ones",
            &[("content-length", "3"), ("content-length", "3")],
            None,
        ),
        ("RFC 9110 §8.6: a list", &[("content-length", "3, 3")], None),
        ("RFC 9110 §8.6: a sign", &[("content-length", "+3")], None),
        (
            "RFC 9110 §8.6: below zero",
            &[("content-length", "-3")],
            None,
        ),
        ("RFC 9110 §8.6: letters", &[("content-length", "abc")], None),
        ("RFC 9110 §8.6: nothing", &[("content-length", "")], None),
        (
            "RFC 9110 §8.6: beyond 64 bits",
            &[("content-length", "18446744073709551616")],
            None,
        ),
        (
            "§4.2.1: cookies are joined",
            &[("cookie", "a=1"), ("b", "2"), ("cookie", "c=3")],
            Some("b=2 cookie=a=1; c=3"),
        ),
        (
            "§4.2.1: a cookie alone",
            &[("cookie", "a=1")],
            Some("cookie=a=1"),
        ),
        (
            "§10.3: a crumb with LF",
            &[("cookie", "a=1"), ("cookie", "\nb")],
            None,
        ),
    ];
    for (name, extra, want) in cases {
        let want = want.map(|want| format!("GET https://a.test/ {want}"));
        check(
            name,
            request(&[GET, extra], &Context::default()),
            want.as_deref(),
        );
    }
}

#[test]
fn extended_connect() {
    const WEBSOCKET: Fields = &[
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "a.test"),
        (":path", "/chat"),
    ];
    let cases: &[(&str, Fields, Option<&str>)] = &[
        (
            "RFC 8441 §5: WebSocket",
            WEBSOCKET,
            Some("CONNECT https://a.test/chat websocket (tunnel)"),
        ),
        (
            "RFC 8441 §4: :scheme and :path are needed",
            &[
                (":method", "CONNECT"),
                (":protocol", "websocket"),
                (":authority", "a.test:443"),
            ],
            None,
        ),
        (
            "RFC 8441 §4: of CONNECT alone",
            &[
                (":method", "GET"),
                (":protocol", "websocket"),
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", "/"),
            ],
            None,
        ),
        (
            "RFC 8441 §4: no token",
            &[
                (":method", "CONNECT"),
                (":protocol", "a b"),
                (":scheme", "https"),
                (":authority", "a.test"),
                (":path", "/"),
            ],
            None,
        ),
    ];
    let context = Context {
        connect_protocol: true,
        ..Context::default()
    };
    for (name, lines, want) in cases {
        check(name, request(&[lines], &context), *want);
    }
}

#[test]
fn responses() {
    // (name, the request's method, fields, status and content)
    let cases: &[(&str, Method, Fields, Option<(u16, Content)>)] = &[
        (
            "§4.3.2: a status",
            Method::GET,
            &[(":status", "200")],
            Some((200, Content::Open)),
        ),
        ("§4.3.2: no status", Method::GET, &[("a", "b")], None),
        (
            "§4.3.2: two digits",
            Method::GET,
            &[(":status", "20")],
            None,
        ),
        (
            "§4.3.2: four digits",
            Method::GET,
            &[(":status", "2000")],
            None,
        ),
        ("§4.3.2: a sign", Method::GET, &[(":status", "+20")], None),
        (
            "§4.3.2: below 100",
            Method::GET,
            &[(":status", "099")],
            None,
        ),
        (
            "§4.3: twice",
            Method::GET,
            &[(":status", "200"), (":status", "200")],
            None,
        ),
        (
            "§4.3: a request's field",
            Method::GET,
            &[(":status", "200"), (":path", "/")],
            None,
        ),
        (
            "§4.3: after regular fields",
            Method::GET,
            &[("a", "b"), (":status", "200")],
            None,
        ),
        ("§4.5: 101", Method::GET, &[(":status", "101")], None),
        (
            "§4.1: interim",
            Method::GET,
            &[(":status", "103"), ("link", "</a>")],
            Some((103, Content::None)),
        ),
        (
            "§4.2: Connection",
            Method::GET,
            &[(":status", "200"), ("connection", "close")],
            None,
        ),
        (
            "§4.1.2: Content-Length",
            Method::GET,
            &[(":status", "200"), ("content-length", "5")],
            Some((200, Content::Length(5))),
        ),
        (
            "RFC 9110 §8.6: a sign",
            Method::GET,
            &[(":status", "200"), ("content-length", "+5")],
            None,
        ),
        (
            "RFC 9110 §9.3.2: HEAD",
            Method::HEAD,
            &[(":status", "200"), ("content-length", "5")],
            Some((200, Content::None)),
        ),
        (
            "RFC 9110 §15.3.5: 204",
            Method::GET,
            &[(":status", "204")],
            Some((204, Content::None)),
        ),
        (
            "RFC 9110 §15.4.5: 304",
            Method::GET,
            &[(":status", "304"), ("content-length", "5")],
            Some((304, Content::None)),
        ),
        (
            "§4.4: CONNECT",
            Method::CONNECT,
            &[(":status", "200")],
            Some((200, Content::Tunnel)),
        ),
        (
            "RFC 9110 §9.3.6: CONNECT refused",
            Method::CONNECT,
            &[(":status", "502"), ("content-length", "5")],
            Some((502, Content::Length(5))),
        ),
    ];
    for (name, method, lines, want) in cases {
        let context = Context {
            method: Some(method.clone()),
            ..Context::default()
        };
        let got = head::<response::Parts>(fields(&[lines]), &context);
        let got = got.map(|(head, content)| (head.status.as_u16(), content));
        assert_eq!(got.as_ref().ok(), want.as_ref(), "{name}");
        if let Err(error) = got {
            assert_eq!(error.code(), Code::MessageError, "{name}");
        }
    }
}

#[test]
fn trailer_sections() {
    let cases: &[(&str, Fields, bool)] = &[
        ("§4.1: fields", &[("a", "b"), ("c", "d")], true),
        ("§4.1: none", &[], true),
        ("§4.3: a pseudo-header field", &[(":path", "/")], false),
        ("§4.3: a status", &[(":status", "200")], false),
        (
            "§4.2: a connection-specific field",
            &[("connection", "close")],
            false,
        ),
        ("§4.2: an upper-case name", &[("A", "b")], false),
    ];
    for (name, lines, valid) in cases {
        let got = trailer_section(fields(&[lines]));
        assert_eq!(got.is_ok(), *valid, "{name}: {got:?}");
    }
}

#[test]
fn priorities_of_requests() {
    let of = |urgency, incremental| Priority {
        urgency,
        incremental,
    };
    // (name, fields, the priority by PRIORITY_UPDATE, the priority that counts)
    let cases: &[(&str, Fields, Option<Priority>, Priority)] = &[
        ("RFC 9218 §4: nothing", &[], None, of(3, false)),
        (
            "RFC 9218 §5: the field",
            &[("priority", "u=1, i")],
            None,
            of(1, true),
        ),
        (
            "RFC 9651 §4.2: two of it",
            &[("priority", "u=1"), ("priority", "i")],
            None,
            of(1, true),
        ),
        (
            "RFC 9218 §7: an update came first",
            &[("priority", "u=1, i")],
            Some(of(6, false)),
            of(6, false),
        ),
    ];
    for (name, extra, priority, want) in cases {
        let context = Context {
            priority: *priority,
            ..Context::default()
        };
        let head = head::<RequestHead>(fields(&[GET, extra]), &context);
        assert_eq!(head.expect(name).0.priority, *want, "{name}");
    }
}

fn text(section: &Encoded<'_>) -> Vec<String> {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let lines = section.fields();
    lines
        .map(|line| format!("{}={}", text(line.name), text(line.value)))
        .collect()
}

#[test]
fn encodes_requests() {
    let cases: &[(&str, Request<()>, &[&str])] = &[
        (
            "§4.3.1: Host is :authority, connection-specific fields are left out",
            Request::get("https://a.test/x?y")
                .header("host", "a.test")
                .header("connection", "te")
                .header("te", "gzip")
                .header("accept", "*/*")
                .body(())
                .unwrap(),
            &[
                ":method=GET",
                ":scheme=https",
                ":authority=a.test",
                ":path=/x?y",
                "accept=*/*",
            ],
        ),
        (
            "§4.3.1: an empty path",
            Request::get("https://a.test").body(()).unwrap(),
            &[
                ":method=GET",
                ":scheme=https",
                ":authority=a.test",
                ":path=/",
            ],
        ),
        (
            "§4.2: TE: trailers stays",
            Request::get("https://a.test/")
                .header("te", "trailers")
                .body(())
                .unwrap(),
            &[
                ":method=GET",
                ":scheme=https",
                ":authority=a.test",
                ":path=/",
                "te=trailers",
            ],
        ),
        (
            "§4.4: CONNECT",
            Request::connect("a.test:22").body(()).unwrap(),
            &[":method=CONNECT", ":authority=a.test:22"],
        ),
    ];
    for (name, request, want) in cases {
        let head = RequestHead::from(request.clone().into_parts().0);
        let section = encode::request(&head);
        let lines = text(&section);
        assert_eq!(lines, *want, "{name}");
        let size = lines.iter().map(|line| line.len() as u64 - 1 + 32);
        assert_eq!(section.size(), size.sum::<u64>(), "{name}");
    }
}
