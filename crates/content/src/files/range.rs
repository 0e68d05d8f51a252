//! Byte ranges (RFC 9110 §14).

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use http_body::{Frame, SizeHint};

use super::representation::Source;
use super::stream::{FileStream, ReadError};
use crate::Body;

/// The request of a `Range` field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ranges {
    /// The whole content: there is no field, or it is unknown, malformed or not worth it.
    Whole,
    /// At least one part. No part is empty, and all are within the content.
    Parts(Vec<Range<u64>>),
    /// No part is within the content: status 416.
    Unsatisfiable,
}

impl Ranges {
    /// Reads the `Range` field of a `GET` for content of `len` bytes.
    ///
    /// §14.2 lets a server ignore the field. This one does so for several fields, for many or
    /// overlapping parts, and for empty content, since `Content-Range` can name no part of that.
    pub(crate) fn of(headers: &HeaderMap, len: u64) -> Self {
        let mut fields = headers.get_all(header::RANGE).iter();
        let (Some(field), None) = (fields.next(), fields.next()) else {
            return Self::Whole;
        };
        let Some(specs) = field.to_str().ok().and_then(specs) else {
            return Self::Whole;
        };
        if len == 0 || specs.is_empty() || specs.len() > MAX_PARTS {
            return Self::Whole;
        }
        let resolved = specs.iter().filter_map(|spec| spec.resolve(len));
        let parts: Vec<Range<u64>> = resolved.collect();
        if parts.is_empty() {
            return Self::Unsatisfiable;
        }
        let asked = parts
            .iter()
            .fold(0_u64, |sum, part| sum.saturating_add(part.end - part.start));
        if parts.len() > 1 && asked >= len {
            return Self::Whole;
        }
        Self::Parts(parts)
    }
}

/// One element of a `Range` field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spec {
    /// From the first position on, up to and with the last one if there is one.
    From(u64, Option<u64>),
    /// So many bytes at the end.
    Suffix(u64),
}

impl Spec {
    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-')?;
        match (first, last) {
            ("", length) => Some(Self::Suffix(position(length)?)),
            (first, "") => Some(Self::From(position(first)?, None)),
            (first, last) => {
                let (first, last) = (position(first)?, position(last)?);
                (first <= last).then_some(Self::From(first, Some(last)))
            }
        }
    }

    /// The part of content of `len` bytes; `None` if it is outside.
    fn resolve(self, len: u64) -> Option<Range<u64>> {
        let part = match self {
            Self::From(first, last) => {
                first..last.map_or(len, |last| last.saturating_add(1).min(len))
            }
            Self::Suffix(length) => len.saturating_sub(length)..len,
        };
        (part.start < part.end).then_some(part)
    }
}

/// Reads all elements of a field; `None` if it has another unit or is malformed.
fn specs(field: &str) -> Option<Vec<Spec>> {
    let (unit, set) = field.split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let elements = set
        .split(',')
        .map(|element| element.trim_matches([' ', '\t']));
    let elements = elements.filter(|element| !element.is_empty());
    elements.map(Spec::parse).collect()
}

