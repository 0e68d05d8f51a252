//! Encoding requests.

use bytes::{BufMut, Bytes};
use http::{HeaderMap, Method};

/// Appends a request's head (RFC 9112 §3, §5): its line, then its fields, one by one.
#[derive(Debug)]
pub struct HeadEncoder<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> HeadEncoder<'a> {
    /// Appends the request's line.
    ///
    /// `target` must have no whitespace and no control character; a `PathAndQuery` has none.
    pub fn new(out: &'a mut Vec<u8>, method: &Method, target: &str) -> Self {
        out.put_slice(method.as_str().as_bytes());
        out.put_u8(b' ');
        out.put_slice(target.as_bytes());
        out.put_slice(b" HTTP/1.1\r\n");
        Self { out }
    }

    /// Appends a field of a valid name and value.
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        self.value(name, |out| out.put_slice(value));
    }

    /// Appends a field of a valid name, whose value `write` appends.
    pub fn value(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.out.reserve(name.len() + 64);
        self.out.put_slice(name);
        self.out.put_slice(b": ");
        write(self.out);
        self.out.put_slice(b"\r\n");
    }

    /// Appends the empty line at the end.
    pub fn finish(self) {
        self.out.put_slice(b"\r\n");
    }
}

fn encode_fields(out: &mut Vec<u8>, fields: &HeaderMap) {
    let mut head = HeadEncoder { out };
    for (name, value) in fields {
        head.field(name.as_str().as_bytes(), value.as_bytes());
    }
    head.finish();
}

/// Encodes a request's content (RFC 9112 §6). The request's fields must announce the same framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoder {
    /// `Content-Length`, with the bytes that are still to come. 0 is that of no content, too.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

/// The bytes around a piece of content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// The size of a chunk.
    pub before: Vec<u8>,
    /// The end of a chunk.
    pub after: Bytes,
}

impl Encoder {
    /// Frames the next `length` bytes of content. There is no chunk of none, which would be the last.
    ///
    /// # Errors
    /// If the content is longer than announced.
    pub fn data(&mut self, length: usize) -> Result<Around, LengthMismatch> {
        match self {
            Self::Length(left) => {
                *left = left.checked_sub(length as u64).ok_or(LengthMismatch)?;
                Ok(Around::default())
            }
            Self::Chunked if length == 0 => Ok(Around::default()),
            Self::Chunked => Ok(Around {
                before: format!("{length:x}\r\n").into_bytes(),
                after: Bytes::from_static(b"\r\n"),
            }),
        }
    }

    /// Encodes the end of the content, with trailers where they are possible (RFC 9112 §7.1.2).
    ///
    /// # Errors
    /// If the content is shorter than announced. The connection then has to be closed: whatever
    /// followed would be taken for content.
    pub fn end(self, trailers: Option<&HeaderMap>) -> Result<Vec<u8>, LengthMismatch> {
        match self {
            Self::Length(0) => Ok(Vec::new()),
            Self::Length(_) => Err(LengthMismatch),
            Self::Chunked => {
                let mut end = b"0\r\n".to_vec();
                encode_fields(&mut end, trailers.unwrap_or(&HeaderMap::new()));
                Ok(end)
            }
        }
    }
}

/// A request's content has not the length that its fields announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request's content has not the length that it announces")]
pub struct LengthMismatch;

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_head_has_a_line_for_each_field() {
        let mut head = Vec::new();
        let mut encoder = HeadEncoder::new(&mut head, &Method::DELETE, "/a?b");
        encoder.field(b"host", b"a.example");
        encoder.value(b"x", |out| out.push(b'1'));
        encoder.field(b"x", b"");
        encoder.finish();
        let want = "DELETE /a?b HTTP/1.1\r\nhost: a.example\r\nx: 1\r\nx: \r\n\r\n";
        assert_eq!(String::from_utf8(head).unwrap(), want);
    }

    #[test]
    fn a_chunk_has_its_size_before_and_a_line_end_after_it() {
        let around = Encoder::Chunked.data(26).unwrap();
        assert_eq!(
            (&*around.before, &*around.after),
            (&b"1a\r\n"[..], &b"\r\n"[..])
        );
        assert_eq!(Encoder::Chunked.data(0).unwrap(), Around::default());
        assert_eq!(Encoder::Chunked.end(None).unwrap(), b"0\r\n\r\n");
        let trailers = HeaderMap::from_iter([(http::header::ETAG, HeaderValue::from_static("x"))]);
        let end = Encoder::Chunked.end(Some(&trailers)).unwrap();
        assert_eq!(end, b"0\r\netag: x\r\n\r\n");
    }

    #[test]
    fn content_of_another_length_than_announced_is_an_error() {
        // announced bytes, pieces of the content, whether they are taken
        let cases: &[(u64, &[usize], bool)] = &[
            (0, &[], true),
            (0, &[0], true),
            (5, &[2, 3], true),
            (5, &[2], false),
            (5, &[2, 4], false),
            (0, &[1], false),
        ];
        for (length, pieces, want) in cases {
            let mut encoder = Encoder::Length(*length);
            let data = pieces.iter().try_for_each(|piece| {
                let around = encoder.data(*piece)?;
                assert_eq!(around, Around::default());
                Ok(())
            });
            let ended = data.and_then(|()| encoder.end(None));
            assert_eq!(ended.is_ok(), *want, "{length} {pieces:?}");
        }
    }
}
