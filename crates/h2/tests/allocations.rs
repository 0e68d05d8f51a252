//! The engine allocates nothing for a request, once its memory has grown to what a connection needs.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]

use std::time::Instant;

use bytes::{Buf, Bytes};
use hikyaku_h2::connection::{Config, Connection, Event};
use hikyaku_h2::message::Prepared;
use hikyaku_h2::output::Output;
use http::{HeaderMap, StatusCode};

const OPENING: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0";

/// Requests with literals and indices, a priority and perhaps a cookie, and credit for the responses.
fn requests(first: u32, count: u32, with_cookie: bool) -> Vec<u8> {
    let mut block = b"\x82\x87\x84\x41\x06a.test\x00\x08priority\x06u=1, i".to_vec();
    if with_cookie {
        block.extend_from_slice(b"\x0f\x11\x03a=1");
    }
    let mut received = Vec::new();
    for stream in (first..).step_by(2).take(count as usize) {
        received.extend_from_slice(&[0, 0, block.len() as u8, 1, 5]);
        received.extend_from_slice(&stream.to_be_bytes());
        received.extend_from_slice(&block);
    }
    let credit = (count * 1024).to_be_bytes();
    received.extend_from_slice(b"\0\0\x04\x08\0\0\0\0\0");
    received.extend_from_slice(&credit);
    received
}

fn answer(
    connection: &mut Connection,
    prepared: &Prepared,
    content: &Bytes,
    mut received: &[u8],
    output: &mut Output,
    now: Instant,
) {
    while let Some(event) = connection.recv(&mut received, now).unwrap() {
        let Event::Request { stream, .. } = event else {
            panic!("another event than a request");
        };
        let date: &[(&str, &[u8])] = &[("date", b"Fri, 27 Nov 2026 01:00:00 GMT")];
        connection
            .send_prepared(stream, prepared, date, false)
            .unwrap();
        connection.send_data(stream, content.clone(), true).unwrap();
    }
    connection.poll_transmit(output, usize::MAX);
    while connection.poll_sent().is_some() {}
    output.advance(output.remaining());
}

#[test]
fn requests_allocate_nothing() {
    let now = Instant::now();
    let mut connection = Connection::server(Config::default(), now);
    let headers = HeaderMap::from_iter([(http::header::ETAG, "\"1\"".parse().unwrap())]);
    let prepared = Prepared::new(StatusCode::OK, &headers);
    let content = Bytes::from(vec![0; 1024]);
    let mut output = Output::new();
    let mut opening = OPENING;
    assert!(connection.recv(&mut opening, now).unwrap().is_none());
    let mut first = 1;
    for round in 0..20 {
        let received = requests(first, 64, true);
        first += 128;
        let allocated = allocation_counter::measure(|| {
            answer(
                &mut connection,
                &prepared,
                &content,
                &received,
                &mut output,
                now,
            );
        });
        assert!(
            round < 10 || allocated.count_total == 0,
            "{round}: {allocated:?}"
        );
    }
    // Memory goes back when the connection is idle.
    connection.release_memory();
    let received = requests(first, 1, false);
    answer(
        &mut connection,
        &prepared,
        &content,
        &received,
        &mut output,
        now,
    );
}
