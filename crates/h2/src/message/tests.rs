//! Header sections of requests, by the sentences of the RFCs.

use super::*;
use crate::error::{Code, Violation};
use crate::field::Class;
use crate::section::Section;

type Lines = &'static [(&'static str, &'static str)];

const GET: Lines = &[
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "a.test"),
    (":path", "/"),
];
const CONNECT: Lines = &[(":method", "CONNECT"), (":authority", "a.test:443")];

fn section(parts: &[&[(&str, &str)]]) -> Section {
    let mut section = Section::default();
    for (name, value) in parts.iter().copied().flatten() {
        let start = section.position();
        // "\u{e9}" and other such characters stand for a single byte.
        let value: Vec<u8> = value.chars().map(|char| char as u8).collect();
        section.buffer().extend_from_slice(name.as_bytes());
        section.buffer().extend_from_slice(&value);
        section.push(start, name.len(), Class::of(name.as_bytes(), &value), false);
    }
    section
}

fn request(parts: &[&[(&str, &str)]], connect_protocol: bool) -> Result<String, Violation> {
    let mut section = section(parts);
    let parsed = parse(&mut section, connect_protocol)?;
    let head = RequestHead::new(&section, &parsed, parsed.priority(&section));
    let http = head.to_parts().expect("a request that `http` has");
    assert_eq!(http.headers, head.fields().to_headers());
    let mut text = format!("{} {}", http.method, http.uri);
    if let Some(protocol) = head.protocol() {
        text = format!("{text} {protocol}");
    }
    for field in head.fields() {
        let name = field.name.escape_ascii();
        text = format!("{text} {name}={}", field.value.escape_ascii());
    }
    if let Some(length) = head.content_length() {
        text = format!("{text} ({length})");
    }
    Ok(text)
}

fn check(name: &str, got: Result<String, Violation>, want: Option<&str>) {
    match (got, want) {
        (Ok(got), Some(want)) => assert_eq!(got, want, "{name}"),
        (Err(Violation::Stream(error)), None) => {
            assert_eq!(error.code, Code::PROTOCOL_ERROR, "{name}");
        }
        (got, _) => panic!("{name}: {got:?}"),
    }
}