/// Reads a position of any number of digits. One beyond all sizes counts as the largest.
fn position(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// The `Content-Range` of a part.
pub(crate) fn content_range(part: &Range<u64>, len: u64) -> String {
    format!("bytes {}-{}/{len}", part.start, part.end - 1)
}

/// A `multipart/byteranges` body (§14.6).
#[derive(Debug)]
pub(crate) struct Multipart {
    source: Source,
    pieces: VecDeque<Piece>,
    remaining: u64,
    current: Option<FileStream>,
}

#[derive(Debug)]
enum Piece {
    Text(Bytes),
    Part(Range<u64>),
}

impl Multipart {
    /// Makes the body from parts of content in memory, as [`Multipart::new`].
    pub(crate) fn of_memory(
        content: &Bytes,
        etag: Option<&HeaderValue>,
        content_type: Option<&HeaderValue>,
        parts: Vec<Range<u64>>,
    ) -> (Self, HeaderValue) {
        let source = Source::Memory(content.clone());
        Self::new(source, content.len() as u64, etag, content_type, parts)
    }

    /// Makes the body from parts of content of `len` bytes, and the `Content-Type` that names its
    /// boundary.
    pub(super) fn new(
        source: Source,
        len: u64,
        etag: Option<&HeaderValue>,
        content_type: Option<&HeaderValue>,
        parts: Vec<Range<u64>>,
    ) -> (Self, HeaderValue) {
        let boundary = boundary(etag);
        let content_type = content_type.map_or(&b""[..], HeaderValue::as_bytes);
        let mut pieces = VecDeque::with_capacity(2 * parts.len() + 1);
        for part in parts {
            let mut head = format!("\r\n--{boundary}\r\ncontent-type: ").into_bytes();
            head.extend_from_slice(content_type);
            let content_range = content_range(&part, len);
            head.extend_from_slice(
                format!("\r\ncontent-range: {content_range}\r\n\r\n").as_bytes(),
            );
            pieces.push_back(Piece::Text(head.into()));
            pieces.push_back(Piece::Part(part));
        }
        pieces.push_back(Piece::Text(format!("\r\n--{boundary}--\r\n").into()));
        let remaining = pieces.iter().map(Piece::len).sum();
        let body = Self {
            source,
            pieces,
            remaining,
            current: None,
        };
        let value = format!("multipart/byteranges; boundary={boundary}");
        let value = HeaderValue::try_from(value)
            .unwrap_or(HeaderValue::from_static("multipart/byteranges"));
        (body, value)
    }

    pub(crate) const fn remaining(&self) -> u64 {
        self.remaining
    }
}

impl Piece {
    fn len(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Part(part) => part.end - part.start,
        }
    }
}

