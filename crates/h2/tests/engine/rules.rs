//! Frames and states of streams, by the sentences of RFC 9113. Many cases are those of h2spec.

use hikyaku_h2::connection::{Config, Shutdown};

use crate::wire::{
    END_HEADERS, END_STREAM, GET, PADDED, POST, PRIORITY, Server, WHOLE, block, data, frame,
    headers, opening, reset, settings, window,
};

const PROTOCOL: &str = "error PROTOCOL_ERROR";
const SIZE: &str = "error FRAME_SIZE_ERROR";
const FLOW: &str = "error FLOW_CONTROL_ERROR";

/// Name, frames after the opening, events, frames of the server.
type Case = (&'static str, Vec<Vec<u8>>, &'static str, &'static str);

fn check(cases: Vec<Case>) {
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

#[test]
fn frames_of_the_connection() {
    let large = vec![0; 16_385];
    check(vec![
        (
            "§6.5: SETTINGS",
            vec![settings(&[(3, 9)])],
            "",
            "SETTINGS ack",
        ),
        ("§6.5: on a stream", vec![frame(4, 0, 1, &[])], PROTOCOL, ""),
        (
            "§6.5: half a setting",
            vec![frame(4, 0, 0, &[0; 5])],
            SIZE,
            "",
        ),
        (
            "§6.5: an acknowledgement with settings",
            vec![frame(4, 1, 0, &[0; 6])],
            SIZE,
            "",
        ),
        (
            "§6.5.2: ENABLE_PUSH of 2",
            vec![settings(&[(2, 2)])],
            PROTOCOL,
            "",
        ),
        (
            "§6.5.2: a window beyond 31 bits",
            vec![settings(&[(4, 1 << 31)])],
            FLOW,
            "",
        ),
        (
            "§6.5.2: MAX_FRAME_SIZE",
            vec![settings(&[(5, 1)])],
            PROTOCOL,
            "",
        ),
        (
            "§6.7: PING",
            vec![frame(6, 0, 0, b"01234567")],
            "",
            "PING ack 01234567",
        ),
        (
            "§6.7: an answer",
            vec![frame(6, 1, 0, b"01234567")],
            "pong 01234567",
            "",
        ),
        (
            "§6.7: on a stream",
            vec![frame(6, 0, 1, &[0; 8])],
            PROTOCOL,
            "",
        ),
        (
            "§6.7: another size than 8",
            vec![frame(6, 0, 0, &[0; 6])],
            SIZE,
            "",
        ),
        (
            "§6.8: GOAWAY",
            vec![frame(7, 0, 0, &[0; 8])],
            "goaway NO_ERROR",
            "",
        ),
        (
            "§6.8: on a stream",
            vec![frame(7, 0, 1, &[0; 8])],
            PROTOCOL,
            "",
        ),
        ("§6.8: truncated", vec![frame(7, 0, 0, &[0; 7])], SIZE, ""),
        ("§6.9: WINDOW_UPDATE", vec![window(0, 1)], "", ""),
        ("§6.9: of 0", vec![window(0, 0)], PROTOCOL, ""),
        (
            "§6.9: of 0 on a stream",
            vec![headers(1, WHOLE, GET), window(1, 0)],
            "GET 1 end, fault 1 PROTOCOL_ERROR",
            "RST_STREAM 1 PROTOCOL_ERROR",
        ),
        (
            "§6.9: another size than 4",
            vec![frame(8, 0, 0, &[0; 3])],
            SIZE,
            "",
        ),
        (
            "§6.9.1: beyond 2^31-1",
            vec![window(0, 0x7fff_ffff), window(0, 1)],
            FLOW,
            "",
        ),
        (
            "§6.9.1: beyond it on a stream",
            vec![headers(1, WHOLE, GET), window(1, 0x7fff_ffff)],
            "GET 1 end, fault 1 FLOW_CONTROL_ERROR",
            "RST_STREAM 1 FLOW_CONTROL_ERROR",
        ),
        (
            "§6.9.2: beyond it by settings",
            vec![
                headers(1, WHOLE, GET),
                window(1, 0x7fff_0000),
                settings(&[(4, 0x7fff_ffff)]),
            ],
            "GET 1 end, error FLOW_CONTROL_ERROR",
            "",
        ),
        (
            "§6.3: PRIORITY on stream 0",
            vec![frame(2, 0, 0, &[0; 5])],
            PROTOCOL,
            "",
        ),
        (
            "§6.3: of another size than 5",
            vec![headers(1, WHOLE, GET), frame(2, 0, 1, &[0; 4])],
            "GET 1 end, fault 1 FRAME_SIZE_ERROR",
            "RST_STREAM 1 FRAME_SIZE_ERROR",
        ),
        (
            "RFC 7540 §5.3.1: of itself",
            vec![frame(2, 0, 1, &[0, 0, 0, 1, 9])],
            PROTOCOL,
            "",
        ),
        (
            "§8.4: a push by a client",
            vec![frame(5, 4, 1, &[0, 0, 0, 2])],
            PROTOCOL,
            "",
        ),
        (
            "§4.1: unknown types",
            vec![frame(99, 0xff, 7, b"unknown"), headers(1, WHOLE, GET)],
            "GET 1 end",
            "",
        ),
        (
            "§4.1: undefined flags",
            vec![frame(6, 0xfe, 0, b"01234567")],
            "",
            "PING ack 01234567",
        ),
        (
            "§4.2: beyond MAX_FRAME_SIZE",
            vec![frame(0, 0, 1, &large)],
            SIZE,
            "",
        ),
        (
            "RFC 9218 §7.1: PRIORITY_UPDATE",
            vec![frame(16, 0, 0, b"\0\0\0\x01u=1")],
            "",
            "",
        ),
        (
            "RFC 9218 §7.1: on a stream",
            vec![frame(16, 0, 1, b"\0\0\0\x01u=1")],
            PROTOCOL,
            "",
        ),
        (
            "RFC 9218 §7.1: of stream 0",
            vec![frame(16, 0, 0, b"\0\0\0\0u=1")],
            PROTOCOL,
            "",
        ),
        (
            "RFC 9218 §7.1: without a stream",
            vec![frame(16, 0, 0, b"\0\0\0")],
            SIZE,
            "",
        ),
        (
            "RFC 9218 §2.1: NO_RFC7540_PRIORITIES changes",
            vec![settings(&[(9, 1)])],
            PROTOCOL,
            "",
        ),
    ]);
}

#[test]
fn more_streams_than_are_allowed() {
    let mut server = Server::new(Config {
        max_streams: 2,
        ..Config::default()
    });
    let streams =
        |ids: &[u32]| -> Vec<u8> { ids.iter().flat_map(|id| headers(*id, WHOLE, GET)).collect() };
    assert_eq!(server.receive(&streams(&[1, 3, 5])), "GET 1 end, GET 3 end");
    assert_eq!(server.sent(), "RST_STREAM 5 REFUSED_STREAM", "§5.1.2");
    assert_eq!(server.receive(&reset(3)), "reset 3 CANCEL");
    assert_eq!(server.receive(&streams(&[7])), "GET 7 end");
}

#[test]
fn sections_that_are_too_large() {
    let mut server = Server::new(Config {
        max_section_size: 300,
        ..Config::default()
    });
    let value = "x".repeat(100);
    let large = [GET, &[("a", &*value)]].concat();
    assert_eq!(
        server.receive(&headers(1, WHOLE, &large)),
        "too large 1 end"
    );
    assert_eq!(
        server.receive(&headers(3, WHOLE, GET)),
        "GET 3 end",
        "the others go on"
    );
    let larger = [GET, &[("a", &*value), ("b", &*value), ("c", &*value)]].concat();
    let first = headers(5, END_STREAM, &larger);
    assert_eq!(
        server.receive(&first),
        "error ENHANCE_YOUR_CALM",
        "an endless block"
    );
}

#[test]
fn windows_of_the_client() {
    let config = Config {
        stream_window: 1_000,
        ..Config::default()
    };
    let mut server = Server::new(config.clone());
    assert_eq!(server.connection.connection_window(), 65_535);
    let bytes = [headers(1, END_HEADERS, POST), data(1, 0, 600)].concat();
    assert_eq!(server.receive(&bytes), "POST 1, data 1: 600");
    assert_eq!(server.connection.stream_window(1), 400);
    assert_eq!(server.connection.connection_window(), 64_935);
    assert_eq!(server.sent(), "", "windows grow by the caller alone");
    server.connection.grow_stream_window(1, 200);
    server.connection.grow_connection_window(600);
    assert_eq!(server.sent(), "WINDOW_UPDATE 1: 200, WINDOW_UPDATE 0: 600");
    assert_eq!(server.receive(&data(1, 0, 600)), "data 1: 600");
    let fault = "fault 1 FLOW_CONTROL_ERROR";
    assert_eq!(server.receive(&data(1, 0, 1)), fault, "§6.9.1");
    server.connection.grow_connection_window(u32::MAX);
    assert_eq!(server.connection.connection_window(), 0x7fff_ffff);

    // Padding counts, and comes back with the next growth.
    let mut server = Server::new(config.clone());
    let bytes = frame(0, PADDED, 1, &[vec![99], vec![0; 900]].concat());
    server.receive(&[headers(1, END_HEADERS, POST), bytes].concat());
    assert_eq!(server.connection.stream_window(1), 99);
    server.connection.grow_stream_window(1, 801);
    assert_eq!(server.connection.stream_window(1), 1_000);

    // The connection's window is credited for content that nobody reads.
    let mut server = Server::new(Config::default());
    server.receive(&headers(1, END_HEADERS, POST));
    server.connection.stop_reading(1);
    assert_eq!(server.receive(&data(1, 0, 8_192)), "");
    assert_eq!(server.sent(), "WINDOW_UPDATE 0: 8192");

    // §6.9.1 for the connection.
    let mut server = Server::new(Config {
        stream_window: 1 << 20,
        ..Config::default()
    });
    let bytes: Vec<u8> = (0..4).flat_map(|_| data(1, 0, 16_384)).collect();
    let events = server.receive(&[headers(1, END_HEADERS, POST), bytes].concat());
    assert_eq!(events, "POST 1, data 1: 49152, error FLOW_CONTROL_ERROR");
}

#[test]
fn windows_that_change() {
    let ack = frame(4, 1, 0, &[]);
    let mut server = Server::new(Config::default());
    server.receive(&[headers(1, END_HEADERS, POST), data(1, 0, 1_000)].concat());
    server.connection.set_stream_window(100_000, server.now);
    assert_eq!(
        server.connection.stream_window(1),
        99_000,
        "§6.9.2: a larger one at once"
    );
    server.connection.set_stream_window(500, server.now);
    assert_eq!(server.sent(), "SETTINGS", "the second one waits");
    server.receive(&ack);
    assert_eq!(server.sent(), "SETTINGS");
    assert_eq!(
        server.connection.stream_window(1),
        99_000,
        "a smaller one at its acknowledgement"
    );
    server.receive(&ack);
    assert_eq!(
        server.connection.stream_window(1),
        0,
        "§6.9.2: a negative one"
    );
    server.receive(&headers(3, END_HEADERS, POST));
    assert_eq!(server.connection.stream_window(3), 500);
    let late = server.now + Config::default().settings_timeout;
    assert_eq!(server.connection.handle_timeout(late), Ok(()));
}

#[test]
fn settings_that_are_not_acknowledged() {
    let mut server = Server::fresh(Config::default());
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    server.receive(&[&preface[..], &settings(&[])].concat());
    let due = server.connection.poll_timeout().unwrap();
    assert_eq!(due, server.now + Config::default().settings_timeout);
    let error = server.connection.handle_timeout(due).unwrap_err();
    assert_eq!(error.code.name(), Some("SETTINGS_TIMEOUT"), "§6.5.3");
    assert!(server.sent().ends_with("GOAWAY 0 SETTINGS_TIMEOUT"));
    assert_eq!(server.connection.poll_timeout(), None);
}

#[test]
fn a_stop_in_two_steps() {
    for by_ping in [true, false] {
        let mut server = Server::new(Config::default());
        server.receive(&headers(1, WHOLE, GET));
        server.connection.shutdown(Shutdown::Announce, server.now);
        let announced = "GOAWAY 2147483647 NO_ERROR, PING stopping";
        assert_eq!(server.sent(), announced, "§6.8");
        assert_eq!(
            server.receive(&headers(3, WHOLE, GET)),
            "GET 3 end",
            "on its way"
        );
        assert!(!server.connection.is_finished());
        if by_ping {
            assert_eq!(server.receive(&frame(6, 1, 0, b"stopping")), "");
        } else {
            let due = server.connection.poll_timeout().unwrap();
            server.connection.handle_timeout(due).unwrap();
        }
        assert_eq!(server.sent(), "GOAWAY 3 NO_ERROR");
        assert_eq!(server.receive(&headers(5, WHOLE, GET)), "");
        assert_eq!(server.sent(), "RST_STREAM 5 REFUSED_STREAM");
        server.connection.shutdown(Shutdown::Refuse, server.now);
        assert_eq!(server.sent(), "", "once");
        server.receive(&[reset(1), reset(3)].concat());
        assert!(server.connection.is_finished());
    }
}
