//! Responses, in their order and within the client's windows.

use bytes::Bytes;
use hikyaku_h2::connection::{Config, Sent};
use hikyaku_h2::error::{Code, Unsent};
use hikyaku_h2::message::Prepared;
use hikyaku_h2::priority::Priority;
use http::{HeaderMap, StatusCode};

use crate::wire::{
    END_HEADERS, GET, POST, Server, WHOLE, data, frame, headers, reset, settings, window,
};

fn bytes(length: usize) -> Bytes {
    Bytes::from(vec![b'x'; length])
}

fn requests(server: &mut Server, streams: &[u32]) {
    for stream in streams {
        server.receive(&headers(*stream, WHOLE, GET));
        let headers = HeaderMap::new();
        server
            .connection
            .send_head(*stream, StatusCode::OK, &headers, false)
            .unwrap();
    }
    server.sent();
}

fn length(length: &str) -> HeaderMap {
    HeaderMap::from_iter([(http::header::CONTENT_LENGTH, length.parse().unwrap())])
}

#[test]
fn responses() {
    let none = HeaderMap::new();
    let mut server = Server::new(Config::default());
    server.receive(
        &[
            headers(1, WHOLE, GET),
            headers(3, WHOLE, GET),
            headers(5, END_HEADERS, POST),
        ]
        .concat(),
    );
    let connection = &mut server.connection;
    connection
        .send_head(1, StatusCode::EARLY_HINTS, &none, false)
        .unwrap();
    connection
        .send_head(1, StatusCode::OK, &none, false)
        .unwrap();
    connection.send_data(1, bytes(20_000), false).unwrap();
    connection.send_data(1, bytes(10), true).unwrap();
    connection
        .send_head(3, StatusCode::NO_CONTENT, &none, true)
        .unwrap();
    connection
        .send_head(5, StatusCode::OK, &none, false)
        .unwrap();
    connection.send_data(5, bytes(5), false).unwrap();
    connection.send_trailers(5, length("5")).unwrap();
    assert_eq!(connection.queued(1), 20_010);
    assert_eq!(
        server.sent(),
        "HEADERS 1, HEADERS 1, HEADERS 3 end, HEADERS 5, DATA 1: 16375, DATA 1: 3635 end, DATA 5: 5, HEADERS 5 end"
    );
    assert_eq!(
        server.connection.open_requests(),
        1,
        "the request on stream 5 goes on"
    );
    assert_eq!(server.receive(&data(5, 1, 1)), "data 5: 1 end");
    assert_eq!(server.connection.open_requests(), 0);
}

#[test]
fn parts_out_of_order() {
    let none = HeaderMap::new();
    let mut server = Server::new(Config::default());
    server.receive(&[headers(1, WHOLE, GET), headers(3, WHOLE, GET)].concat());
    let connection = &mut server.connection;
    assert_eq!(connection.send_data(1, bytes(1), false), Err(Unsent::Order));
    assert_eq!(
        connection.send_trailers(1, none.clone()),
        Err(Unsent::Order)
    );
    let switches = connection.send_head(1, StatusCode::SWITCHING_PROTOCOLS, &none, false);
    assert_eq!(switches, Err(Unsent::SwitchesProtocols), "§8.6");
    let interim = connection.send_head(1, StatusCode::CONTINUE, &none, true);
    assert_eq!(interim, Err(Unsent::Order));
    let missing = connection.send_head(1, StatusCode::OK, &length("3"), true);
    assert_eq!(missing, Err(Unsent::Content));
    connection
        .send_head(1, StatusCode::OK, &length("3"), false)
        .unwrap();
    let again = connection.send_head(1, StatusCode::OK, &none, false);
    assert_eq!(again, Err(Unsent::Order));
    assert_eq!(
        connection.send_data(1, bytes(4), false),
        Err(Unsent::Content)
    );
    assert_eq!(
        connection.send_data(1, bytes(2), true),
        Err(Unsent::Content)
    );
    assert_eq!(
        connection.send_trailers(1, none.clone()),
        Err(Unsent::Content)
    );
    connection.send_data(1, bytes(3), true).unwrap();
    assert_eq!(connection.send_data(1, bytes(0), true), Err(Unsent::Order));
    connection
        .send_head(3, StatusCode::NOT_MODIFIED, &length("3"), true)
        .unwrap();
    assert_eq!(connection.send_data(3, bytes(0), true), Err(Unsent::Over));
    assert_eq!(
        connection.send_head(9, StatusCode::OK, &none, true),
        Err(Unsent::Over)
    );
    assert_eq!(server.sent(), "HEADERS 1, HEADERS 3 end, DATA 1: 3 end");
}

