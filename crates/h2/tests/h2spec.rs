//! h2spec against the engine alone, behind a socket on loopback.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "tests"
)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use bytes::{Buf, Bytes};
use hikyaku_h2::connection::{Config, Connection, Event};
use hikyaku_h2::output::Output;
use hikyaku_testkit::skip;
use http::{HeaderMap, StatusCode};

/// The number of h2spec's cases; fewer are not the whole suite.
const CASES: &str = "146 tests, 146 passed, 0 skipped, 0 failed";

#[test]
fn h2spec_finds_nothing() {
    let h2spec = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/tools/h2spec");
    if !h2spec.exists() {
        return skip(
            "h2spec_finds_nothing",
            "h2spec is missing: scripts/setup.sh test",
        );
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    thread::spawn(move || {
        for socket in listener.incoming() {
            thread::spawn(move || serve(socket.unwrap()));
        }
    });
    let arguments = ["--strict", "--host", "127.0.0.1", "--port", &port];
    let ran = Command::new(h2spec).args(arguments).output().unwrap();
    let report = String::from_utf8_lossy(&ran.stdout);
    assert!(report.contains(CASES), "{report}");
}

/// Answers every request once it has ended.
fn serve(mut socket: TcpStream) {
    let mut connection = Connection::server(Config::default(), Instant::now());
    let mut output = Output::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        while connection.has_output() {
            connection.poll_transmit(&mut output, 1 << 16);
            while connection.poll_sent().is_some() {}
            let bytes = output.copy_to_bytes(output.remaining());
            if socket.write_all(&bytes).is_err() {
                return;
            }
        }
        if connection.is_finished() {
            return;
        }
        match socket.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(length) => receive(&mut connection, &buffer[..length]),
        }
    }
}

fn receive(connection: &mut Connection, mut input: &[u8]) {
    // After an error GOAWAY is sent, and the connection is finished.
    while let Ok(Some(event)) = connection.recv(&mut input, Instant::now()) {
        let ended = match event {
            Event::Request { stream, end, .. } | Event::TooLarge { stream, end } => {
                end.then_some(stream)
            }
            Event::Data { stream, data, end } => {
                let length = data.len() as u32;
                connection.grow_connection_window(length);
                connection.grow_stream_window(stream, length);
                end.then_some(stream)
            }
            Event::Trailers { stream, .. } => Some(stream),
            Event::Reset { .. } | Event::Pong { .. } | Event::GoAway { .. } => None,
        };
        if let Some(stream) = ended {
            let none = HeaderMap::new();
            connection
                .send_head(stream, StatusCode::OK, &none, false)
                .unwrap();
            let content: &[u8] = match connection.takes_content(stream) {
                true => b"some content",
                false => b"",
            };
            let content = Bytes::from_static(content);
            connection.send_data(stream, content, true).unwrap();
        }
    }
}
