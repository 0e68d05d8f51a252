//! Bounds on traffic by which a client causes work without use.

use std::time::Duration;

use bytes::Bytes;
use hikyaku_h2::connection::Config;
use http::{HeaderMap, StatusCode};

use crate::wire::{
    END_HEADERS, GET, POST, Server, WHOLE, data, frame, headers, reset, settings, window,
};

/// A number beyond every bound on floods.
const MANY: u32 = 20_000;

/// How many times the server takes bytes before it closes the connection.
fn taken(server: &mut Server, reads: bool, mut bytes: impl FnMut(u32) -> Vec<u8>) -> u32 {
    for count in 0..MANY {
        let events = server.receive(&bytes(count));
        if let Some((_, code)) = events.split_once("error ") {
            assert_eq!(code, "ENHANCE_YOUR_CALM");
            return count;
        }
        if reads {
            server.sent();
        }
    }
    MANY
}

#[test]
fn frames_without_use() {
    let ack = frame(4, 1, 0, &[]);
    let cases: &[(&str, Vec<u8>)] = &[
        ("CVE-2019-9512: PING", frame(6, 0, 0, &[0; 8])),
        ("CVE-2019-9515: SETTINGS", settings(&[])),
        (
            "SETTINGS that change windows",
            [settings(&[(4, 1)]), settings(&[(4, 2)])].concat(),
        ),
        ("acknowledgements", ack),
        ("CVE-2019-9513: PRIORITY", frame(2, 0, 1, &[0, 0, 0, 3, 0])),
        ("PRIORITY_UPDATE", frame(16, 0, 0, b"\0\0\0\x01u=1")),
        ("CVE-2019-9518: empty DATA", data(1, 0, 0)),
        ("DATA of padding", frame(0, 8, 1, &[3, 0, 0, 0])),
        ("WINDOW_UPDATE", window(0, 1)),
        ("WINDOW_UPDATE of a stream", window(1, 1)),
        ("unknown types", frame(99, 0, 0, &[])),
        ("unknown types that are large", frame(99, 0, 0, &[0; 9_000])),
        ("GOAWAY", frame(7, 0, 0, &[0; 8])),
        ("answers of PING", frame(6, 1, 0, &[0; 8])),
    ];
    for (name, bytes) in cases {
        let mut server = Server::new(Config::default());
        server.receive(&headers(1, END_HEADERS, POST));
        let count = taken(&mut server, true, |_| bytes.clone());
        assert!(count < 4_500, "{name}: {count} taken");

        // A hundred a second are no flood.
        let mut server = Server::new(Config::default());
        server.receive(&headers(1, END_HEADERS, POST));
        for _ in 0..2_000 {
            server.now += Duration::from_millis(if bytes.len() > 100 { 300 } else { 10 });
            assert!(!server.receive(bytes).contains("error"), "{name}");
            server.sent();
        }
    }
}

#[test]
fn answers_that_are_not_read() {
    let mut server = Server::new(Config::default());
    let count = taken(&mut server, false, |_| frame(6, 0, 0, &[0; 8]));
    assert!(count < 1_000, "{count} answers in memory");
}

#[test]
fn cancelled_requests() {
    // CVE-2023-44487.
    let rapid = |count: u32| {
        let stream = count * 2 + 1;
        [headers(stream, WHOLE, GET), reset(stream)].concat()
    };
    // CVE-2025-8671: the client has the server reset the streams.
    let made = |count: u32| {
        let stream = count * 2 + 1;
        [headers(stream, WHOLE, GET), window(stream, 0)].concat()
    };
    let malformed = |count: u32| headers(count * 2 + 1, WHOLE, &[(":method", "GET")]);
    let cases: [(&str, &dyn Fn(u32) -> Vec<u8>); 3] = [
        ("rapid reset", &rapid),
        ("made you reset", &made),
        ("malformed requests", &malformed),
    ];
    for (name, bytes) in cases {
        let mut server = Server::new(Config::default());
        assert_eq!(taken(&mut server, true, bytes), 256, "{name}");
        assert_eq!(server.connection.open_requests(), 0, "{name}");

        let mut server = Server::new(Config::default());
        for count in 0..2_000 {
            server.now += Duration::from_millis(100);
            assert!(
                !server.receive(&bytes(count)).contains("error"),
                "{name}: ten a second"
            );
            server.sent();
        }
    }
}

#[test]
fn requests_beyond_the_limit() {
    let mut server = Server::new(Config {
        max_streams: 1,
        ..Config::default()
    });
    let count = taken(&mut server, true, |count| {
        headers(count * 2 + 1, WHOLE, GET)
    });
    assert!(count < 2_000, "{count} taken");
}

#[test]
fn blocks_without_end() {
    // CVE-2024-27316.
    let cases: &[(&str, usize, u32)] = &[("empty frames", 0, 40), ("full frames", 16_384, 10)];
    for (name, length, max) in cases {
        let mut server = Server::new(Config::default());
        server.receive(&frame(1, 1, 1, &[]));
        let count = taken(&mut server, true, |_| frame(9, 0, 1, &vec![0; *length]));
        assert!(count < *max, "{name}: {count} taken");
    }
}

#[test]
fn content_in_tiny_pieces() {
    // CVE-2019-9511, CVE-2019-9517: a window of a byte at a time.
    let mut server = Server::with_settings(Config::default(), &[(4, 0)]);
    server.receive(&headers(1, WHOLE, GET));
    let headers = HeaderMap::new();
    server
        .connection
        .send_head(1, StatusCode::OK, &headers, false)
        .unwrap();
    let content = Bytes::from(vec![0; 1 << 20]);
    server.connection.send_data(1, content, true).unwrap();
    let count = taken(&mut server, true, |_| window(1, 1));
    assert!((1_000..5_000).contains(&count), "{count} taken");
}

#[test]
fn priorities_of_streams_to_come() {
    let config = Config::default();
    let allowed = config.max_streams;
    let mut server = Server::new(config);
    for stream in 0..allowed {
        let payload = [&(stream * 2 + 1).to_be_bytes()[..], b"u=1"].concat();
        assert_eq!(server.receive(&frame(16, 0, 0, &payload)), "");
    }
    let events = server.receive(&frame(16, 0, 0, b"\0\0\x10\x01u=1"));
    assert_eq!(events, "error PROTOCOL_ERROR", "RFC 9218 §7.1");
}

#[test]
fn honest_clients_are_no_flood() {
    let mut server = Server::new(Config::default());
    let headers = HeaderMap::new();
    for count in 0..20_000u32 {
        let stream = count * 2 + 1;
        let request = crate::wire::headers(stream, WHOLE, GET);
        let more = [request, window(0, 1_024), window(stream, 1_024)].concat();
        let events = server.receive(&more);
        assert_eq!(events, format!("GET {stream} end"));
        server
            .connection
            .send_head(stream, StatusCode::OK, &headers, false)
            .unwrap();
        server
            .connection
            .send_data(stream, Bytes::from_static(&[0; 1_024]), true)
            .unwrap();
        server.sent();
    }
}