#[test]
fn responses_without_content() {
    let none = HeaderMap::new();
    let cases: &[(&str, &str, StatusCode, bool)] = &[
        ("RFC 9110 §6.4.1: GET", "GET", StatusCode::OK, true),
        ("RFC 9110 §6.4.1: HEAD", "HEAD", StatusCode::OK, false),
        ("RFC 9110 §6.4.1: 204", "GET", StatusCode::NO_CONTENT, false),
        (
            "RFC 9110 §6.4.1: 304",
            "GET",
            StatusCode::NOT_MODIFIED,
            false,
        ),
    ];
    for &(name, method, status, want) in cases {
        let mut server = Server::new(Config::default());
        let request = [&[(":method", method)], &GET[1..]].concat();
        server.receive(&headers(1, WHOLE, &request));
        let connection = &mut server.connection;
        assert!(!connection.takes_content(1), "{name}: before the head");
        connection.send_head(1, status, &none, false).unwrap();
        assert_eq!(connection.takes_content(1), want, "{name}");
        assert_eq!(
            connection.send_data(1, bytes(1), false).is_ok(),
            want,
            "{name}"
        );
        connection.send_data(1, bytes(0), true).unwrap();
        assert!(!connection.takes_content(1), "{name}: after the end");
    }
}

#[test]
fn content_within_windows() {
    let mut server = Server::with_settings(Config::default(), &[(4, 100)]);
    requests(&mut server, &[1, 3]);
    server.connection.send_data(1, bytes(250), true).unwrap();
    server.connection.send_data(3, bytes(0), true).unwrap();
    assert_eq!(
        server.sent(),
        "DATA 3: 0 end, DATA 1: 100",
        "§6.9.1: an empty end needs no window"
    );
    server.receive(&window(1, 50));
    assert_eq!(server.sent(), "DATA 1: 50");
    server.receive(&settings(&[(4, 0)]));
    server.receive(&window(1, 100));
    assert_eq!(server.sent(), "SETTINGS ack", "§6.9.2: the window is 0");
    server.receive(&window(1, 100));
    assert_eq!(server.sent(), "DATA 1: 100 end");

    let mut server = Server::with_settings(Config::default(), &[(4, 1 << 20)]);
    requests(&mut server, &[1]);
    server.connection.send_data(1, bytes(70_000), true).unwrap();
    let sent = server.sent();
    assert!(
        sent.ends_with("DATA 1: 16375, DATA 1: 35"),
        "65,535 bytes: {sent}"
    );
    assert!(!server.connection.has_output());
    server.receive(&window(0, 10_000));
    assert!(server.connection.has_output());
    assert_eq!(server.sent(), "DATA 1: 4465 end");
}

#[test]
fn content_by_priority() {
    let mut server = Server::new(Config::default());
    requests(&mut server, &[1, 3, 5]);
    for stream in [1, 3, 5] {
        server
            .connection
            .send_data(stream, bytes(20_000), true)
            .unwrap();
    }
    let update = frame(16, 0, 0, b"\0\0\0\x05u=0");
    server.receive(&update);
    assert_eq!(server.sent_up_to(1), "DATA 5: 16375", "RFC 9218 §7");
    let incremental = Priority {
        urgency: 0,
        incremental: true,
    };
    server.connection.set_priority(1, incremental);
    server.connection.set_priority(5, incremental);
    assert_eq!(
        server.sent(),
        "DATA 1: 16375, DATA 5: 3625 end, DATA 1: 3625 end, DATA 3: 16375, DATA 3: 3625 end"
    );
    // Of a stream that is still to be opened.
    server.receive(&frame(16, 0, 0, b"\0\0\0\x09u=0"));
    requests(&mut server, &[7, 9]);
    server.connection.send_data(7, bytes(10), true).unwrap();
    server.connection.send_data(9, bytes(10), true).unwrap();
    server.receive(&window(0, 65_535));
    assert_eq!(server.sent(), "DATA 9: 10 end, DATA 7: 10 end");
}

#[test]
fn content_by_the_priorities_of_responses() {
    let mut server = Server::new(Config::default());
    for stream in [1, 3, 5] {
        server.receive(&headers(stream, WHOLE, GET));
    }
    let says = |value: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert("priority", value.parse().unwrap());
        headers
    };
    let ok = StatusCode::OK;
    let connection = &mut server.connection;
    connection
        .send_head(1, ok, &HeaderMap::new(), false)
        .unwrap();
    connection.send_head(3, ok, &says("u=2"), false).unwrap();
    let prepared = Prepared::new(ok, &says("u=1"));
    connection.send_prepared(5, &prepared, &[], false).unwrap();
    for stream in [1, 3, 5] {
        connection.send_data(stream, bytes(10), true).unwrap();
    }
    let sent = server.sent();
    assert!(
        sent.ends_with("DATA 5: 10 end, DATA 3: 10 end, DATA 1: 10 end"),
        "RFC 9218 §8: {sent}"
    );

    // The client changes what the response does not say.
    let mut server = Server::new(Config::default());
    server.receive(&headers(1, WHOLE, GET));
    server.receive(&headers(3, WHOLE, GET));
    let connection = &mut server.connection;
    connection.send_head(1, ok, &says("u=5"), false).unwrap();
    connection
        .send_head(3, ok, &HeaderMap::new(), false)
        .unwrap();
    connection.send_data(1, bytes(10), true).unwrap();
    connection.send_data(3, bytes(10), true).unwrap();
    server.receive(&frame(16, 0, 0, b"\0\0\0\x01u=0, i"));
    let sent = server.sent();
    assert!(
        sent.ends_with("DATA 3: 10 end, DATA 1: 10 end"),
        "RFC 9218 §8: {sent}"
    );
}

