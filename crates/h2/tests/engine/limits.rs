//! Limits and windows of the server, and the end of a connection, by the sentences of RFC 9113.

use hikyaku_h2::connection::{Config, Shutdown};

use crate::wire::{
    END_HEADERS, END_STREAM, GET, PADDED, POST, Server, WHOLE, data, frame, headers, reset,
    settings,
};

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
