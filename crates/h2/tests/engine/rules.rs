//! Requests and states of streams, by the sentences of RFC 9113. Many cases are those of h2spec.

use hikyaku_h2::connection::Config;

use crate::wire::{
    END_HEADERS, END_STREAM, GET, PADDED, POST, PRIORITY, Server, WHOLE, block, data, frame,
    headers, opening, reset, window,
};

pub(crate) const PROTOCOL: &str = "error PROTOCOL_ERROR";
pub(crate) const SIZE: &str = "error FRAME_SIZE_ERROR";
pub(crate) const FLOW: &str = "error FLOW_CONTROL_ERROR";

/// Name, frames after the opening, events, frames of the server.
pub(crate) type Case = (&'static str, Vec<Vec<u8>>, &'static str, &'static str);

pub(crate) fn check(cases: Vec<Case>) {
    for (name, frames, events, sent) in cases {
        let mut server = Server::new(Config {
            connect_protocol: true,
            ..Config::default()
        });
        let frames = frames.concat();
        assert_eq!(server.receive(&frames), events, "{name}");
        let got = server.sent();
        if let Some(code) = events
            .rsplit(", ")
            .next()
            .and_then(|it| it.strip_prefix("error "))
        {
            assert!(
                got.ends_with(code) && got.contains("GOAWAY"),
                "{name}: {got}"
            );
            assert_eq!(
                server.receive(&frames),
                "",
                "{name}: nothing after an error"
            );
            assert!(server.connection.is_finished(), "{name}");
        } else {
            assert_eq!(got, sent, "{name}");
        }
        // Cuts make no difference.
        let mut server = Server::new(Config {
            connect_protocol: true,
            ..Config::default()
        });
        assert_eq!(
            server.receive_in(&frames, 1),
            events,
            "{name}: byte by byte"
        );
    }
}

#[test]
fn the_opening() {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let cases: &[(&str, Vec<u8>, &str)] = &[
        ("§3.4: the preface and SETTINGS", opening(&[]), ""),
        (
            "§3.4: another preface",
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            PROTOCOL,
        ),
        (
            "§3.4: no SETTINGS",
            [&preface[..], &headers(1, WHOLE, GET)].concat(),
            PROTOCOL,
        ),
        (
            "§3.4: an acknowledgement first",
            [&preface[..], &frame(4, 1, 0, &[])].concat(),
            PROTOCOL,
        ),
    ];
    for (name, bytes, want) in cases {
        for size in [1, 10, 1_000] {
            let mut server = Server::fresh(Config::default());
            assert_eq!(server.receive_in(bytes, size), *want, "{name}");
        }
    }
    let mut server = Server::fresh(Config::default());
    assert_eq!(server.sent(), "SETTINGS", "§3.4: the server's preface");
    let mut server = Server::fresh(Config {
        connection_window: 100_000,
        ..Config::default()
    });
    assert_eq!(server.sent(), "SETTINGS, WINDOW_UPDATE 0: 34465");
    server.receive(&opening(&[]));
    assert_eq!(server.sent(), "SETTINGS ack", "§6.5.3");
}

#[test]
fn requests() {
    let padded = |length: u8, rest: &[u8]| [&[length], rest].concat();
    let prioritized = |on: u32| [&on.to_be_bytes()[..], &[16], &block(GET)].concat();
    let halves = block(GET);
    let (first, second) = halves.split_at(9);
    let cookie = [GET, &[("connection", "close")]].concat();
    let three = [POST, &[("content-length", "3")]].concat();
    check(vec![
        ("§8.1: GET", vec![headers(1, WHOLE, GET)], "GET 1 end", ""),
        (
            "§8.1: POST",
            vec![headers(1, 4, POST), data(1, 1, 5)],
            "POST 1, data 1: 5 end",
            "",
        ),
        (
            "§8.1: an empty end",
            vec![headers(1, 4, POST), data(1, 1, 0)],
            "POST 1, data 1: 0 end",
            "",
        ),
        (
            "§8.1: trailers",
            vec![
                headers(1, 4, POST),
                data(1, 0, 5),
                headers(1, WHOLE, &[("a", "b")]),
            ],
            "POST 1, data 1: 5, trailers 1: 1",
            "",
        ),
        (
            "§8.1: a second header section",
            vec![headers(1, 4, POST), headers(1, 4, &[("a", "b")])],
            "POST 1, fault 1 PROTOCOL_ERROR",
            "RST_STREAM 1 PROTOCOL_ERROR",
        ),
        (
            "§8.1: trailers with a pseudo-header field",
            vec![headers(1, 4, POST), headers(1, WHOLE, &[(":path", "/")])],
            "POST 1, fault 1 PROTOCOL_ERROR",
            "RST_STREAM 1 PROTOCOL_ERROR",
        ),
        (
            "§8.2.2",
            vec![headers(1, WHOLE, &cookie)],
            "",
            "RST_STREAM 1 PROTOCOL_ERROR",
        ),
        (
            "§8.1.1: Content-Length equals the sum",
            vec![headers(1, 4, &three), data(1, 0, 1), data(1, 1, 2)],
            "POST 1, data 1: 3 end",
            "",
        ),
        (
            "§8.1.1: less than it",
            vec![headers(1, 4, &three), data(1, 1, 2)],
            "POST 1, fault 1 PROTOCOL_ERROR",
            "RST_STREAM 1 PROTOCOL_ERROR",
        ),
        (
            "§8.1.1: more than it",
            vec![headers(1, 4, &three), data(1, 0, 4)],
            "POST 1, fault 1 PROTOCOL_ERROR",
            "RST_STREAM 1 PROTOCOL_ERROR",
        ),
        (
            "§8.1.1: nothing",
            vec![headers(1, WHOLE, &three)],
            "",
            "RST_STREAM 1 PROTOCOL_ERROR",
        ),
        (
            "§8.5: HEADERS in a tunnel",
            vec![
                headers(
                    1,
                    4,
                    &[(":method", "CONNECT"), (":authority", "a.test:443")],
                ),
                data(1, 0, 3),
                headers(1, WHOLE, &[("a", "b")]),
            ],
            "CONNECT 1, data 1: 3, fault 1 PROTOCOL_ERROR",
            "RST_STREAM 1 PROTOCOL_ERROR",
        ),
        (
            "§6.2: padding",
            vec![frame(
                1,
                WHOLE | PADDED,
                1,
                &[padded(3, &block(GET)), vec![0; 3]].concat(),
            )],
            "GET 1 end",
            "",
        ),
        (
            "§6.2: too much of it",
            vec![frame(1, WHOLE | PADDED, 1, &padded(4, &[0; 3]))],
            PROTOCOL,
            "",
        ),
        (
            "§6.2: no pad length",
            vec![frame(1, WHOLE | PADDED, 1, &[])],
            SIZE,
            "",
        ),
        (
            "§6.2: a priority",
            vec![frame(1, WHOLE | PRIORITY, 1, &prioritized(3))],
            "GET 1 end",
            "",
        ),
        (
            "§6.2: half a priority",
            vec![frame(1, WHOLE | PRIORITY, 1, &[0; 4])],
            SIZE,
            "",
        ),
        (
            "RFC 7540 §5.3.1: a stream cannot depend on itself",
            vec![frame(1, WHOLE | PRIORITY, 1, &prioritized(1))],
            "",
            "RST_STREAM 1 PROTOCOL_ERROR",
        ),
        (
            "§6.10: CONTINUATION",
            vec![
                frame(1, END_STREAM, 1, first),
                frame(9, 0, 1, &[]),
                frame(9, 4, 1, second),
            ],
            "GET 1 end",
            "",
        ),
        (
            "§6.10: another frame",
            vec![frame(1, 1, 1, first), data(1, 0, 1)],
            PROTOCOL,
            "",
        ),
        (
            "§6.10: another stream",
            vec![frame(1, 1, 1, first), frame(9, 4, 3, second)],
            PROTOCOL,
            "",
        ),
        (
            "§6.10: an unknown type",
            vec![frame(1, 1, 1, first), frame(99, 0, 1, &[])],
            PROTOCOL,
            "",
        ),
        (
            "§6.10: after END_HEADERS",
            vec![headers(1, WHOLE, GET), frame(9, 4, 1, &[])],
            "GET 1 end, error PROTOCOL_ERROR",
            "",
        ),
        (
            "§6.10: without HEADERS",
            vec![frame(9, 4, 1, &[])],
            PROTOCOL,
            "",
        ),
        (
            "§4.3: a block that cannot be decoded",
            vec![frame(1, WHOLE, 1, &[0xff])],
            "error COMPRESSION_ERROR",
            "",
        ),
        (
            "§6.2: HEADERS on stream 0",
            vec![headers(0, WHOLE, GET)],
            PROTOCOL,
            "",
        ),
        (
            "§5.1.1: an even identifier",
            vec![headers(2, WHOLE, GET)],
            PROTOCOL,
            "",
        ),
        (
            "§5.1.1: a smaller one",
            vec![headers(5, WHOLE, GET), headers(3, WHOLE, GET)],
            "GET 5 end, error PROTOCOL_ERROR",
            "",
        ),
    ]);
}

#[test]
fn states_of_streams() {
    let open = headers(1, END_HEADERS, POST);
    let ended = headers(1, WHOLE, GET);
    let closed = [ended.clone(), reset(1)].concat();
    check(vec![
        ("§5.1 idle: DATA", vec![data(1, 1, 1)], PROTOCOL, ""),
        ("§5.1 idle: RST_STREAM", vec![reset(1)], PROTOCOL, ""),
        ("§5.1 idle: WINDOW_UPDATE", vec![window(1, 1)], PROTOCOL, ""),
        (
            "§5.1 idle: PRIORITY",
            vec![frame(2, 0, 1, &[0, 0, 0, 3, 1])],
            "",
            "",
        ),
        (
            "§5.1 half-closed (remote): DATA",
            vec![ended.clone(), data(1, 1, 1)],
            "GET 1 end, fault 1 STREAM_CLOSED",
            "RST_STREAM 1 STREAM_CLOSED",
        ),
        (
            "§5.1 half-closed (remote): HEADERS",
            vec![ended.clone(), headers(1, WHOLE, GET)],
            "GET 1 end, fault 1 STREAM_CLOSED",
            "RST_STREAM 1 STREAM_CLOSED",
        ),
        (
            "§5.1 half-closed (remote): WINDOW_UPDATE",
            vec![ended, window(1, 9)],
            "GET 1 end",
            "",
        ),
        (
            "§5.1 closed by RST_STREAM: DATA",
            vec![closed.clone(), data(1, 1, 1)],
            "GET 1 end, reset 1 CANCEL",
            "RST_STREAM 1 STREAM_CLOSED",
        ),
        (
            "§5.1 closed by RST_STREAM: HEADERS",
            vec![closed.clone(), headers(1, WHOLE, GET)],
            "GET 1 end, reset 1 CANCEL",
            "RST_STREAM 1 STREAM_CLOSED",
        ),
        (
            "§5.1 closed: WINDOW_UPDATE, RST_STREAM and PRIORITY",
            vec![
                closed,
                window(1, 1),
                reset(1),
                frame(2, 0, 1, &[0, 0, 0, 3, 1]),
            ],
            "GET 1 end, reset 1 CANCEL",
            "",
        ),
        (
            "§6.4: RST_STREAM",
            vec![open.clone(), reset(1)],
            "POST 1, reset 1 CANCEL",
            "",
        ),
        ("§6.4: on stream 0", vec![reset(0)], PROTOCOL, ""),
        (
            "§6.4: another size than 4",
            vec![open.clone(), frame(3, 0, 1, &[0; 3])],
            "POST 1, error FRAME_SIZE_ERROR",
            "",
        ),
        ("§6.1: DATA on stream 0", vec![data(0, 0, 1)], PROTOCOL, ""),
        (
            "§6.1: padding",
            vec![
                open.clone(),
                frame(0, PADDED | END_STREAM, 1, &[2, b'x', 0, 0]),
            ],
            "POST 1, data 1: 1 end",
            "",
        ),
        (
            "§6.1: too much of it",
            vec![open.clone(), frame(0, PADDED, 1, &[2, 0])],
            "POST 1, error PROTOCOL_ERROR",
            "",
        ),
        (
            "§6.1: no pad length",
            vec![open, frame(0, PADDED, 1, &[])],
            "POST 1, error FRAME_SIZE_ERROR",
            "",
        ),
    ]);
}
