//! A server of HTTP/3 that keeps no rule, before a client with requests of several methods. Streams
//! of both kinds come in pieces of any size, with their ends and resets.
#![no_main]

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use hikyaku_h3::connection::{Config, Connection, End, Event};
use hikyaku_h3::error::Error;
use hikyaku_h3::message::RequestHead;
use hikyaku_h3::stream::{Read, Reader};
use http::{Method, Request, StatusCode, response};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut connection = Connection::client(Config {
        max_field_section_size: 1_000,
        max_table_capacity: 200,
        max_blocked_streams: 2,
        encoder_table_capacity: 200,
        ..Config::default()
    });
    let methods = [Method::GET, Method::HEAD, Method::CONNECT, Method::POST];
    let mut responses: Vec<_> = (0..)
        .step_by(4)
        .zip(methods)
        .map(|(stream, method)| open(&mut connection, stream, &method))
        .collect();
    let mut left = data;
    while let Some((&[kind, length], rest)) = left.split_first_chunk() {
        let (bytes, rest) = rest.split_at(rest.len().min(length.into()));
        left = rest;
        let bytes = Bytes::copy_from_slice(bytes);
        if on(&mut connection, &mut responses, kind, bytes).is_err() {
            return;
        }
        while connection.poll_output().is_some() {}
        while let Some(event) = connection.poll_event() {
            if let Event::Unblocked { stream } = event
                && responses[stream as usize / 4]
                    .read(&mut connection)
                    .is_err()
            {
                return;
            }
        }
    }
});

struct Response {
    reader: Reader<response::Parts>,
    method: Method,
    status: Option<StatusCode>,
}

fn open(connection: &mut Connection, stream: u64, method: &Method) -> Response {
    let uri = if *method == Method::CONNECT {
        "a.test:22"
    } else {
        "https://a.test/"
    };
    let (mut writer, reader) = connection.open(stream, method).unwrap();
    let request = Request::builder().method(method).uri(uri).body(()).unwrap();
    let head = RequestHead::from(request.into_parts().0);
    writer
        .head(&head, connection, &mut BytesMut::new())
        .unwrap();
    Response {
        reader,
        method: method.clone(),
        status: None,
    }
}

/// Handles an event: the low bits of `kind` select its stream, the others the action.
fn on(
    connection: &mut Connection,
    responses: &mut [Response],
    kind: u8,
    bytes: Bytes,
) -> Result<(), Error> {
    let number = u64::from(kind & 3);
    let fin = kind & 0x20 != 0;
    match (kind >> 2 & 1, kind >> 6) {
        (0, 3) => connection.reset(number * 4 + 3),
        (0, _) => connection.receive(number * 4 + 3, bytes, fin).map(drop),
        (_, 3) => {
            connection.abandon(number * 4)?;
            connection.end(number * 4, End::Cancelled, Instant::now())
        }
        _ => {
            let response = &mut responses[number as usize];
            response.reader.receive(bytes, fin);
            response.read(connection)
        }
    }
}

impl Response {
    fn read(&mut self, connection: &mut Connection) -> Result<(), Error> {
        loop {
            match self.reader.poll(|| &mut *connection) {
                Ok(Read::Head(head)) => {
                    let interim = self.status.is_none_or(|status| status.is_informational());
                    assert!(interim, "a header section after the final one");
                    assert_ne!(head.status, StatusCode::SWITCHING_PROTOCOLS);
                    self.status = Some(head.status);
                }
                Ok(Read::Data(data)) => {
                    let status = self.status.expect("content follows a header section");
                    let empty = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED];
                    assert!(!data.is_empty() && !status.is_informational());
                    assert!(self.method == Method::CONNECT || !empty.contains(&status));
                    assert_ne!(self.method, Method::HEAD);
                }
                Ok(Read::Trailers(_)) => {}
                Ok(Read::NeedsInput | Read::Blocked | Read::TooLarge) => return Ok(()),
                Ok(Read::End) => {
                    assert!(self.status.is_some_and(|status| !status.is_informational()));
                    return Ok(());
                }
                Err(error) if error.is_of_connection() => return Err(error),
                Err(_) => return Ok(()),
            }
        }
    }
}
