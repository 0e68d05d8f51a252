//! Unidirectional streams and the order to stop, by the sentences of the RFCs.

use bytes::Bytes;
use hikyaku_h3::connection::{Config, Connection, Event, Incoming, Outgoing, Shutdown};
use hikyaku_h3::error::{Code, Error};
use hikyaku_h3::priority::Priority;
use hikyaku_h3::settings::Settings;
use http::Method;

use crate::wire::{frame, settings, varint, verdict};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Server,
    Client,
}
use Side::{Client, Server};

fn connection(side: Side) -> Connection {
    match side {
        Server => Connection::server(Config::default()),
        Client => Connection::client(Config::default()),
    }
}

/// A stream of a peer: the number in its identifier, its bytes, and whether it ends.
type Stream = (u64, Vec<u8>, bool);

/// The result of receiving the peer's streams in pieces of `size`.
fn receive(
    connection: &mut Connection,
    streams: &[Stream],
    size: usize,
) -> Result<Incoming, Error> {
    let mut result = Ok(Incoming::Read);
    for (number, bytes, fin) in streams {
        let id = number * 4 + 2;
        for chunk in bytes.chunks(size) {
            result = connection.receive(id, Bytes::copy_from_slice(chunk), false);
            if !matches!(result?, Incoming::Read) {
                break;
            }
        }
        if matches!(result, Ok(Incoming::Stop(_))) {
            continue;
        }
        if *fin {
            result = connection.receive(id, Bytes::new(), true);
            result?;
        }
    }
    result
}

fn control(frames: &[Vec<u8>]) -> Vec<Stream> {
    vec![(0, [vec![0x00], frames.concat()].concat(), false)]
}

fn check(cases: &[(&str, Side, Vec<Stream>, &str)]) {
    for (name, side, streams, want) in cases {
        for size in [usize::MAX, 1, 3] {
            let mut connection = connection(*side);
            let got = match receive(&mut connection, streams, size) {
                Ok(Incoming::Read) => "read".to_owned(),
                Ok(Incoming::Stop(code)) => format!("stop {code}"),
                Err(error) => verdict(&error),
            };
            assert_eq!(got, *want, "{name}, in pieces of {size}");
        }
    }
}

