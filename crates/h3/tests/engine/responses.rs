//! Responses at a client: frames of a request stream by the sentences of the RFCs.

use hikyaku_h3::connection::{Config, Connection};
use http::Method;

use crate::wire::{data, frame, headers, read};

fn status(status: &str) -> Vec<u8> {
    headers(&[(":status", status)])
}

fn of_length(status: &str, length: &str) -> Vec<u8> {
    headers(&[(":status", status), ("content-length", length)])
}

#[test]
fn frames_come_in_order() {
    let get = Method::GET;
    // (name, the request's method, stream, the parts that are read of it)
    let cases: &[(&str, &Method, Vec<u8>, &str)] = &[
        (
            "§4.1: a response",
            &get,
            [status("200"), data(b"abc")].concat(),
            "head data:3 end",
        ),
        (
            "§4.1: interim ones",
            &get,
            [status("100"), status("103"), status("103"), status("200")].concat(),
            "head head head head end",
        ),
        (
            "§4.1: an interim one alone",
            &get,
            status("103"),
            "head stream H3_MESSAGE_ERROR",
        ),
        (
            "§4.1: content after an interim one",
            &get,
            [status("103"), data(b"a")].concat(),
            "head connection H3_FRAME_UNEXPECTED",
        ),
        ("§4.5: 101", &get, status("101"), "stream H3_MESSAGE_ERROR"),
        (
            "§4.1: an empty stream",
            &get,
            vec![],
            "stream H3_MESSAGE_ERROR",
        ),
        (
            "§4.1: DATA before HEADERS",
            &get,
            data(b"a"),
            "connection H3_FRAME_UNEXPECTED",
        ),
        (
            "§4.1: a final one after a final one is trailers",
            &get,
            [status("200"), status("200")].concat(),
            "head stream H3_MESSAGE_ERROR",
        ),
        (
            "§4.1.2: Content-Length",
            &get,
            [of_length("200", "3"), data(b"abc")].concat(),
            "head data:3 end",
        ),
        (
            "§4.1.2: less content",
            &get,
            [of_length("200", "3"), data(b"ab")].concat(),
            "head data:2 stream H3_MESSAGE_ERROR",
        ),
        (
            "§4.1.2: more",
            &get,
            [of_length("200", "3"), data(b"abcd")].concat(),
            "head stream H3_MESSAGE_ERROR",
        ),
        (
            "§4.1.2: HEAD has none",
            &Method::HEAD,
            of_length("200", "3"),
            "head end",
        ),
        (
            "§4.1.2: content after HEAD",
            &Method::HEAD,
            [of_length("200", "3"), data(b"abc")].concat(),
            "head stream H3_MESSAGE_ERROR",
        ),
        (
            "§4.1.2: 304 has none",
            &get,
            of_length("304", "3"),
            "head end",
        ),
        (
            "RFC 9110 §15.3.5: content after 204",
            &get,
            [status("204"), data(b"a")].concat(),
            "head stream H3_MESSAGE_ERROR",
        ),
        (
            "RFC 9110 §6.4.1: DATA of no bytes is none",
            &get,
            [status("204"), data(b"")].concat(),
            "head end",
        ),
        (
            "§4.4: a tunnel",
            &Method::CONNECT,
            [of_length("200", "1"), data(b"abc")].concat(),
            "head data:3 end",
        ),
        (
            "§4.4: HEADERS on a tunnel",
            &Method::CONNECT,
            [status("200"), headers(&[("a", "b")])].concat(),
            "head connection H3_FRAME_UNEXPECTED",
        ),
        (
            "§7.2.5: PUSH_PROMISE beyond MAX_PUSH_ID",
            &get,
            [status("200"), frame(0x05, &[0, 0, 0])].concat(),
            "head connection H3_ID_ERROR",
        ),
        (
            "§7.2.4: SETTINGS",
            &get,
            frame(0x04, &[]),
            "connection H3_FRAME_UNEXPECTED",
        ),
        (
            "§7.1: ends within DATA",
            &get,
            [status("200"), data(b"abc")[..17].to_vec()].concat(),
            "head data:1 connection H3_FRAME_ERROR",
        ),
    ];
    for (name, method, stream, want) in cases {
        for size in [stream.len().max(1), 1, 7] {
            let mut connection = Connection::client(Config::default());
            let (_, mut reader) = connection.open(0, method).unwrap();
            let got = read(&mut reader, &mut connection, stream, size, true);
            assert_eq!(got, *want, "{name}, in pieces of {size}");
        }
    }
}
