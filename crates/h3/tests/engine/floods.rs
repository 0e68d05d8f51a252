//! Bounds on traffic by which a peer causes work without use.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hikyaku_h3::connection::{Config, Connection, End, Incoming};
use hikyaku_h3::error::{Code, Error};
use http::Method;

use crate::wire::{GET, data, frame, headers, read, settings, varint, verdict};

/// A number beyond every bound on floods.
const MANY: u64 = 28_760;

/// How often `one` succeeds before an error, up to [`MANY`] times.
fn taken(mut one: impl FnMut(u64) -> Result<(), Error>) -> (u64, Option<Code>) {
    for count in 0..MANY {
        if let Err(error) = one(count) {
            assert!(error.is_of_connection());
            return (count, Some(error.code()));
        }
    }
    (MANY, None)
}

#[test]
fn cancelled_requests() {
    let tenth = Duration::from_millis(100);
    // (name, time between requests, which of them are answered, taken)
    let cases: &[(&str, Duration, Option<u64>, (u64, Option<Code>))] = &[
        (
            "a thousand in 0.1 s",
            tenth / 1_000,
            None,
            (256, Some(Code::ExcessiveLoad)),
        ),
        (
            "a hundred a second",
            tenth / 10,
            None,
            (284, Some(Code::ExcessiveLoad)),
        ),
        ("ten a second", tenth, None, (MANY, None)),
        (
            "every second one is answered",
            Duration::ZERO,
            Some(2),
            (MANY, None),
        ),
    ];
    for &(name, between, answered, want) in cases {
        let mut server = Connection::server(Config::default());
        let mut now = Instant::now();
        let got = taken(|count| {
            let stream = count * 4;
            let (mut reader, _) = server.accept(stream)?.expect("a request");
            assert_eq!(
                read(&mut reader, &mut server, &headers(GET), 99, false),
                "head"
            );
            server.abandon(stream)?;
            server.poll_output();
            server.poll_output();
            now += between;
            let is_answered = answered.is_some_and(|nth| count % nth == 1);
            let end = if is_answered {
                End::Complete
            } else {
                End::Cancelled
            };
            server.end(stream, end, now)
        });
        assert_eq!(got, want, "{name}");
        assert!(server.open_requests() <= 1, "{name}");
    }
}

#[test]
fn a_request_ends_once() {
    let mut server = Connection::server(Config {
        max_cancelled: 1,
        ..Config::default()
    });
    server.accept(0).unwrap();
    let now = Instant::now();
    for _ in 0..3 {
        assert_eq!(server.end(0, End::Cancelled, now), Ok(()));
    }
}

fn with_control(connection: &mut Connection) {
    let stream = [vec![0], settings(&[])].concat();
    connection.receive(2, stream.into(), false).unwrap();
}

#[test]
fn control_frames() {
    let cases: &[(&str, Vec<u8>)] = &[
        ("PRIORITY_UPDATE", frame(0xf0700, b"\x00u=1")),
        ("unknown frames", frame(0x21, b"")),
        ("a large unknown frame", frame(0x21, &[0; 9_000])),
        ("GOAWAY", frame(0x07, &[0])),
        ("MAX_PUSH_ID", frame(0x0d, &[0])),
    ];
    for (name, bytes) in cases {
        let bytes = Bytes::from(bytes.clone());
        let mut server = Connection::server(Config::default());
        with_control(&mut server);
        let (count, code) = taken(|_| {
            let result = server.receive(2, bytes.clone(), false);
            while server.poll_event().is_some() {}
            result.map(drop)
        });
        assert_eq!(code, Some(Code::ExcessiveLoad), "{name}");
        assert!(count < 4_200, "{name}: {count} taken");

        // Thirty-two a request are no flood.
        let mut server = Connection::server(Config::default());
        with_control(&mut server);
        for stream in (0..4_000).step_by(4) {
            server.accept(stream).unwrap();
            for _ in 0..if bytes.len() > 100 { 1 } else { 32 } {
                server.receive(2, bytes.clone(), false).expect(name);
            }
        }
    }
}

