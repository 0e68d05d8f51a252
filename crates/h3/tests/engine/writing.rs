//! Writing of messages: the order, and the limits by their header section.

use bytes::BytesMut;
use hikyaku_h3::connection::{Config, Connection};
use hikyaku_h3::message::RequestHead;
use hikyaku_h3::stream::Unsent;
use http::{HeaderMap, Method, Request, StatusCode};

use crate::wire::{read, settings};

/// A step of writing a response.
#[derive(Clone, Copy, Debug)]
enum Step {
    Head(u16),
    HeadOfLength(u16, &'static str),
    Data(usize),
    Trailers,
    Finish,
}
use Step::{Data, Finish, Head, HeadOfLength, Trailers};

fn write(method: &Method, steps: &[Step]) -> Result<Vec<u8>, Unsent> {
    let mut server = Connection::server(Config::default());
    let (_, mut writer) = server.accept(0).unwrap().unwrap();
    writer.answers(method);
    let mut out = BytesMut::new();
    for step in steps {
        let mut headers = HeaderMap::new();
        match *step {
            Head(status) => {
                let status = StatusCode::from_u16(status).unwrap();
                writer.head(status, &headers, &mut server, &mut out)?;
            }
            HeadOfLength(status, length) => {
                headers.insert("content-length", length.parse().unwrap());
                let status = StatusCode::from_u16(status).unwrap();
                writer.head(status, &headers, &mut server, &mut out)?;
            }
            Data(length) => {
                writer.data(length, &mut out)?;
                out.resize(out.len() + length, b'x');
            }
            Trailers => {
                headers.insert("a", "b".parse().unwrap());
                writer.trailers(&headers, &mut server, &mut out)?;
            }
            Finish => writer.finish()?,
        }
    }
    Ok(out.to_vec())
}

#[test]
fn responses() {
    let (get, head) = (Method::GET, Method::HEAD);
    // (name, the request's method, steps, the parts that a client reads of them)
    let cases: &[(&str, &Method, &[Step], Result<&str, Unsent>)] = &[
        (
            "§4.1: all parts",
            &get,
            &[
                Head(103),
                Head(103),
                HeadOfLength(200, "5"),
                Data(2),
                Data(3),
                Trailers,
                Finish,
            ],
            Ok("head head head data:5 trailers end"),
        ),
        (
            "§4.1: a header section alone",
            &get,
            &[Head(200), Finish],
            Ok("head end"),
        ),
        ("§4.1: content first", &get, &[Data(1)], Err(Unsent::Order)),
        (
            "§4.1: content after an interim one",
            &get,
            &[Head(103), Data(1)],
            Err(Unsent::Order),
        ),
        (
            "§4.1: trailers first",
            &get,
            &[Trailers],
            Err(Unsent::Order),
        ),
        ("§4.1: nothing", &get, &[Finish], Err(Unsent::Order)),
        (
            "§4.1: two header sections",
            &get,
            &[Head(200), Head(200)],
            Err(Unsent::Order),
        ),
        (
            "§4.1: content after trailers",
            &get,
            &[Head(200), Trailers, Data(1)],
            Err(Unsent::Order),
        ),
        (
            "§4.1: two trailer sections",
            &get,
            &[Head(200), Trailers, Trailers],
            Err(Unsent::Order),
        ),
        (
            "§4.5: 101",
            &get,
            &[Head(101)],
            Err(Unsent::SwitchesProtocols),
        ),
        (
            "§4.1.2: more than Content-Length",
            &get,
            &[HeadOfLength(200, "1"), Data(2)],
            Err(Unsent::Content),
        ),
        (
            "§4.1.2: less",
            &get,
            &[HeadOfLength(200, "3"), Data(2), Finish],
            Err(Unsent::Content),
        ),
        (
            "§4.1.2: less, before trailers",
            &get,
            &[HeadOfLength(200, "3"), Data(2), Trailers],
            Err(Unsent::Content),
        ),
        (
            "RFC 9110 §9.3.2: HEAD",
            &head,
            &[HeadOfLength(200, "3"), Finish],
            Ok("head end"),
        ),
        (
            "RFC 9110 §9.3.2: content after HEAD",
            &head,
            &[Head(200), Data(1)],
            Err(Unsent::Content),
        ),
        (
            "RFC 9110 §15.3.5: content after 204",
            &get,
            &[Head(204), Data(1)],
            Err(Unsent::Content),
        ),
        (
            "RFC 9110 §15.4.5: content after 304",
            &get,
            &[HeadOfLength(304, "1"), Data(1)],
            Err(Unsent::Content),
        ),
        (
            "§7.2.1: content of no bytes",
            &head,
            &[Head(200), Data(0), Finish],
            Ok("head end"),
        ),
        (
            "§4.4: a tunnel",
            &Method::CONNECT,
            &[Head(200), Data(5), Finish],
            Ok("head data:5 end"),
        ),
        (
            "§4.4: trailers on a tunnel",
            &Method::CONNECT,
            &[Head(200), Trailers],
            Err(Unsent::Order),
        ),
    ];
    for (name, method, steps, want) in cases {
        let got = write(method, steps).map(|stream| {
            let mut client = Connection::client(Config::default());
            let (_, mut reader) = client.open(0, method).unwrap();
            read(&mut reader, &mut client, &stream, 99, true)
        });
        assert_eq!(got.as_deref().map_err(|error| *error), *want, "{name}");
    }
}

#[test]
fn large_sections_find_room_for_their_length() {
    for length in [1, 16_000, 16_383, 16_384, 40_000] {
        let mut client = Connection::client(Config::default());
        let (mut writer, _) = client.open(0, &Method::POST).unwrap();
        // Upper-case letters are not shorter in Huffman code, so that their length is kept.
        let request = Request::post("https://a.test/").header("a", "X".repeat(length));
        let head = RequestHead::from(request.body(()).unwrap().into_parts().0);
        let mut out = BytesMut::from(&b""[..]);
        writer.head(&head, &mut client, &mut out).unwrap();
        writer.data(3, &mut out).unwrap();
        out.extend_from_slice(b"abc");
        let mut server = Connection::server(Config::default());
        let (mut reader, _) = server.accept(0).unwrap().unwrap();
        let got = read(&mut reader, &mut server, &out, 9_999, true);
        assert_eq!(got, "head data:3 end", "{length}");
    }
}

#[test]
fn the_peers_limit_is_kept() {
    let mut client = Connection::client(Config::default());
    let stream = [vec![0], settings(&[0x06, 0x40, 0xc8])].concat();
    client.receive(3, stream.into(), false).unwrap();
    let (mut writer, _) = client.open(0, &Method::GET).unwrap();
    let mut out = BytesMut::new();
    // :method GET 42, :scheme https 44, :authority a.test 48, :path / 38: 172 of 200.
    for (value, want) in [("xx", Some(207)), ("", None)] {
        let mut request = Request::get("https://a.test/");
        if !value.is_empty() {
            request = request.header("a", value);
        }
        let head = RequestHead::from(request.body(()).unwrap().into_parts().0);
        let got = writer.head(&head, &mut client, &mut out);
        match want {
            Some(size) => {
                assert_eq!(got, Err(Unsent::TooLarge { size, limit: 200 }), "§4.2.2");
                assert!(out.is_empty());
            }
            None => assert_eq!(got, Ok(()), "§4.2.2: within"),
        }
    }
}
