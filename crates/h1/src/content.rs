//! Decoding a response's content.

use bytes::{Buf, Bytes};
use http::HeaderMap;
use httparse::Status;

use crate::response::{Framing, HeadError, Limits, collect};

/// Decodes the content of one response.
#[derive(Clone, Debug)]
pub struct Decoder {
    state: State,
    limits: Limits,
    /// Bytes of chunk extensions so far.
    extensions: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// So many bytes are still to come.
    Length(u64),
    UntilClose,
    /// The line before a chunk.
    Size(Size),
    Chunk(u64),
    /// The line end after a chunk; whether its CR has come.
    ChunkEnd(bool),
    Trailers,
    Over,
}

/// A line with a chunk's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    value: u64,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    First,
    Digits,
    /// Whitespace, which older servers send.
    Space,
    Extension,
    LineEnd,
}

/// A piece of a response's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// More has to be received.
    Nothing,
    /// Content, a slice of the received bytes. Never empty.
    Data(Bytes),
    /// Trailer fields, after which the content is over. Never empty.
    Trailers(HeaderMap),
    /// The content is over.
    End,
}

impl Decoder {
    /// Begins after a head of this framing. Trailers, and all extensions of chunks, are bounded by
    /// `limits`.
    pub const fn new(framing: Framing, limits: Limits) -> Self {
        let state = match framing {
            Framing::Length(0) => State::Over,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Size(Size::NEW),
            Framing::UntilClose => State::UntilClose,
        };
        Self {
            state,
            limits,
            extensions: 0,
        }
    }

    /// Whether the content is over. What follows is another response's.
    pub const fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Whether the content comes in chunks.
    pub const fn is_chunked(&self) -> bool {
        !matches!(
            self.state,
            State::Length(_) | State::UntilClose | State::Over
        )
    }

    /// Bytes of content that are still to come, if that is known.
    pub const fn remaining(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            State::Over => Some(0),
            _ => None,
        }
    }

    /// Takes the next piece of content from the front of `input`.
    ///
    /// With [`Part::Nothing`], the rest of `input` has to be at the front of the next one.
    ///
    /// # Errors
    /// If the chunked coding is faulty (RFC 9112 §7.1), or trailers are. The connection has to be
    /// closed.
    pub fn decode(&mut self, input: &mut Bytes) -> Result<Part, ContentError> {
        loop {
            match &mut self.state {
                State::Over => return Ok(Part::End),
                State::Trailers => return self.trailers(input),
                _ if input.is_empty() => return Ok(Part::Nothing),
                State::UntilClose => return Ok(Part::Data(std::mem::take(input))),
                State::Length(left) => {
                    let data = take(input, left);
                    if *left == 0 {
                        self.state = State::Over;
                    }
                    return Ok(Part::Data(data));
                }
                State::Chunk(left) => {
                    let data = take(input, left);
                    if *left == 0 {
                        self.state = State::ChunkEnd(false);
                    }
                    return Ok(Part::Data(data));
                }
                State::ChunkEnd(has_cr) => match (input.get_u8(), *has_cr) {
                    (b'\r', false) => *has_cr = true,
                    (b'\n', true) => self.state = State::Size(Size::NEW),
                    _ => return Err(ContentError::Chunk("a chunk is longer than its size")),
                },
                State::Size(size) => {
                    let byte = input.get_u8();
                    if size.place == Place::Extension {
                        self.extensions += 1;
                        if self.extensions > self.limits.size {
                            return Err(ContentError::Chunk("its extensions are too long"));
                        }
                    }
                    if size.read(byte)? {
                        self.state = match size.value {
                            0 => State::Trailers,
                            value => State::Chunk(value),
                        };
                    }
                }
            }
        }
    }

    /// Takes note that the connection has ended.
    ///
    /// # Errors
    /// If the content is incomplete (RFC 9112 §8).
    pub fn end_of_input(&mut self) -> Result<(), ContentError> {
        match self.state {
            State::Over => {}
            State::UntilClose => self.state = State::Over,
            _ => return Err(ContentError::Incomplete),
        }
        Ok(())
    }

    fn trailers(&mut self, input: &mut Bytes) -> Result<Part, ContentError> {
        // Most often there are none.
        if input.starts_with(b"\r\n") {
            input.advance(2);
            self.state = State::Over;
            return Ok(Part::End);
        }
        let mut fields = vec![httparse::EMPTY_HEADER; self.limits.fields.min(MAX_TRAILERS)];
        let parsed = httparse::parse_headers(input, &mut fields).map_err(HeadError::from)?;
        let (length, trailers) = match parsed {
            Status::Complete((length, fields)) if length <= self.limits.size => {
                (length, collect(input, fields)?)
            }
            Status::Partial if input.len() <= self.limits.size => return Ok(Part::Nothing),
            _ => return Err(HeadError::TooLarge.into()),
        };
        input.advance(length);
        self.state = State::Over;
        Ok(match trailers.is_empty() {
            true => Part::End,
            false => Part::Trailers(trailers),
        })
    }
}

/// Takes at most `left` bytes, and counts them.
fn take(input: &mut Bytes, left: &mut u64) -> Bytes {
    let length = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
    *left -= length as u64;
    input.split_to(length)
}

impl Size {
    const NEW: Self = Self {
        value: 0,
        place: Place::First,
    };

    /// Reads a byte of the line `chunk-size [ chunk-ext ] CRLF`. Returns whether that was the last.
    fn read(&mut self, byte: u8) -> Result<bool, ContentError> {
        self.place = match (self.place, byte) {
            (Place::First | Place::Digits, _) if byte.is_ascii_hexdigit() => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                let value = self
                    .value
                    .checked_mul(16)
                    .map(|value| value + u64::from(digit));
                self.value = value.ok_or(ContentError::Chunk("its size is too large"))?;
                Place::Digits
            }
            (Place::LineEnd, b'\n') => return Ok(true),
            (Place::First | Place::LineEnd, _) => {
                return Err(ContentError::Chunk("its size is no number"));
            }
            (_, b'\r') => Place::LineEnd,
            // Whoever took it for the line's end would see another chunk begin.
            (_, b'\n') => return Err(ContentError::Chunk("its size has a bare line feed")),
            (Place::Digits | Place::Space, b' ' | b'\t') => Place::Space,
            (Place::Digits | Place::Space, b';') | (Place::Extension, _) => Place::Extension,
            (Place::Digits | Place::Space, _) => {
                return Err(ContentError::Chunk("its size is no number"));
            }
        };
        Ok(false)
    }
}

/// Why a response's content ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// A chunk's frame is malformed (RFC 9112 §7.1).
    #[error("a chunk of the response is malformed: {0}")]
    Chunk(&'static str),
    /// The trailers cannot be used.
    #[error("reading the response's trailers")]
    Trailers(#[from] HeadError),
    /// The connection ended before the content.
    #[error("the connection ended before the response")]
    Incomplete,
}

/// The largest number of trailer fields.
const MAX_TRAILERS: usize = 100;

#[cfg(test)]
mod tests;
