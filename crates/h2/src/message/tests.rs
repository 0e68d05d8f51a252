//! Translation of header sections, beside the rules that `http-common` has.

use hikyaku_http_common::message::Class;

use super::*;
use crate::error::{Code, Violation};
use crate::section::Section;

type Lines = &'static [(&'static str, &'static str)];

const GET: Lines = &[
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "a.test"),
    (":path", "/x?y"),
];

fn section(parts: &[&[(&str, &str)]]) -> Section {
    let mut section = Section::default();
    for (name, value) in parts.iter().copied().flatten() {
        let start = section.position();
        section.buffer().extend_from_slice(name.as_bytes());
        section.buffer().extend_from_slice(value.as_bytes());
        let class = Class::of(name.as_bytes(), value.as_bytes());
        section.push(start, name.len(), class, false);
    }
    section
}

fn request(parts: &[&[(&str, &str)]]) -> Result<String, Violation> {
    let mut section = section(parts);
    let parsed = parse(&mut section, true)?;
    let head = RequestHead::new(&section, &parsed, parsed.priority(&section));
    let http = head.to_parts().expect("a request that `http` has");
    let fields = head.fields().to_headers().expect("few fields");
    assert_eq!(http.headers, fields);
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

#[test]
fn requests_as_the_caller_sees_them() {
    let cases: &[(&str, &[Lines], &str)] = &[
        ("all", &[GET], "GET https://a.test/x?y"),
        (
            "§8.3.1: Host instead of :authority",
            &[&GET[..2], &GET[3..], &[("host", "a.test")]],
            "GET https://a.test/x?y host=a.test",
        ),
        (
            "§8.3.1: OPTIONS *",
            &[&[(":method", "OPTIONS"), (":path", "*")], &GET[1..3]],
            "OPTIONS https://a.test*",
        ),
        (
            "§8.5: CONNECT",
            &[&[(":method", "CONNECT"), (":authority", "a.test:443")]],
            "CONNECT a.test:443",
        ),
        (
            "RFC 8441 §4: extended CONNECT",
            &[
                &[(":method", "CONNECT"), (":protocol", "websocket")],
                &GET[1..],
            ],
            "CONNECT https://a.test/x?y websocket",
        ),
        (
            "RFC 9110 §8.6: Content-Length",
            &[GET, &[("content-length", "3")]],
            "GET https://a.test/x?y content-length=3 (3)",
        ),
        (
            "§8.2.3: crumbs are joined by 0x3b, 0x20",
            &[GET, &[("cookie", "a=1"), ("b", "2"), ("cookie", "c=3")]],
            "GET https://a.test/x?y b=2 cookie=a=1; c=3",
        ),
        (
            "§8.2.3: a cookie alone",
            &[GET, &[("cookie", "a=1"), ("b", "2")]],
            "GET https://a.test/x?y cookie=a=1 b=2",
        ),
    ];
    for (name, lines, want) in cases {
        assert_eq!(request(lines).as_deref(), Ok(*want), "{name}");
    }
}

#[test]
fn malformed_messages_are_errors_of_their_streams() {
    let upper = &[("A", "1")][..];
    let error = request(&[GET, upper]).unwrap_err();
    assert!(matches!(error, Violation::Stream(error) if error.code == Code::PROTOCOL_ERROR));
    let cases: &[(&str, Lines, bool)] = &[
        ("fields", &[("a", "1")], true),
        ("§8.1: pseudo-header fields", &[(":path", "/")], false),
        ("§8.2.1: an upper-case name", &[("A", "1")], false),
    ];
    for (name, lines, valid) in cases {
        let got = parse_trailers(&section(&[lines]));
        assert_eq!(got.is_ok(), *valid, "{name}");
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
