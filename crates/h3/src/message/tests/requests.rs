//! Fields of requests, and their priorities.

use super::*;

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
