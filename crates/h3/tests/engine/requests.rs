//! Requests at a server: frames of a request stream by the sentences of the RFCs.

use hikyaku_h3::connection::{Config, Connection};

use crate::wire::{GET, data, frame, headers, read, varint};

fn post(length: &str) -> Vec<u8> {
    let mut lines = GET.to_vec();
    lines[0].1 = "POST";
    lines.push(("content-length", length));
    headers(&lines)
}

fn connect() -> Vec<u8> {
    headers(&[(":method", "CONNECT"), (":authority", "a.test:22")])
}

fn serve(stream: &[u8], size: usize, fin: bool) -> String {
    let mut connection = Connection::server(Config {
        max_field_section_size: 1_000,
        ..Config::default()
    });
    let (mut reader, _) = connection.accept(0).unwrap().unwrap();
    read(&mut reader, &mut connection, stream, size, fin)
}

#[test]
fn frames_come_in_order() {
    const UNEXPECTED: &str = "connection H3_FRAME_UNEXPECTED";
    let trailers = || headers(&[("a", "b")]);
    // (name, stream, the parts that are read of it)
    let cases: &[(&str, Vec<u8>, &str)] = &[
        ("§4.1: HEADERS alone", headers(GET), "head end"),
        (
            "§4.1: with content",
            [headers(GET), data(b"abc"), data(b"de")].concat(),
            "head data:5 end",
        ),
        (
            "§4.1: with trailers",
            [headers(GET), data(b"abc"), trailers()].concat(),
            "head data:3 trailers end",
        ),
        (
            "§4.1: trailers without content",
            [headers(GET), trailers()].concat(),
            "head trailers end",
        ),
        ("§4.1: DATA before HEADERS", data(b"abc"), UNEXPECTED),
        (
            "§4.1: HEADERS after trailers",
            [headers(GET), trailers(), trailers()].concat(),
            "head trailers connection H3_FRAME_UNEXPECTED",
        ),
        (
            "§4.1: DATA after trailers",
            [headers(GET), trailers(), data(b"abc")].concat(),
            "head trailers connection H3_FRAME_UNEXPECTED",
        ),
        (
            "§7.2.1: DATA of no bytes",
            [headers(GET), data(b""), data(b"a")].concat(),
            "head data:1 end",
        ),
        (
            "§9: unknown frames anywhere",
            [
                frame(0x21, b"x"),
                headers(GET),
                frame(0x40, b""),
                data(b"a"),
                frame(0x21, b"yz"),
                trailers(),
                frame(0x21, b""),
            ]
            .concat(),
            "head data:1 trailers end",
        ),
        (
            "§7.2.3: CANCEL_PUSH",
            [headers(GET), frame(0x03, &[0])].concat(),
            "head connection H3_FRAME_UNEXPECTED",
        ),
        ("§7.2.4: SETTINGS", frame(0x04, &[]), UNEXPECTED),
        (
            "§7.2.5: PUSH_PROMISE of a client",
            [headers(GET), frame(0x05, &[0, 0, 0])].concat(),
            "head connection H3_FRAME_UNEXPECTED",
        ),
        ("§7.2.6: GOAWAY", frame(0x07, &[0]), UNEXPECTED),
        ("§7.2.7: MAX_PUSH_ID", frame(0x0d, &[0]), UNEXPECTED),
        (
            "RFC 9218 §7.2: PRIORITY_UPDATE",
            frame(0xf0700, &[0]),
            UNEXPECTED,
        ),
        ("§7.2.8: HTTP/2's PRIORITY", frame(0x02, &[]), UNEXPECTED),
        ("§7.2.8: HTTP/2's PING", frame(0x06, &[]), UNEXPECTED),
        (
            "§7.2.8: HTTP/2's WINDOW_UPDATE",
            frame(0x08, &[]),
            UNEXPECTED,
        ),
        (
            "§7.2.8: HTTP/2's CONTINUATION",
            frame(0x09, &[]),
            UNEXPECTED,
        ),
        (
            "§4.1: an empty stream",
            vec![],
            "stream H3_REQUEST_INCOMPLETE",
        ),
        (
            "§4.1: unknown frames alone",
            frame(0x21, b"x"),
            "stream H3_REQUEST_INCOMPLETE",
        ),
        (
            "§7.1: ends within a type",
            vec![0x40],
            "connection H3_FRAME_ERROR",
        ),
        (
            "§7.1: ends before a length",
            vec![0x01],
            "connection H3_FRAME_ERROR",
        ),
        (
            "§7.1: ends within HEADERS",
            headers(GET)[..30].to_vec(),
            "connection H3_FRAME_ERROR",
        ),
        (
            "§7.1: ends within DATA",
            [headers(GET), data(b"abc")[..17].to_vec()].concat(),
            "head data:1 connection H3_FRAME_ERROR",
        ),
        (
            "§7.1: ends within an unknown frame",
            [headers(GET), frame(0x21, b"abc")[..17].to_vec()].concat(),
            "head connection H3_FRAME_ERROR",
        ),
        (
            "§4.1.2: Content-Length",
            [post("3"), data(b"a"), data(b"bc")].concat(),
            "head data:3 end",
        ),
        (
            "§4.1.2: less content",
            [post("3"), data(b"ab")].concat(),
            "head data:2 stream H3_MESSAGE_ERROR",
        ),
        ("§4.1.2: none", post("3"), "head stream H3_MESSAGE_ERROR"),
        (
            "§4.1.2: more",
            [post("3"), data(b"ab"), data(b"cd")].concat(),
            "head data:2 stream H3_MESSAGE_ERROR",
        ),
        (
            "§4.1.2: less, before trailers",
            [post("3"), data(b"ab"), trailers()].concat(),
            "head data:2 stream H3_MESSAGE_ERROR",
        ),
        (
            "§4.1.2: a malformed request",
            headers(&[(":method", "GET")]),
            "stream H3_MESSAGE_ERROR",
        ),
        (
            "§4.3: trailers with a pseudo-header field",
            [headers(GET), headers(&[(":path", "/")])].concat(),
            "head stream H3_MESSAGE_ERROR",
        ),
        (
            "§4.4: a tunnel",
            [connect(), data(b"ab"), frame(0x21, b"x"), data(b"c")].concat(),
            "head data:3 end",
        ),
        (
            "§4.4: HEADERS on a tunnel",
            [connect(), trailers()].concat(),
            "head connection H3_FRAME_UNEXPECTED",
        ),
        (
            "RFC 9204 §4.5.1: no section prefix",
            frame(0x01, &[]),
            "connection QPACK_DECOMPRESSION_FAILED",
        ),
        (
            "RFC 9204 §2.1.2: waits for an insertion",
            frame(0x01, &[2, 0, 0x80]),
            "blocked",
        ),
    ];
    for (name, stream, want) in cases {
        for size in [stream.len().max(1), 1, 7] {
            assert_eq!(
                serve(stream, size, true),
                *want,
                "{name}, in pieces of {size}"
            );
        }
    }
}