#[test]
fn control_streams() {
    const UNEXPECTED: &str = "connection H3_FRAME_UNEXPECTED";
    const ID: &str = "connection H3_ID_ERROR";
    let then = |frames: &[Vec<u8>]| control(&[&[settings(&[])], frames].concat());
    check(&[
        (
            "§6.2.1: SETTINGS",
            Server,
            control(&[settings(&[])]),
            "read",
        ),
        (
            "§6.2.1: another frame first",
            Server,
            control(&[frame(0x07, &[0])]),
            "connection H3_MISSING_SETTINGS",
        ),
        (
            "§6.2.1: an unknown frame first",
            Server,
            control(&[frame(0x21, b"x")]),
            "connection H3_MISSING_SETTINGS",
        ),
        (
            "§6.2.1: closed",
            Server,
            vec![(0, [vec![0], settings(&[])].concat(), true)],
            "connection H3_CLOSED_CRITICAL_STREAM",
        ),
        (
            "§6.2.1: closed within SETTINGS",
            Client,
            vec![(0, vec![0, 4], true)],
            "connection H3_CLOSED_CRITICAL_STREAM",
        ),
        (
            "§6.2.1: a second one",
            Server,
            [control(&[settings(&[])]), vec![(1, vec![0], false)]].concat(),
            "connection H3_STREAM_CREATION_ERROR",
        ),
        (
            "§7.2.4: a second SETTINGS",
            Server,
            then(&[settings(&[])]),
            UNEXPECTED,
        ),
        (
            "§7.2.4: a wrong one",
            Server,
            control(&[settings(&[2, 0])]),
            "connection H3_SETTINGS_ERROR",
        ),
        (
            "§7.2.4: one of 5,000 bytes",
            Server,
            control(&[settings(&[0x21; 5_000])]),
            "connection H3_EXCESSIVE_LOAD",
        ),
        (
            "§7.2.1: DATA",
            Server,
            then(&[frame(0x00, b"x")]),
            UNEXPECTED,
        ),
        (
            "§7.2.2: HEADERS",
            Server,
            then(&[frame(0x01, b"x")]),
            UNEXPECTED,
        ),
        (
            "§7.2.5: PUSH_PROMISE",
            Client,
            then(&[frame(0x05, &[0, 0])]),
            UNEXPECTED,
        ),
        (
            "§7.2.8: HTTP/2's PING",
            Server,
            then(&[frame(0x06, &[0; 8])]),
            UNEXPECTED,
        ),
        (
            "§9: an unknown frame",
            Server,
            then(&[frame(0x21, b"x"), frame(0x21, b"")]),
            "read",
        ),
        (
            "§7.2.3: CANCEL_PUSH of no push, at a server",
            Server,
            then(&[frame(0x03, &[0])]),
            ID,
        ),
        (
            "§7.2.3: CANCEL_PUSH of no push, at a client",
            Client,
            then(&[frame(0x03, &[0])]),
            ID,
        ),
        (
            "§7.1: CANCEL_PUSH with more",
            Server,
            then(&[frame(0x03, &[0, 0])]),
            "connection H3_FRAME_ERROR",
        ),
        (
            "§7.2.7: MAX_PUSH_ID",
            Server,
            then(&[frame(0x0d, &[5]), frame(0x0d, &[5]), frame(0x0d, &[6])]),
            "read",
        ),
        (
            "§7.2.7: a smaller one",
            Server,
            then(&[frame(0x0d, &[5]), frame(0x0d, &[4])]),
            ID,
        ),
        (
            "§7.2.7: at a client",
            Client,
            then(&[frame(0x0d, &[5])]),
            UNEXPECTED,
        ),
        (
            "§7.1: MAX_PUSH_ID of nothing",
            Server,
            then(&[frame(0x0d, &[])]),
            "connection H3_FRAME_ERROR",
        ),
        (
            "§7.1: MAX_PUSH_ID of nine bytes",
            Server,
            then(&[frame(0x0d, &[0; 9])]),
            "connection H3_FRAME_ERROR",
        ),
        (
            "§5.2: GOAWAY at a client",
            Client,
            then(&[frame(0x07, &[8]), frame(0x07, &[8]), frame(0x07, &[4])]),
            "read",
        ),
        (
            "§5.2: a larger identifier",
            Client,
            then(&[frame(0x07, &[4]), frame(0x07, &[8])]),
            ID,
        ),
        (
            "§7.2.6: no request's identifier",
            Client,
            then(&[frame(0x07, &[5])]),
            ID,
        ),
        (
            "§5.2: GOAWAY at a server is a Push ID",
            Server,
            then(&[frame(0x07, &[5]), frame(0x07, &[3])]),
            "read",
        ),
        (
            "§5.2: a larger Push ID",
            Server,
            then(&[frame(0x07, &[3]), frame(0x07, &[5])]),
            ID,
        ),
        (
            "§7.1: GOAWAY with more",
            Server,
            then(&[frame(0x07, &[0, 0])]),
            "connection H3_FRAME_ERROR",
        ),
        (
            "RFC 9218 §7.2: PRIORITY_UPDATE",
            Server,
            then(&[frame(0xf0700, b"\x00u=1")]),
            "read",
        ),
        (
            "RFC 9218 §7.2: no request's stream",
            Server,
            then(&[frame(0xf0700, b"\x02u=1")]),
            ID,
        ),
        (
            "RFC 9218 §7.2: beyond what may be opened",
            Server,
            then(&[frame(0xf0700, &varint(128 * 4))]),
            ID,
        ),
        (
            "RFC 9218 §7.2: the last that may be",
            Server,
            then(&[frame(0xf0700, &varint(127 * 4))]),
            "read",
        ),
        (
            "RFC 9218 §7.2: of a push",
            Server,
            then(&[frame(0xf0701, &[0])]),
            ID,
        ),
        (
            "RFC 9218 §7.2: at a client",
            Client,
            then(&[frame(0xf0700, &[0])]),
            UNEXPECTED,
        ),
        (
            "RFC 9218 §7.2: of a push, at a client",
            Client,
            then(&[frame(0xf0701, &[0])]),
            UNEXPECTED,
        ),
        (
            "RFC 9218 §7.2: without an identifier",
            Server,
            then(&[frame(0xf0700, &[])]),
            "connection H3_FRAME_ERROR",
        ),
    ]);
}

