//! Frames of a client, and a server whose events and frames are text.

use std::time::Instant;

use bytes::Buf;
use hikyaku_h2::connection::{Config, Connection, Event};
use hikyaku_h2::error::{Code, Error};
use hikyaku_h2::output::Output;

pub(crate) type Lines<'a> = &'a [(&'a str, &'a str)];

pub(crate) const GET: Lines<'_> = &[
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "a.test"),
    (":path", "/"),
];
pub(crate) const POST: Lines<'_> = &[
    (":method", "POST"),
    (":scheme", "https"),
    (":authority", "a.test"),
    (":path", "/"),
];

pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
pub(crate) const PADDED: u8 = 0x8;
pub(crate) const PRIORITY: u8 = 0x20;
pub(crate) const WHOLE: u8 = END_STREAM | END_HEADERS;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let stream = stream.to_be_bytes();
    [&length[1..], &[kind, flags], &stream[..], payload].concat()
}

/// A field block of literals without Huffman coding.
pub(crate) fn block(lines: Lines<'_>) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in lines {
        block.push(0);
        for text in [name, value] {
            assert!(text.len() < 127, "a short text");
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

pub(crate) fn headers(stream: u32, flags: u8, lines: Lines<'_>) -> Vec<u8> {
    frame(1, flags, stream, &block(lines))
}

pub(crate) fn data(stream: u32, flags: u8, length: usize) -> Vec<u8> {
    frame(0, flags, stream, &vec![b'x'; length])
}

pub(crate) fn reset(stream: u32) -> Vec<u8> {
    frame(3, 0, stream, &Code::CANCEL.value().to_be_bytes())
}

pub(crate) fn window(stream: u32, bytes: u32) -> Vec<u8> {
    frame(8, 0, stream, &bytes.to_be_bytes())
}

pub(crate) fn settings(pairs: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (id, value) in pairs {
        payload.extend_from_slice(&id.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    frame(4, 0, 0, &payload)
}

/// The preface, SETTINGS and the acknowledgement of the server's.
pub(crate) fn opening(pairs: &[(u16, u32)]) -> Vec<u8> {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    [&preface[..], &settings(pairs), &frame(4, 1, 0, &[])].concat()
}

/// A server behind a client's bytes.
pub(crate) struct Server {
    pub(crate) connection: Connection,
    pub(crate) now: Instant,
    output: Output,
}

impl Server {
    /// A server without any byte of a client.
    pub(crate) fn fresh(config: Config) -> Self {
        let now = Instant::now();
        Self {
            connection: Connection::server(config, now),
            now,
            output: Output::new(),
        }
    }

    /// A server after [`opening`], whose first frames have left.
    pub(crate) fn new(config: Config) -> Self {
        Self::with_settings(config, &[])
    }

    pub(crate) fn with_settings(config: Config, pairs: &[(u16, u32)]) -> Self {
        let mut server = Self::fresh(config);
        assert_eq!(server.receive(&opening(pairs)), "");
        server.sent();
        server
    }

    /// Takes bytes. Returns the events, with pieces of content joined.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> String {
        self.receive_in(bytes, bytes.len().max(1))
    }

    /// Takes bytes in pieces of `size`.
    pub(crate) fn receive_in(&mut self, bytes: &[u8], size: usize) -> String {
        let mut events: Vec<String> = Vec::new();
        let mut content = None;
        for mut piece in bytes.chunks(size) {
            loop {
                let event = match self.connection.recv(&mut piece, self.now) {
                    Ok(Some(event)) => event,
                    Ok(None) => break,
                    Err(Error { code, .. }) => {
                        events.extend(content.take().map(in_words));
                        events.push(format!("error {code}"));
                        break;
                    }
                };
                if let Event::Data { stream, data, end } = &event {
                    let (_, length, ended) = match &mut content {
                        Some(before) if before.0 == *stream => before,
                        _ => {
                            events.extend(content.take().map(in_words));
                            content.insert((*stream, 0, false))
                        }
                    };
                    *length += data.len();
                    *ended |= end;
                } else {
                    events.extend(content.take().map(in_words));
                    events.push(text(&event));
                }
            }
        }
        events.extend(content.map(in_words));
        events.join(", ")
    }

    /// The frames that leave now.
    pub(crate) fn sent(&mut self) -> String {
        self.sent_up_to(usize::MAX)
    }

    pub(crate) fn sent_up_to(&mut self, max: usize) -> String {
        self.connection.poll_transmit(&mut self.output, max);
        let bytes = self.output.copy_to_bytes(self.output.remaining());
        frames(&bytes)
    }
}

fn in_words((stream, length, end): (u32, usize, bool)) -> String {
    format!("data {stream}: {length}{}", if end { " end" } else { "" })
}

fn text(event: &Event<'_>) -> String {
    let end = |end: bool| if end { " end" } else { "" };
    match event {
        Event::Request {
            stream,
            head,
            end: is_end,
        } => format!("{} {stream}{}", head.method(), end(*is_end)),
        Event::TooLarge {
            stream,
            end: is_end,
        } => format!("too large {stream}{}", end(*is_end)),
        Event::Data { .. } => unreachable!(),
        Event::Trailers { stream, trailers } => format!("trailers {stream}: {}", trailers.len()),
        Event::Reset {
            stream,
            code,
            fault: None,
        } => format!("reset {stream} {code}"),
        Event::Reset { stream, code, .. } => format!("fault {stream} {code}"),
        Event::Pong { payload } => format!("pong {}", payload.escape_ascii()),
        Event::GoAway { code } => format!("goaway {code}"),
    }
}

/// Frames of a server in words.
pub(crate) fn frames(mut bytes: &[u8]) -> String {
    let mut words = Vec::new();
    while let Some((&[a, b, c, kind, flags, d, e, f, g], rest)) = bytes.split_first_chunk() {
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let stream = u32::from_be_bytes([d, e, f, g]);
        let (payload, rest) = rest.split_at(length);
        bytes = rest;
        let number = |at: usize| payload[at..].first_chunk().copied().map(u32::from_be_bytes);
        let code = |at| Code::from_value(number(at).unwrap());
        let end = if flags & END_STREAM != 0 { " end" } else { "" };
        words.push(match kind {
            0 => format!("DATA {stream}: {length}{end}"),
            1 => format!("HEADERS {stream}{end}"),
            3 => format!("RST_STREAM {stream} {}", code(0)),
            4 if flags & 1 != 0 => "SETTINGS ack".to_owned(),
            4 => "SETTINGS".to_owned(),
            6 if flags & 1 != 0 => format!("PING ack {}", payload.escape_ascii()),
            6 => format!("PING {}", payload.escape_ascii()),
            7 => format!("GOAWAY {} {}", number(0).unwrap(), code(4)),
            8 => format!("WINDOW_UPDATE {stream}: {}", number(0).unwrap()),
            9 => format!("CONTINUATION {stream}"),
            _ => format!("{kind} {stream}"),
        });
    }
    assert!(bytes.is_empty(), "half a frame");
    words.join(", ")
}
