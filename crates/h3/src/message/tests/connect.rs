//! CONNECT, also extended (RFC 9220).

use super::*;

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