#[test]
fn unidirectional_streams() {
    const CREATION: &str = "connection H3_STREAM_CREATION_ERROR";
    const CLOSED: &str = "connection H3_CLOSED_CRITICAL_STREAM";
    check(&[
        (
            "§6.2.2: a push of a client",
            Server,
            vec![(0, vec![1, 0], false)],
            CREATION,
        ),
        (
            "§4.6: a push that was not allowed",
            Client,
            vec![(0, vec![1, 0], false)],
            "connection H3_ID_ERROR",
        ),
        (
            "§6.2: an unknown type",
            Server,
            vec![(0, vec![0x21, 1, 2], false)],
            "stop H3_STREAM_CREATION_ERROR",
        ),
        (
            "§6.2: a stream that ends without a type",
            Server,
            vec![(0, vec![0x40], true)],
            "read",
        ),
        (
            "RFC 9204 §4.2: an encoder stream",
            Server,
            vec![(0, vec![2], false)],
            "read",
        ),
        (
            "RFC 9204 §4.2: a decoder stream",
            Client,
            vec![(0, vec![3], false)],
            "read",
        ),
        (
            "RFC 9204 §4.2: two encoder streams",
            Server,
            vec![(0, vec![2], false), (1, vec![2], false)],
            CREATION,
        ),
        (
            "RFC 9204 §4.2: two decoder streams",
            Server,
            vec![(0, vec![3], false), (1, vec![3], false)],
            CREATION,
        ),
        (
            "RFC 9204 §4.2: an encoder stream ends",
            Server,
            vec![(0, vec![2], true)],
            CLOSED,
        ),
        (
            "RFC 9204 §4.2: a decoder stream ends",
            Client,
            vec![(0, vec![3], true)],
            CLOSED,
        ),
        (
            "RFC 9204 §4.3.1: a larger table",
            Server,
            vec![(0, vec![2, 0x3f, 0xff, 0xff, 0x7f], false)],
            "connection QPACK_ENCODER_STREAM_ERROR",
        ),
        (
            "RFC 9204 §4.4.3: an increment of 0",
            Server,
            vec![(0, vec![3, 0x00], false)],
            "connection QPACK_DECODER_STREAM_ERROR",
        ),
        (
            "RFC 9204 §4.4.1: a section that was not sent",
            Server,
            vec![(0, vec![3, 0x80], false)],
            "connection QPACK_DECODER_STREAM_ERROR",
        ),
    ]);
}

#[test]
fn critical_streams_may_not_be_reset() {
    // (name, the stream's bytes, whether its reset is an error)
    let cases: &[(&str, &[u8], bool)] = &[
        ("§6.2.1: the control stream", &[0], true),
        ("RFC 9204 §4.2: the encoder's", &[2], true),
        ("RFC 9204 §4.2: the decoder's", &[3], true),
        ("§6.2: one of an unknown type", &[0x21], false),
        ("§6.2: one without a type", &[], false),
    ];
    for (name, bytes, is_error) in cases {
        for side in [Server, Client] {
            let mut connection = connection(side);
            connection
                .receive(2, Bytes::from_static(bytes), false)
                .unwrap();
            let code = connection.reset(2).map_err(|error| error.code());
            let want = if *is_error {
                Err(Code::ClosedCriticalStream)
            } else {
                Ok(())
            };
            assert_eq!(code, want, "{name}");
        }
    }
    let stopped = connection(Server).stopped(Outgoing::Control);
    assert_eq!(
        verdict(&stopped),
        "connection H3_CLOSED_CRITICAL_STREAM",
        "§6.2.1: stopped"
    );
}

#[test]
fn bidirectional_streams_are_of_clients() {
    let code = connection(Client)
        .accept(1)
        .map(drop)
        .map_err(|error| error.code());
    assert_eq!(code, Err(Code::StreamCreationError), "§6.1: a server's");
    assert!(connection(Server).accept(0).is_ok(), "§6.1: a client's");
}

#[test]
fn settings_are_sent_first() {
    let config = Config {
        max_field_section_size: 100,
        max_table_capacity: 64,
        max_blocked_streams: 2,
        connect_protocol: true,
        ..Config::default()
    };
    // (side, whether extended CONNECT is offered: RFC 9220 §3)
    for (mut connection, extended) in [
        (Connection::server(config.clone()), true),
        (Connection::client(config), false),
    ] {
        assert!(connection.has_output());
        let output = connection.poll_output().unwrap();
        assert_eq!(output.stream, Outgoing::Control);
        assert_eq!(connection.poll_output(), None);
        assert!(!connection.has_output());
        let mut peer = self::connection(Client);
        receive(&mut peer, &[(0, output.bytes.to_vec(), false)], 1).unwrap();
        let want = Settings {
            max_field_section_size: Some(100),
            qpack_max_table_capacity: 64,
            qpack_blocked_streams: 2,
            connect_protocol: extended,
        };
        assert_eq!(peer.peer_settings(), want);
        assert_eq!(peer.poll_event(), Some(Event::Settings(want)));
    }
}