#[test]
fn streams_whose_content_is_sent() {
    let sent = |stream, is_complete| {
        Some(Sent {
            stream,
            is_complete,
        })
    };
    let mut server = Server::new(Config::default());
    requests(&mut server, &[1, 3, 5]);
    server.connection.send_data(1, bytes(10), false).unwrap();
    server.connection.send_data(3, bytes(10), true).unwrap();
    server.connection.send_data(5, bytes(10), false).unwrap();
    assert_eq!(server.connection.poll_sent(), None);
    server.sent();
    server.receive(&reset(5));
    assert_eq!(server.connection.poll_sent(), sent(1, false));
    assert_eq!(server.connection.poll_sent(), sent(3, true));
    assert_eq!(server.connection.poll_sent(), None, "5 is over");
    server
        .connection
        .send_trailers(1, HeaderMap::new())
        .unwrap();
    assert_eq!(server.connection.poll_sent(), sent(1, true));
    assert_eq!(server.connection.poll_sent(), None);
}

#[test]
fn resets_and_stops() {
    let mut server = Server::new(Config::default());
    requests(&mut server, &[1]);
    server.connection.send_data(1, bytes(10), false).unwrap();
    server.connection.reset(1, Code::INTERNAL_ERROR);
    server.connection.reset(1, Code::INTERNAL_ERROR);
    assert_eq!(server.sent(), "RST_STREAM 1 INTERNAL_ERROR");
    let late = [
        data(1, 0, 5),
        headers(1, WHOLE, &[("a", "b")]),
        window(1, 1),
    ]
    .concat();
    assert_eq!(
        server.receive(&late),
        "",
        "§5.1: frames that were on their way"
    );
    assert_eq!(server.sent(), "");

    // §8.1: the client is asked to send no more, after a complete response.
    server.receive(&headers(3, END_HEADERS, POST));
    server.connection.stop_reading(3);
    assert_eq!(server.receive(&data(3, 0, 5)), "");
    server
        .connection
        .send_head(3, StatusCode::OK, &HeaderMap::new(), false)
        .unwrap();
    server.connection.send_data(3, bytes(3), true).unwrap();
    assert_eq!(
        server.sent(),
        "HEADERS 3, DATA 3: 3 end, RST_STREAM 3 NO_ERROR"
    );
    assert_eq!(server.connection.open_requests(), 0);

    // In the middle of a frame.
    let half = headers(5, END_HEADERS, POST);
    assert_eq!(
        server.receive(&[half, data(5, 0, 5)[..11].to_vec()].concat()),
        "POST 5, data 5: 2"
    );
    server.connection.reset(5, Code::CANCEL);
    let rest = [data(5, 0, 5)[11..].to_vec(), headers(7, WHOLE, GET)].concat();
    assert_eq!(server.receive(&rest), "GET 7 end");
}

#[test]
fn sections_that_the_client_takes() {
    let mut server = Server::with_settings(Config::default(), &[(6, 100)]);
    server.receive(&headers(1, WHOLE, GET));
    let large = HeaderMap::from_iter([(http::header::ETAG, "x".repeat(60).parse().unwrap())]);
    let too_large = Unsent::TooLarge {
        size: 32 + 10 + 32 + 4 + 60,
        limit: 100,
    };
    let got = server.connection.send_head(1, StatusCode::OK, &large, true);
    assert_eq!(got, Err(too_large), "§6.5.2");
    let prepared = Prepared::new(StatusCode::OK, &large);
    let got = server.connection.send_prepared(1, &prepared, &[], true);
    assert_eq!(got, Err(too_large));
    let prepared = Prepared::new(StatusCode::OK, &HeaderMap::new());
    let date: &[(&str, &[u8])] = &[("date", b"now")];
    server
        .connection
        .send_prepared(1, &prepared, date, true)
        .unwrap();
    assert_eq!(server.sent(), "HEADERS 1 end");
}

#[test]
fn large_sections_are_cut() {
    let mut server = Server::new(Config::default());
    server.receive(&headers(1, WHOLE, GET));
    let large = HeaderMap::from_iter([(http::header::LINK, "<".repeat(40_000).parse().unwrap())]);
    server
        .connection
        .send_head(1, StatusCode::OK, &large, true)
        .unwrap();
    assert_eq!(
        server.sent(),
        "HEADERS 1 end, CONTINUATION 1, CONTINUATION 1",
        "§4.2"
    );
}
