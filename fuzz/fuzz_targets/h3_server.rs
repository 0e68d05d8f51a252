//! A client of HTTP/3 that keeps no rule, before a server that answers all it can. Streams of both
//! kinds come in pieces of any size, with their ends and resets.
#![no_main]

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use hikyaku_h3::connection::{Config, Connection, End, Event};
use hikyaku_h3::error::Error;
use hikyaku_h3::message::RequestHead;
use hikyaku_h3::stream::{Read, Reader, Writer};
use http::{HeaderMap, StatusCode, response};
use libfuzzer_sys::fuzz_target;

const MAX_SECTION: u64 = 1_000;

fuzz_target!(|data: &[u8]| {
    let mut server = Server {
        connection: Connection::server(Config {
            max_field_section_size: MAX_SECTION,
            max_table_capacity: 200,
            max_blocked_streams: 2,
            encoder_table_capacity: 200,
            connect_protocol: true,
            max_requests: 3,
            max_cancelled: 4,
        }),
        requests: BTreeMap::new(),
        now: Instant::now(),
    };
    let mut left = data;
    while let Some((&[kind, length], rest)) = left.split_first_chunk() {
        let (bytes, rest) = rest.split_at(rest.len().min(length.into()));
        left = rest;
        if server.on(kind, Bytes::copy_from_slice(bytes)).is_err() {
            return;
        }
        while server.connection.poll_output().is_some() {}
        while let Some(event) = server.connection.poll_event() {
            if let Event::Unblocked { stream } = event
                && server.read(stream).is_err()
            {
                return;
            }
        }
    }
});

struct Server {
    connection: Connection,
    requests: BTreeMap<u64, (Reader<RequestHead>, Writer<response::Parts>)>,
    now: Instant,
}

impl Server {
    /// Handles an event: the low bits of `kind` select its stream, the others the action.
    fn on(&mut self, kind: u8, bytes: Bytes) -> Result<(), Error> {
        let stream = u64::from(kind & 3) * 4;
        let fin = kind & 0x20 != 0;
        match (kind >> 2 & 1, kind >> 6) {
            (0, 3) => self.connection.reset(stream + 2),
            (0, _) => self.connection.receive(stream + 2, bytes, fin).map(drop),
            (_, 3) => self.cancel(stream),
            _ => {
                if !self.requests.contains_key(&stream) {
                    let Some(accepted) = self.connection.accept(stream)? else {
                        return Ok(());
                    };
                    self.requests.insert(stream, accepted);
                }
                if let Some((reader, _)) = self.requests.get_mut(&stream) {
                    reader.receive(bytes, fin);
                }
                self.read(stream)
            }
        }
    }

    fn cancel(&mut self, stream: u64) -> Result<(), Error> {
        self.connection.abandon(stream)?;
        self.requests.remove(&stream);
        self.connection.end(stream, End::Cancelled, self.now)
    }

    fn read(&mut self, stream: u64) -> Result<(), Error> {
        let Some((reader, writer)) = self.requests.get_mut(&stream) else {
            return Ok(());
        };
        loop {
            match reader.poll(|| &mut self.connection) {
                Ok(Read::Head(head)) => {
                    assert!(size(&head.parts.headers) <= MAX_SECTION);
                    assert!(head.priority.urgency <= 7);
                    writer.answers(&head.parts.method);
                }
                Ok(Read::Data(data)) => assert!(!data.is_empty()),
                Ok(Read::Trailers(trailers)) => assert!(size(&trailers) <= MAX_SECTION),
                Ok(Read::NeedsInput | Read::Blocked) => return Ok(()),
                Ok(Read::End) => return answer(stream, StatusCode::OK, self),
                Ok(Read::TooLarge) => {
                    self.connection.abandon(stream)?;
                    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
                    return answer(stream, status, self);
                }
                Err(error) if error.is_of_connection() => return Err(error),
                Err(_) => return self.cancel(stream),
            }
        }
    }
}

fn answer(stream: u64, status: StatusCode, server: &mut Server) -> Result<(), Error> {
    let Some((_, mut writer)) = server.requests.remove(&stream) else {
        return Ok(());
    };
    let headers = HeaderMap::from_iter([(http::header::SERVER, "fuzz".parse().unwrap())]);
    let mut out = BytesMut::new();
    // It fails only if the client takes no section of that size.
    let _ = writer.head(status, &headers, &mut server.connection, &mut out);
    let end = End::Complete;
    server.connection.end(stream, end, server.now)
}

/// The smallest size of the fields' section (RFC 9114 §4.2.2): there may have been more cookies.
fn size(headers: &HeaderMap) -> u64 {
    let sizes = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 32);
    sizes.sum::<usize>() as u64
}