/// The identifiers in the GOAWAY frames that `connection` has sent since the last call.
fn sent_goaways(connection: &mut Connection) -> Vec<Vec<u8>> {
    let output = connection.poll_output();
    output
        .map(|output| output.bytes.to_vec())
        .into_iter()
        .collect()
}

#[test]
fn servers_stop_in_two_steps() {
    let mut server = connection(Server);
    server.poll_output();
    assert!(server.accept(0).unwrap().is_some());
    server.shutdown(Shutdown::Announce);
    let last = [
        &[0x07, 8][..],
        &(((1u64 << 62) - 4) | 0xc000_0000_0000_0000).to_be_bytes(),
    ]
    .concat();
    assert_eq!(sent_goaways(&mut server), [last], "§5.2: 2^62-4 first");
    server.shutdown(Shutdown::Announce);
    assert!(sent_goaways(&mut server).is_empty(), "nothing new");
    assert!(
        server.accept(8).unwrap().is_some(),
        "what was on its way is taken"
    );
    server.shutdown(Shutdown::Refuse);
    assert_eq!(
        sent_goaways(&mut server),
        [[0x07, 1, 12]],
        "§5.2: what was not accepted"
    );
    assert!(server.accept(4).unwrap().is_some(), "before the identifier");
    assert!(server.accept(12).unwrap().is_none(), "§5.2: rejected");
    assert_eq!(server.open_requests(), 3);
    server.shutdown(Shutdown::Announce);
    assert!(
        sent_goaways(&mut server).is_empty(),
        "§5.2: it does not grow"
    );
}

#[test]
fn clients_open_nothing_on_a_connection_that_stops() {
    let mut client = connection(Client);
    client.open(0, &Method::GET).unwrap();
    receive(
        &mut client,
        &control(&[settings(&[]), frame(0x07, &[4])]),
        99,
    )
    .unwrap();
    assert!(matches!(client.poll_event(), Some(Event::Settings(_))));
    assert_eq!(client.poll_event(), Some(Event::GoAway { id: 4 }));
    assert!(
        client.open(4, &Method::GET).is_err(),
        "§5.2: no new requests"
    );
}

#[test]
fn a_clients_goaway_ends_no_request() {
    let mut server = connection(Server);
    let (mut reader, mut writer) = server.accept(0).unwrap().unwrap();
    receive(
        &mut server,
        &control(&[settings(&[]), frame(0x07, &[0])]),
        99,
    )
    .unwrap();
    let stream = crate::wire::headers(crate::wire::GET);
    let read = crate::wire::read(&mut reader, &mut server, &stream, 99, true);
    assert_eq!(read, "head end");
    let mut out = bytes::BytesMut::new();
    let status = http::StatusCode::OK;
    writer
        .head(status, &http::HeaderMap::new(), &mut server, &mut out)
        .unwrap();
    assert!(
        server.accept(4).unwrap().is_some(),
        "nor does it forbid another"
    );
}

#[test]
fn priority_updates_reach_their_requests() {
    let update = |stream: u8, value: &[u8]| frame(0xf0700, &[&[stream], value].concat());
    let of = |urgency| Priority {
        urgency,
        incremental: false,
    };
    let mut server = connection(Server);
    let streams = control(&[settings(&[]), update(4, b"u=1"), update(4, b"u=2")]);
    receive(&mut server, &streams, 5).unwrap();
    assert!(matches!(server.poll_event(), Some(Event::Settings(_))));
    assert_eq!(server.poll_event(), None, "not before the request");

    let (mut reader, _) = server.accept(4).unwrap().unwrap();
    let get = [crate::wire::GET, &[("priority", "u=7")]].concat();
    reader.receive(crate::wire::headers(&get).into(), true);
    let Ok(hikyaku_h3::stream::Read::Head(head)) = reader.poll(|| &mut server) else {
        panic!("no header section");
    };
    assert_eq!(head.priority, of(2), "the last update, not the field");

    receive(&mut server, &[(0, update(4, b"u=5"), false)], 99).unwrap();
    assert_eq!(
        server.poll_event(),
        Some(Event::Priority {
            stream: 4,
            priority: of(5)
        })
    );
    let now = std::time::Instant::now();
    server
        .end(4, hikyaku_h3::connection::End::Complete, now)
        .unwrap();
    receive(&mut server, &[(0, update(4, b"u=5"), false)], 99).unwrap();
    assert_eq!(server.poll_event(), None, "of a request that is over");
}
