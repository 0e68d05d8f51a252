//! A client of HTTP/2 that keeps no rule, before a server that answers all it can, in any order.
//! Bytes come in pieces of any size.
#![no_main]

use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use hikyaku_h2::connection::{Config, Connection, Event, Shutdown};
use hikyaku_h2::error::Code;
use hikyaku_h2::output::Output;
use http::{HeaderMap, StatusCode};
use libfuzzer_sys::fuzz_target;

const MAX_SECTION: u32 = 1_000;

fuzz_target!(|data: &[u8]| {
    let now = Instant::now();
    let mut server = Server {
        connection: Connection::server(
            Config {
                max_streams: 3,
                max_section_size: MAX_SECTION,
                header_table_size: 200,
                encoder_table_size: 200,
                connect_protocol: true,
                max_cancelled: 4,
                ..Config::default()
            },
            now,
        ),
        output: Output::new(),
        now,
    };
    let mut left = data;
    while let Some((&[kind, length], rest)) = left.split_first_chunk() {
        let (bytes, rest) = rest.split_at(rest.len().min(length.into()));
        left = rest;
        server.act(kind, bytes);
    }
    server
        .connection
        .poll_transmit(&mut server.output, usize::MAX);
});

struct Server {
    connection: Connection,
    output: Output,
    now: Instant,
}

impl Server {
    /// Takes a step: the low bits of `kind` select it, the others a stream.
    fn act(&mut self, kind: u8, bytes: &[u8]) {
        let stream = u32::from(kind >> 4) * 2 + 1;
        let connection = &mut self.connection;
        let none = HeaderMap::new();
        // Sending fails where the stream is over, or the order wrong.
        match kind & 15 {
            0..=5 => self.receive(bytes),
            6 => {
                let _ = connection.send_head(stream, StatusCode::OK, &fields(bytes), false);
            }
            7 => {
                let _ = connection.send_data(stream, Bytes::copy_from_slice(bytes), false);
            }
            8 => {
                let _ = connection.send_data(stream, Bytes::copy_from_slice(bytes), true);
            }
            9 => {
                let _ = connection.send_trailers(stream, fields(bytes));
            }
            10 => connection.reset(stream, Code::CANCEL),
            11 => connection.stop_reading(stream),
            12 => {
                connection.grow_stream_window(stream, bytes.len() as u32);
                connection.grow_connection_window(bytes.len() as u32);
            }
            13 => connection.set_stream_window(bytes.len() as u32, self.now),
            14 => {
                self.now += Duration::from_millis(bytes.len() as u64);
                let _ = connection.handle_timeout(self.now);
                connection.shutdown(Shutdown::Announce, self.now);
            }
            _ => {
                let _ = connection.send_head(stream, StatusCode::NO_CONTENT, &none, true);
                connection.poll_transmit(&mut self.output, bytes.len() * 64);
                while connection.poll_sent().is_some() {}
                self.output.advance(self.output.remaining());
            }
        }
    }

    fn receive(&mut self, mut bytes: &[u8]) {
        while let Ok(Some(event)) = self.connection.recv(&mut bytes, self.now) {
            match event {
                Event::Request { head, .. } => {
                    assert!(head.priority.urgency <= 7);
                    assert!(!head.method().is_empty());
                    let parts = head.to_parts().expect("a checked request");
                    assert!(size(&parts.headers) <= MAX_SECTION as usize);
                }
                Event::Trailers { trailers, .. } => {
                    assert!(size(&trailers.to_headers().expect("few fields")) <= MAX_SECTION as usize);
                }
                Event::Data { data, end, .. } => assert!(end || !data.is_empty()),
                _ => {}
            }
        }
        assert!(self.connection.open_requests() <= 3);
    }
}

fn fields(bytes: &[u8]) -> HeaderMap {
    let value = http::HeaderValue::from_bytes(bytes);
    HeaderMap::from_iter(value.map(|value| (http::header::ETAG, value)))
}

/// The smallest size of the fields' section (RFC 9113 §6.5.2): there may have been more cookies.
fn size(headers: &HeaderMap) -> usize {
    let sizes = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 32);
    sizes.sum()
}