#[test]
fn unidirectional_streams() {
    // (name, the stream's first bytes, the bytes that are repeated on it)
    let cases: &[(&str, &[u8], &[u8])] = &[
        ("the encoder's: capacities", &[2], &[0x20; 16]),
        ("the decoder's: cancellations", &[3], &[0x40; 16]),
    ];
    for (name, first, repeated) in cases {
        let mut server = Connection::server(Config::default());
        with_control(&mut server);
        server
            .receive(6, Bytes::copy_from_slice(first), false)
            .unwrap();
        let (_, code) = taken(|_| {
            let result = server.receive(6, Bytes::copy_from_slice(repeated), false);
            while server.poll_output().is_some() {}
            result.map(drop)
        });
        assert_eq!(code, Some(Code::ExcessiveLoad), "{name}");
    }
    let mut server = Connection::server(Config::default());
    let (count, code) = taken(|count| {
        let stream = count * 4 + 2;
        let result = server.receive(stream, Bytes::from_static(&[0x21]), false);
        result.map(|incoming| assert!(matches!(incoming, Incoming::Stop(_))))
    });
    assert_eq!(code, Some(Code::ExcessiveLoad), "new ones of unknown types");
    assert!(count < 4_200, "{count} taken");
}

#[test]
fn instructions_that_are_not_read() {
    let mut server = Connection::server(Config {
        max_cancelled: u32::MAX,
        ..Config::default()
    });
    let (count, code) = taken(|count| {
        server.accept(count * 4)?;
        server.abandon(count * 4)
    });
    assert_eq!(code, Some(Code::ExcessiveLoad));
    assert!(count < 10_000, "{count} taken");
}

#[test]
fn frames_of_a_request() {
    let cases: &[(&str, Vec<u8>, Option<Code>)] = &[
        ("DATA of no bytes", data(b""), Some(Code::ExcessiveLoad)),
        (
            "unknown frames",
            frame(0x21, b""),
            Some(Code::ExcessiveLoad),
        ),
        (
            "a large unknown frame",
            frame(0x21, &[0; 9_000]),
            Some(Code::ExcessiveLoad),
        ),
        ("content", data(b"x"), None),
        (
            "content with unknown frames",
            [data(&[0; 99]), frame(0x21, b"x")].concat(),
            None,
        ),
    ];
    for (name, bytes, want) in cases {
        let mut server = Connection::server(Config::default());
        let (mut reader, _) = server.accept(0).unwrap().unwrap();
        read(&mut reader, &mut server, &headers(GET), 99, false);
        let got = (0..20_000).find_map(|_| {
            let text = read(&mut reader, &mut server, bytes, bytes.len(), false);
            text.strip_prefix("connection ").map(str::to_owned)
        });
        assert_eq!(got, want.map(|code| code.to_string()), "{name}");
    }
}

#[test]
fn interim_responses() {
    let mut client = Connection::client(Config::default());
    let (_, mut reader) = client.open(0, &Method::GET).unwrap();
    let interim = headers(&[(":status", "103")]);
    let (count, got) = (0..MANY)
        .map(|count| (count, read(&mut reader, &mut client, &interim, 99, false)))
        .find(|(_, got)| got != "head")
        .unwrap();
    assert_eq!(got, "connection H3_EXCESSIVE_LOAD");
    assert!((100..1_000).contains(&count), "{count} taken");
}

#[test]
fn announced_lengths_take_no_memory() {
    // Content that would be kept is refused by its length; skipped content is not kept.
    let cases: &[(&str, u64, &str)] = &[
        ("SETTINGS", 0x04, "connection H3_EXCESSIVE_LOAD"),
        ("PRIORITY_UPDATE", 0xf0700, "connection H3_EXCESSIVE_LOAD"),
        ("GOAWAY", 0x07, "connection H3_FRAME_ERROR"),
    ];
    for (name, kind, want) in cases {
        let mut server = Connection::server(Config::default());
        let first = if *kind == 0x04 { vec![] } else { settings(&[]) };
        let stream = [vec![0], first, varint(*kind), varint((1 << 62) - 1)].concat();
        let error = server.receive(2, stream.into(), false).expect_err(name);
        assert_eq!(verdict(&error), *want, "{name}");
    }
}