#[test]
fn fields_of_requests() {
    let cases: &[(&str, Lines, Option<&str>)] = &[
        (
            "§8.3: the same field name twice",
            &[(":method", "GET")],
            None,
        ),
        ("§8.3: :path twice", &[(":path", "/")], None),
        (
            "§8.3: a response's pseudo-header field",
            &[(":status", "200")],
            None,
        ),
        ("§8.3: an undefined one", &[(":x", "1")], None),
        (
            "§8.3: one after regular fields",
            &[("a", "1"), (":protocol", "x")],
            None,
        ),
        (
            "RFC 8441 §3: :protocol that was not offered",
            &[(":protocol", "x")],
            None,
        ),
        (
            "§8.2.1: characters in the range 0x41-0x5a",
            &[("Accept", "x")],
            None,
        ),
        ("§8.2.1: a space in a name", &[("a b", "x")], None),
        ("§8.2.1: a colon in a name", &[("a:", "x")], None),
        ("§8.2.1: an empty name", &[("", "x")], None),
        ("§8.2.1: NUL", &[("a", "x\0y")], None),
        ("§8.2.1: LF", &[("a", "x\ny")], None),
        ("§8.2.1: CR", &[("a", "x\ry")], None),
        ("§8.2.1: space before", &[("a", " x")], None),
        ("§8.2.1: tab after", &[("a", "x\t")], None),
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
        ("§8.2.2: Connection", &[("connection", "close")], None),
        ("§8.2.2: Keep-Alive", &[("keep-alive", "timeout=5")], None),
        (
            "§8.2.2: Proxy-Connection",
            &[("proxy-connection", "close")],
            None,
        ),
        (
            "§8.2.2: Transfer-Encoding",
            &[("transfer-encoding", "chunked")],
            None,
        ),
        ("§8.2.2: Upgrade", &[("upgrade", "websocket")], None),
        (
            "§8.2.2: TE: trailers",
            &[("te", "trailers")],
            Some("te=trailers"),
        ),
        ("§8.2.2: another TE", &[("te", "gzip")], None),
        (
            "§8.3.1: the same Host",
            &[("host", "A.test")],
            Some("host=A.test"),
        ),
        ("§8.3.1: another Host", &[("host", "b.test")], None),
        (
            "RFC 9112 §3.2: two Hosts",
            &[("host", "a.test"), ("host", "a.test")],
            None,
        ),
        (
            "§8.1.1: Content-Length",
            &[("content-length", "3")],
            Some("content-length=3 (3)"),
        ),
        (
            "RFC 9110 §8.6: two",
            &[("content-length", "3"), ("content-length", "3")],
            None,
        ),
        ("RFC 9110 §8.6: a list", &[("content-length", "3, 3")], None),
        ("RFC 9110 §8.6: a sign", &[("content-length", "+3")], None),
        ("RFC 9110 §8.6: nothing", &[("content-length", "")], None),
        (
            "RFC 9110 §8.6: beyond 64 bits",
            &[("content-length", "18446744073709551616")],
            None,
        ),
        (
            "§8.2.3: crumbs are joined by 0x3b, 0x20",
            &[("cookie", "a=1"), ("b", "2"), ("cookie", "c=3")],
            Some("b=2 cookie=a=1; c=3"),
        ),
        (
            "§8.2.3: a cookie alone",
            &[("cookie", "a=1"), ("b", "2")],
            Some("cookie=a=1 b=2"),
        ),
        (
            "§8.2.1: a crumb with LF",
            &[("cookie", "a=1"), ("cookie", "x\nb")],
            None,
        ),
    ];
    for (name, extra, want) in cases {
        let want = want.map(|want| format!("GET https://a.test/ {want}"));
        let want = want.map(|want| {
            want.strip_suffix(" (3)")
                .map_or(want.clone(), |it| format!("{it} (3)"))
        });
        check(name, request(&[GET, extra], false), want.as_deref());
    }
}