impl http_body::Body for Multipart {
    type Data = Bytes;
    type Error = ReadError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ReadError>>> {
        loop {
            if let Some(stream) = &mut self.current {
                match stream.poll_chunk(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(None) => self.current = None,
                    Poll::Ready(Some(Ok(chunk))) => return self.send(chunk),
                    Poll::Ready(Some(Err(error))) => {
                        self.pieces.clear();
                        self.remaining = 0;
                        return Poll::Ready(Some(Err(error)));
                    }
                }
            }
            match (self.pieces.pop_front(), &self.source) {
                (None, _) => return Poll::Ready(None),
                (Some(Piece::Text(text)), _) => return self.send(text),
                (Some(Piece::Part(part)), Source::Memory(bytes)) => {
                    let bytes = slice(bytes, &part);
                    return self.send(bytes);
                }
                (Some(Piece::Part(part)), Source::File(file)) => {
                    self.current = Some(FileStream::new(Arc::clone(file), part));
                }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}

impl Multipart {
    fn send(&mut self, bytes: Bytes) -> Poll<Option<Result<Frame<Bytes>, ReadError>>> {
        self.remaining -= bytes.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}

/// Makes a body of one part.
pub(super) fn part_body(source: &Source, part: Range<u64>) -> Body {
    match source {
        Source::Memory(bytes) => slice(bytes, &part).into(),
        Source::File(file) => Body::file(FileStream::new(Arc::clone(file), part)),
    }
}

/// The bytes of a part that lies within `bytes`, so that its length fits into memory.
fn slice(bytes: &Bytes, part: &Range<u64>) -> Bytes {
    bytes.slice(part.start as usize..part.end as usize)
}

/// Makes a boundary that authors of files cannot know beforehand. Repeated requests to one process
/// get the same.
fn boundary(etag: Option<&HeaderValue>) -> String {
    let etag = etag.map_or(&b""[..], HeaderValue::as_bytes);
    static KEYS: LazyLock<[RandomState; 2]> =
        LazyLock::new(|| [RandomState::new(), RandomState::new()]);
    let [high, low] = KEYS.each_ref().map(|key| key.hash_one(etag));
    format!("{high:016x}{low:016x}")
}

/// More parts than any viewer requests at once.
const MAX_PARTS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges(fields: &[&str], len: u64) -> Ranges {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(header::RANGE, HeaderValue::from_str(field).unwrap());
        }
        Ranges::of(&headers, len)
    }

    #[test]
    fn ranges_resolve_against_the_length() {
        use Ranges::{Unsatisfiable, Whole};
        let parts = |parts: &[(u64, u64)]| {
            Ranges::Parts(parts.iter().map(|&(start, end)| start..end).collect())
        };
        let most = u64::MAX;
        type Case<'a> = (&'a str, &'a [&'a str], u64, Ranges);
        let cases: &[Case<'_>] = &[
            ("none", &[], 1000, Whole),
            ("first bytes", &["bytes=0-499"], 1000, parts(&[(0, 500)])),
            ("one byte", &["bytes=5-5"], 1000, parts(&[(5, 6)])),
            ("open end", &["bytes=900-"], 1000, parts(&[(900, 1000)])),
            ("all", &["bytes=0-"], 1000, parts(&[(0, 1000)])),
            ("suffix", &["bytes=-100"], 1000, parts(&[(900, 1000)])),
            (
                "suffix beyond the start",
                &["bytes=-1001"],
                1000,
                parts(&[(0, 1000)]),
            ),
            (
                "suffix of the length",
                &["bytes=-1000"],
                1000,
                parts(&[(0, 1000)]),
            ),
            ("suffix of nothing", &["bytes=-0"], 1000, Unsatisfiable),
            (
                "end beyond the length",
                &["bytes=990-2000"],
                1000,
                parts(&[(990, 1000)]),
            ),
            ("start at the length", &["bytes=1000-"], 1000, Unsatisfiable),
            ("start beyond", &["bytes=1000-1001"], 1000, Unsatisfiable),
            (
                "end at the largest number",
                &["bytes=0-18446744073709551615"],
                9,
                parts(&[(0, 9)]),
            ),
            (
                "end beyond all numbers",
                &["bytes=1-99999999999999999999999"],
                9,
                parts(&[(1, 9)]),
            ),
            (
                "start beyond all numbers",
                &["bytes=99999999999999999999999-"],
                9,
                Unsatisfiable,
            ),
            (
                "suffix beyond all numbers",
                &["bytes=-99999999999999999999999"],
                9,
                parts(&[(0, 9)]),
            ),
            ("largest content", &["bytes=1-"], most, parts(&[(1, most)])),
            (
                "two",
                &["bytes=0-0,-1"],
                1000,
                parts(&[(0, 1), (999, 1000)]),
            ),
            (
                "spaces and empty elements",
                &["bytes= 0-0 ,,\t2-2,"],
                9,
                parts(&[(0, 1), (2, 3)]),
            ),
            ("one of two", &["bytes=0-0,2000-"], 1000, parts(&[(0, 1)])),
            ("unit in capitals", &["Bytes=0-0"], 9, parts(&[(0, 1)])),
            ("overlapping to the whole", &["bytes=0-,0-"], 9, Whole),
            ("end before start", &["bytes=5-4"], 9, Whole),
            ("one malformed", &["bytes=0-0,5-4"], 9, Whole),
            ("other unit", &["lines=0-1"], 9, Whole),
            ("no unit", &["0-1"], 9, Whole),
            ("nothing", &["bytes="], 9, Whole),
            ("no dash", &["bytes=5"], 9, Whole),
            ("dash alone", &["bytes=-"], 9, Whole),
            ("sign", &["bytes=+1-2"], 9, Whole),
            ("two dashes", &["bytes=1-2-3"], 9, Whole),
            ("two fields", &["bytes=0-0", "bytes=1-1"], 9, Whole),
            ("empty content", &["bytes=0-"], 0, Whole),
        ];
        for (name, fields, len, want) in cases {
            assert_eq!(ranges(fields, *len), *want, "{name}");
        }
        let many = format!("bytes={}", "0-0,".repeat(MAX_PARTS + 1));
        assert_eq!(ranges(&[&many], 1 << 30), Whole, "many");
    }

    proptest! {
        #[test]
        fn parts_lie_within_the_content(
            field in "bytes=([0-9]{0,21}-[0-9]{0,21},? ?){0,5}",
            len: u64,
        ) {
            if let Ranges::Parts(parts) = ranges(&[&field], len) {
                for part in parts {
                    prop_assert!(part.start < part.end && part.end <= len);
                }
            }
        }
    }
}
