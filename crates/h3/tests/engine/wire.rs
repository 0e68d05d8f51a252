//! Frames and streams of a peer, and a reader's parts of them.

use bytes::Bytes;
use hikyaku_h3::connection::Connection;
use hikyaku_h3::error::Error;
use hikyaku_h3::stream::{Read, Reader};

/// A variable-length integer (RFC 9000 §16) in eight bytes, which suffice for every value.
pub(crate) fn varint(value: u64) -> Vec<u8> {
    (value | 0xc000_0000_0000_0000).to_be_bytes().to_vec()
}

/// A frame (RFC 9114 §7.1).
pub(crate) fn frame(kind: u64, content: &[u8]) -> Vec<u8> {
    [&varint(kind)[..], &varint(content.len() as u64), content].concat()
}

pub(crate) fn data(content: &[u8]) -> Vec<u8> {
    frame(0x00, content)
}

pub(crate) fn headers(lines: &[(&str, &str)]) -> Vec<u8> {
    frame(0x01, &section(lines))
}

pub(crate) fn settings(content: &[u8]) -> Vec<u8> {
    frame(0x04, content)
}

/// The header section of a GET of `https://a.test/`.
pub(crate) const GET: &[(&str, &str)] = &[
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "a.test"),
    (":path", "/"),
];

/// A field section of literals alone (RFC 9204 §4.5.6), as any encoder may make it.
pub(crate) fn section(lines: &[(&str, &str)]) -> Vec<u8> {
    let mut out = vec![0, 0];
    for (name, value) in lines {
        prefixed(0x20, 3, name.len(), &mut out);
        out.extend_from_slice(name.as_bytes());
        prefixed(0, 7, value.len(), &mut out);
        out.extend_from_slice(value.as_bytes());
    }
    out
}

/// An integer with a prefix of `bits` (RFC 7541 §5.1).
fn prefixed(first: u8, bits: u32, value: usize, out: &mut Vec<u8>) {
    let max = (1 << bits) - 1;
    if value < max {
        out.push(first | value as u8);
        return;
    }
    out.push(first | max as u8);
    let mut rest = value - max;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// The scope and the code of an error.
pub(crate) fn verdict(error: &Error) -> String {
    let of = if error.is_of_connection() {
        "connection"
    } else {
        "stream"
    };
    format!("{of} {}", error.code())
}

/// The parts of a message in words. Consecutive DATA is joined.
#[derive(Default)]
pub(crate) struct Seen {
    words: Vec<String>,
    data: usize,
}

impl Seen {
    fn say(&mut self, word: impl Into<String>) {
        if self.data > 0 {
            self.words.push(format!("data:{}", self.data));
            self.data = 0;
        }
        self.words.push(word.into());
    }

    pub(crate) fn text(mut self) -> String {
        if self.data > 0 {
            self.words.push(format!("data:{}", self.data));
        }
        self.words.join(" ")
    }
}

/// Reads on. Returns whether more can come.
pub(crate) fn drain<H: hikyaku_h3::message::Head>(
    reader: &mut Reader<H>,
    connection: &mut Connection,
    seen: &mut Seen,
) -> bool {
    loop {
        match reader.poll(|| &mut *connection) {
            Ok(Read::Head(_)) => seen.say("head"),
            Ok(Read::Data(data)) => {
                assert!(!data.is_empty(), "content of no bytes");
                seen.data += data.len();
            }
            Ok(Read::Trailers(_)) => seen.say("trailers"),
            Ok(Read::NeedsInput) => return true,
            Ok(Read::Blocked) => {
                seen.say("blocked");
                return false;
            }
            Ok(Read::End) => {
                seen.say("end");
                return false;
            }
            Ok(Read::TooLarge) => {
                seen.say("too-large");
                return false;
            }
            Err(error) => {
                seen.say(verdict(&error));
                return false;
            }
        }
    }
}

/// Gives `stream` to `reader` in pieces of `size`, with `fin` on the last if it is set. Returns the
/// parts that were read.
pub(crate) fn read<H: hikyaku_h3::message::Head>(
    reader: &mut Reader<H>,
    connection: &mut Connection,
    stream: &[u8],
    size: usize,
    fin: bool,
) -> String {
    let mut seen = Seen::default();
    let mut chunks = stream.chunks(size).peekable();
    while let Some(chunk) = chunks.next() {
        let last = chunks.peek().is_none();
        reader.receive(Bytes::copy_from_slice(chunk), fin && last);
        if !drain(reader, connection, &mut seen) {
            return seen.text();
        }
    }
    if stream.is_empty() && fin {
        reader.receive(Bytes::new(), true);
        drain(reader, connection, &mut seen);
    }
    seen.text()
}