#[test]
fn large_sections_are_reported() {
    let large = "x".repeat(900);
    let huge = "x".repeat(300 * 1024);
    let with = |name, value| headers(&[GET, &[(name, value)]].concat());
    let cases: &[(&str, Vec<u8>, &str)] = &[
        (
            "§4.2.2: each field counts 32 more",
            with("a", &large),
            "too-large",
        ),
        ("§4.2.2: 300 KiB", with("a", &huge), "too-large"),
        (
            "§4.2.2: trailers",
            [headers(GET), headers(&[("a", &huge)])].concat(),
            "head too-large",
        ),
        ("§4.2.2: within", with("a", &large[..700]), "head end"),
        (
            "§4.2.2: announced only",
            [varint(1), varint(1 << 40)].concat(),
            "too-large",
        ),
    ];
    for (name, stream, want) in cases {
        for size in [stream.len(), 1_000] {
            assert_eq!(
                serve(stream, size, true),
                *want,
                "{name}, in pieces of {size}"
            );
        }
    }
}

#[test]
fn content_is_not_copied() {
    let mut connection = Connection::server(Config::default());
    let (mut reader, _) = connection.accept(0).unwrap().unwrap();
    let stream = bytes::Bytes::from([headers(GET), data(b"abcdef")].concat());
    let content = stream.slice(stream.len() - 6..);
    reader.receive(stream.slice(..stream.len() - 2), false);
    let head = reader.poll(|| &mut connection);
    assert!(matches!(head, Ok(hikyaku_h3::stream::Read::Head(_))));
    let Ok(hikyaku_h3::stream::Read::Data(data)) =
        reader.poll(|| -> &mut Connection { panic!("the connection is not needed for content") })
    else {
        panic!("no content");
    };
    assert_eq!(data, "abcd");
    assert_eq!(data.as_ptr(), content.as_ptr(), "the same memory");
}

#[test]
fn the_end_is_known_with_the_head() {
    // (name, stream, fin, whether the end is known with the header section)
    let cases: &[(&str, Vec<u8>, bool, bool)] = &[
        ("the stream ends with it", headers(GET), true, true),
        ("the stream goes on", headers(GET), false, false),
        (
            "content follows",
            [headers(GET), data(b"a")].concat(),
            true,
            false,
        ),
    ];
    for (name, stream, fin, want) in cases {
        let mut connection = Connection::server(Config::default());
        let (mut reader, _) = connection.accept(0).unwrap().unwrap();
        reader.receive(stream.clone().into(), *fin);
        let head = reader.poll(|| &mut connection);
        assert!(
            matches!(head, Ok(hikyaku_h3::stream::Read::Head(_))),
            "{name}"
        );
        assert_eq!(reader.is_at_end(), *want, "{name}");
    }
}