#[test]
fn targets_of_requests() {
    const METHOD: (&str, &str) = (":method", "GET");
    const HTTPS: (&str, &str) = (":scheme", "https");
    const AUTHORITY: (&str, &str) = (":authority", "a.test");
    const PATH: (&str, &str) = (":path", "/x?y");
    let cases: &[(&str, Lines, Option<&str>)] = &[
        (
            "all",
            &[METHOD, HTTPS, AUTHORITY, PATH],
            Some("GET https://a.test/x?y"),
        ),
        (
            "in another order",
            &[PATH, AUTHORITY, HTTPS, METHOD],
            Some("GET https://a.test/x?y"),
        ),
        (
            "§8.3.1: exactly one :method",
            &[HTTPS, AUTHORITY, PATH],
            None,
        ),
        (
            "§8.3.1: exactly one :scheme",
            &[METHOD, AUTHORITY, PATH],
            None,
        ),
        (
            "§8.3.1: exactly one :path",
            &[METHOD, HTTPS, AUTHORITY],
            None,
        ),
        (
            "§8.3.1: an empty :path",
            &[METHOD, HTTPS, AUTHORITY, (":path", "")],
            None,
        ),
        (
            "§8.3.1: a :path without a slash",
            &[METHOD, HTTPS, AUTHORITY, (":path", "x")],
            None,
        ),
        (
            "a fragment",
            &[METHOD, HTTPS, AUTHORITY, (":path", "/#x")],
            None,
        ),
        (
            "§8.3.1: userinfo",
            &[METHOD, HTTPS, (":authority", "u@a.test"), PATH],
            None,
        ),
        (
            "an empty authority",
            &[METHOD, HTTPS, (":authority", ""), PATH],
            None,
        ),
        ("neither :authority nor Host", &[METHOD, HTTPS, PATH], None),
        (
            "§8.3.1: Host instead of :authority",
            &[METHOD, HTTPS, PATH, ("host", "a.test")],
            Some("GET https://a.test/x?y host=a.test"),
        ),
        (
            "no token as :method",
            &[(":method", "G T"), HTTPS, AUTHORITY, PATH],
            None,
        ),
        (
            "an empty :method",
            &[(":method", ""), HTTPS, AUTHORITY, PATH],
            None,
        ),
        (
            "another :scheme",
            &[METHOD, (":scheme", "ftp"), AUTHORITY, PATH],
            Some("GET ftp://a.test/x?y"),
        ),
        (
            "no :scheme at all",
            &[METHOD, (":scheme", "1"), AUTHORITY, PATH],
            None,
        ),
        (
            "§8.3.1: OPTIONS *",
            &[(":method", "OPTIONS"), HTTPS, AUTHORITY, (":path", "*")],
            Some("OPTIONS https://a.test*"),
        ),
        ("GET *", &[METHOD, HTTPS, AUTHORITY, (":path", "*")], None),
        ("§8.5: CONNECT", CONNECT, Some("CONNECT a.test:443")),
        (
            "§8.5: CONNECT with :path",
            &[(":method", "CONNECT"), (":authority", "a.test:443"), PATH],
            None,
        ),
        (
            "§8.5: CONNECT with :scheme",
            &[(":method", "CONNECT"), (":authority", "a.test:443"), HTTPS],
            None,
        ),
        (
            "§8.5: CONNECT without a port",
            &[(":method", "CONNECT"), AUTHORITY],
            None,
        ),
        (
            "§8.5: CONNECT without :authority",
            &[(":method", "CONNECT")],
            None,
        ),
        (
            "RFC 8441 §4: extended CONNECT",
            &[
                (":method", "CONNECT"),
                HTTPS,
                AUTHORITY,
                PATH,
                (":protocol", "websocket"),
            ],
            Some("CONNECT https://a.test/x?y websocket"),
        ),
        (
            "RFC 8441 §4: the :scheme and :path MUST be included",
            &[
                (":method", "CONNECT"),
                AUTHORITY,
                (":protocol", "websocket"),
            ],
            None,
        ),
        (
            "RFC 8441 §4: :protocol of another method",
            &[METHOD, HTTPS, AUTHORITY, PATH, (":protocol", "websocket")],
            None,
        ),
        (
            "RFC 8441 §4: no token",
            &[
                (":method", "CONNECT"),
                HTTPS,
                AUTHORITY,
                PATH,
                (":protocol", "a b"),
            ],
            None,
        ),
    ];
    for (name, lines, want) in cases {
        check(name, request(&[lines], true), *want);
    }
}

#[test]
fn priorities_of_requests() {
    let cases: &[(&str, Lines, u8, bool)] = &[
        ("RFC 9218 §4: nothing", &[], 3, false),
        ("RFC 9218 §5: the field", &[("priority", "u=1, i")], 1, true),
        (
            "RFC 9651 §4.2: two of it",
            &[("priority", "u=1"), ("priority", "i")],
            1,
            true,
        ),
    ];
    for (name, extra, urgency, incremental) in cases {
        let mut section = section(&[GET, extra]);
        let parsed = parse(&mut section, false).unwrap();
        let got = parsed.priority(&section);
        assert_eq!(
            (got.urgency, got.incremental),
            (*urgency, *incremental),
            "{name}"
        );
    }
}

#[test]
fn trailers_of_requests() {
    let cases: &[(&str, Lines, bool)] = &[
        ("fields", &[("a", "1")], true),
        ("nothing", &[], true),
        ("§8.1: pseudo-header fields", &[(":path", "/")], false),
        ("§8.2.2: Connection", &[("connection", "close")], false),
        ("§8.2.1: an upper-case name", &[("A", "1")], false),
    ];
    for (name, lines, valid) in cases {
        let got = parse_trailers(&section(&[lines]));
        assert_eq!(got.is_ok(), *valid, "{name}");
    }
}
