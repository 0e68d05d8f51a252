//! The allocations of a request in the engine, once its memory has grown to the needs of a
//! connection.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use hikyaku_h3::connection::{Config, Connection, End};
use hikyaku_h3::message::Prepared;
use hikyaku_h3::stream::Read;
use http::{HeaderMap, StatusCode, header};

/// Allocations for a request's parts of the crate `http`. The values share one, which has a count. The
/// map of fields, its index, path and authority take the others.
const PARTS: u64 = 5;

/// HEADERS with `:method: GET`, `:scheme: https`, `:authority`, `:path`, and fields as literals.
fn request(fields: &[(&str, &str)]) -> Bytes {
    let mut block = b"\0\0\xd1\xd7\x50\x06a.test\xc1".to_vec();
    for (name, value) in fields {
        // Literals without Huffman code. Names have up to six bytes, and `http` knows them.
        block.push(0x20 | name.len() as u8);
        block.extend_from_slice(name.as_bytes());
        block.push(value.len() as u8);
        block.extend_from_slice(value.as_bytes());
    }
    let mut frame = vec![1, block.len() as u8];
    frame.extend_from_slice(&block);
    frame.into()
}

/// Reads a request and answers it by a prepared head. Returns the allocations of both.
fn exchange(
    connection: &mut Connection,
    stream: u64,
    request: Bytes,
    prepared: &Prepared,
    out: &mut BytesMut,
) -> (u64, u64) {
    let (mut reader, mut writer) = connection.accept(stream).unwrap().unwrap();
    reader.receive(request, true);
    let mut head = None;
    let reading = allocation_counter::measure(|| {
        let Read::Head(read) = reader.poll(|| &mut *connection).unwrap() else {
            panic!("another part than a head");
        };
        head = Some(read);
        assert!(matches!(
            reader.poll(|| &mut *connection).unwrap(),
            Read::End
        ));
    });
    let answering = allocation_counter::measure(|| {
        let date: &[(&str, &[u8])] = &[("date", b"Fri, 27 Nov 2026 01:00:00 GMT")];
        writer.prepared(prepared, date, connection, out).unwrap();
        writer.data(1024, out).unwrap();
        writer.finish().unwrap();
        connection
            .end(stream, End::Complete, Instant::now())
            .unwrap();
    });
    out.clear();
    drop(head);
    (reading.count_total, answering.count_total)
}

#[test]
fn answers_allocate_nothing_and_requests_only_their_parts() {
    let mut connection = Connection::server(Config::default());
    let headers = HeaderMap::from_iter([
        (header::ETAG, "\"1\"".parse().unwrap()),
        (header::CONTENT_LENGTH, 1024.into()),
    ]);
    let prepared = Prepared::new(StatusCode::OK, &headers);
    // Another request is open, so that the connection keeps its memory.
    let _open = connection.accept(0).unwrap();
    let mut out = BytesMut::with_capacity(4096);
    let few = request(&[("accept", "1")]);
    let names = ["accept", "range", "from", "origin", "expect"];
    let many = request(&names.map(|name| (name, "1")));
    for (round, stream) in (4..400u64).step_by(4).enumerate() {
        let request = if round % 2 == 0 { &few } else { &many };
        let (reading, answering) = exchange(
            &mut connection,
            stream,
            request.clone(),
            &prepared,
            &mut out,
        );
        if round >= 10 {
            assert!(reading <= PARTS, "{round}: {reading} for reading");
            assert_eq!(answering, 0, "{round}");
        }
    }
}
