//! HTTP/3 (RFC 9114) without I/O: a server's and a client's side of a connection.
//!
//! A [`connection::Connection`] holds what the streams of a connection share. Messages are read
//! and written by [`stream::Reader`]s and [`stream::Writer`]s, one of each for a request, which
//! need it for header and trailer sections alone. Who drives them moves bytes between them and
//! QUIC's streams. There is no socket, task, clock or type of a QUIC implementation in them.
//!
//! ```
//! use bytes::{Bytes, BytesMut};
//! use hikyaku_h3::connection::{Config, Connection};
//! use hikyaku_h3::message::RequestHead;
//! use hikyaku_h3::stream::Read;
//! use http::{HeaderMap, Method, Request, StatusCode};
//!
//! let mut client = Connection::client(Config::default());
//! let mut server = Connection::server(Config::default());
//! // Both begin with a control stream of their own, whose bytes are the other's to read.
//! let begin = client.poll_output().expect("a control stream");
//! server.receive(2, begin.bytes, false)?;
//! let begin = server.poll_output().expect("a control stream");
//! client.receive(3, begin.bytes, false)?;
//!
//! // A request on stream 0, which ends with it.
//! let request = Request::post("https://example.com/").body(())?;
//! let (mut writer, mut response) = client.open(0, &Method::POST)?;
//! let mut out = BytesMut::new();
//! writer.head(&RequestHead::from(request.into_parts().0), &mut client, &mut out)?;
//! writer.data(5, &mut out)?;
//! let content = Bytes::from_static(b"hello");
//! writer.finish()?;
//!
//! // The server: header section, content as it arrived, end.
//! let (mut reader, mut writer) = server.accept(0)?.expect("not yet stopping");
//! reader.receive(out.split().freeze(), false);
//! let Read::Head(head) = reader.poll(|| &mut server)? else { panic!() };
//! assert_eq!(head.parts.uri, "https://example.com/");
//! assert!(matches!(reader.poll(|| &mut server)?, Read::NeedsInput));
//! reader.receive(content, true);
//! assert!(matches!(reader.poll(|| &mut server)?, Read::Data(data) if data == "hello"));
//! assert!(matches!(reader.poll(|| &mut server)?, Read::End));
//! writer.answers(&head.parts.method);
//! writer.head(StatusCode::NO_CONTENT, &HeaderMap::new(), &mut server, &mut out)?;
//! writer.finish()?;
//!
//! response.receive(out.freeze(), true);
//! let Read::Head(head) = response.poll(|| &mut client)? else { panic!() };
//! assert_eq!(head.status, StatusCode::NO_CONTENT);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod budget;
pub mod connection;
pub mod error;
mod frame;
pub mod message;
pub mod priority;
pub mod qpack;
pub mod settings;
pub mod stream;
mod varint;
