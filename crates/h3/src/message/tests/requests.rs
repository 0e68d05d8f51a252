//! Requests and their priorities.

use super::*;

#[test]
fn requests_as_the_caller_sees_them() {
    const CONNECT: (&str, &str) = (":method", "CONNECT");
    let cases: &[(&str, &[Fields], &str)] = &[
        ("§4.3.1: a GET", &[GET], "GET https://a.test/"),
        (
            "§4.3.1: Host alone",
            &[&GET[..2], &GET[3..], &[("host", "a.test")]],
            "GET https://a.test/ host=a.test",
        ),
        (
            "§4.3.1: OPTIONS of the server",
            &[&[(":method", "OPTIONS"), (":path", "*")], &GET[1..3]],
            "OPTIONS https://a.test*",
        ),
        (
            "§4.3.1: :scheme is not restricted",
            &[&[(":method", "GET"), (":scheme", "coap")], &GET[2..]],
            "GET coap://a.test/",
        ),
        (
            "§4.4: CONNECT",
            &[&[CONNECT, (":authority", "a.test:22")]],
            "CONNECT a.test:22 (tunnel)",
        ),
        (
            "RFC 8441 §5: WebSocket",
            &[&[CONNECT, (":protocol", "websocket")], &GET[1..]],
            "CONNECT https://a.test/ websocket (tunnel)",
        ),
        (
            "RFC 9110 §8.6: Content-Length",
            &[GET, &[("content-length", "3")]],
            "GET https://a.test/ content-length=3 (3)",
        ),
        (
            "§4.2.1: cookies are joined",
            &[GET, &[("cookie", "a=1"), ("b", "2"), ("cookie", "c=3")]],
            "GET https://a.test/ b=2 cookie=a=1; c=3",
        ),
        (
            "§4.2.1: a cookie alone",
            &[GET, &[("cookie", "a=1")]],
            "GET https://a.test/ cookie=a=1",
        ),
    ];
    let context = Context {
        connect_protocol: true,
        ..Context::default()
    };
    for (name, parts, want) in cases {
        assert_eq!(request(parts, &context).as_deref(), Ok(*want), "{name}");
    }
}

#[test]
fn malformed_messages_are_errors_of_their_streams() {
    let upper = &[("A", "1")][..];
    let error = request(&[GET, upper], &Context::default()).unwrap_err();
    assert_eq!(error.code(), Code::MessageError);
    assert!(!error.is_of_connection());
    let pseudo = trailer_section(&fields(&[GET])).unwrap_err();
    assert_eq!(pseudo.code(), Code::MessageError);
    assert!(trailer_section(&fields(&[&[("a", "b")]])).is_ok());
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
        let head = head::<RequestHead>(&fields(&[GET, extra]), &context);
        assert_eq!(head.expect(name).0.priority, *want, "{name}");
    }
}
