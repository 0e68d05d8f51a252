//! Properties for any bytes of a peer: nothing panics, and cuts make no difference.

use bytes::Bytes;
use hikyaku_h3::connection::{Config, Connection};
use http::Method;
use proptest::prelude::*;

use crate::wire::{GET, data, frame, headers, read, settings, verdict};

/// A piece of a stream: frames of any order, or bytes.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let kinds = vec![
        0x00, 0x01, 0x03, 0x04, 0x05, 0x07, 0x0d, 0x21, 0xf0700, 0xf0701,
    ];
    let content = || prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        3 => Just(headers(GET)),
        2 => Just(headers(&[(":status", "103")])),
        2 => Just(headers(&[(":status", "200"), ("content-length", "5")])),
        2 => Just(headers(&[("a", "b")])),
        2 => Just(settings(&[6, 1])),
        4 => content().prop_map(|content| data(&content)),
        3 => (prop::sample::select(kinds), content()).prop_map(|(kind, content)| frame(kind, &content)),
        1 => content(),
    ]
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(piece(), 0..12).prop_map(|pieces| pieces.concat())
}

fn at_server(stream: &[u8], size: usize, fin: bool) -> String {
    let mut server = Connection::server(Config::default());
    let (mut reader, _) = server.accept(0).unwrap().unwrap();
    read(&mut reader, &mut server, stream, size, fin)
}

fn at_client(stream: &[u8], size: usize, fin: bool) -> String {
    let mut client = Connection::client(Config::default());
    let (_, mut reader) = client.open(0, &Method::GET).unwrap();
    read(&mut reader, &mut client, stream, size, fin)
}

fn unidirectional(mut connection: Connection, stream: &[u8], size: usize) -> String {
    let mut seen = Vec::new();
    for chunk in stream.chunks(size) {
        let result = connection.receive(2, Bytes::copy_from_slice(chunk), false);
        while let Some(event) = connection.poll_event() {
            seen.push(format!("{event:?}"));
        }
        if let Err(error) = result {
            seen.push(verdict(&error));
            break;
        }
    }
    seen.join(" ")
}

proptest! {
    #[test]
    fn cuts_make_no_difference(stream in stream(), size in 1usize..50, fin: bool) {
        let whole = stream.len().max(1);
        prop_assert_eq!(at_server(&stream, whole, fin), at_server(&stream, size, fin));
        prop_assert_eq!(at_client(&stream, whole, fin), at_client(&stream, size, fin));
    }

    #[test]
    fn cuts_of_a_control_stream_make_no_difference(rest in stream(), size in 1usize..50) {
        let stream = [vec![0], settings(&[1, 0]), rest].concat();
        for new in [Connection::server, Connection::client] {
            let connection = || new(Config::default());
            prop_assert_eq!(
                unidirectional(connection(), &stream, stream.len()),
                unidirectional(connection(), &stream, size)
            );
        }
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..300), size in 1usize..50) {
        at_server(&bytes, size, true);
        at_client(&bytes, size, true);
        for kind in 0..4 {
            let stream = [vec![kind], bytes.clone()].concat();
            unidirectional(Connection::server(Config::default()), &stream, size);
            unidirectional(Connection::client(Config::default()), &stream, size);
        }
    }
}
