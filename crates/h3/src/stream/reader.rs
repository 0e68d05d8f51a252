//! The receiving side of a request stream.

use std::marker::PhantomData;
use std::ops::DerefMut;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;

use crate::connection::Connection;
use crate::error::{Code, Error};
use crate::frame::{self, Header, HeaderDecoder, kind};
use crate::message::{self, Context, Head};
use crate::qpack::Decoded;
use hikyaku_http_common::content::Content;
use hikyaku_http_common::floods::Budget;

/// Reads the message that the peer sends on a request stream.
///
/// It needs its [`Connection`] for header and trailer sections alone. It keeps only the last chunk
/// that it was given, and the part of a section that has arrived. A caller bounds memory by giving
/// no chunk while the last is not used up.
#[derive(Debug)]
pub struct Reader<H> {
    stream: u64,
    context: Context,
    input: Bytes,
    fin: bool,
    header: HeaderDecoder,
    payload: Payload,
    phase: Phase,
    content: Content,
    budget: Budget,
    /// Largest encoded section that is gathered, in bytes.
    max_encoded: u64,
    head: PhantomData<fn() -> H>,
}

/// A part of a message, or the reason why none is there.
#[derive(Debug)]
pub enum Read<H> {
    /// A header section. A client may get several: interim ones (1xx) before the final one.
    Head(H),
    /// Bytes of content, at least one: a part of the given chunk, not copied.
    Data(Bytes),
    /// The trailer section.
    Trailers(HeaderMap),
    /// The message is complete.
    End,
    /// A section is larger than the limit, and nothing more is read. A server answers 431 (RFC 9114
    /// §4.2.2), then ends the reading by `H3_NO_ERROR`.
    TooLarge,
    /// The next chunk is needed.
    NeedsInput,
    /// A section waits for the QPACK encoder's stream. Poll again after [`Event::Unblocked`]; no
    /// chunk is needed until then.
    ///
    /// [`Event::Unblocked`]: crate::connection::Event::Unblocked
    Blocked,
}

/// The frame that is being read.
#[derive(Debug)]
enum Payload {
    /// Between frames: a header comes next.
    Header,
    Data {
        left: u64,
    },
    Section(frame::Content),
    Skipped {
        left: u64,
    },
    /// A section that was handed to the QPACK decoder.
    Blocked,
}

/// The result of reading as far as the connection is not needed.
enum Parsed<H> {
    Read(Read<H>),
    /// A section for decoding.
    Section(Bytes),
}

/// The parts of a message that may come next (RFC 9114 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Head,
    Content,
    /// After the trailers.
    Trailers,
    End,
    TooLarge,
    Failed(Error),
}

/// Bytes without use that a stream may carry beyond its useful ones: some 500 empty frames.
const USELESS: u64 = 16 * 1024;

impl<H: Head> Reader<H> {
    pub(crate) fn new(stream: u64, context: Context, max_section: u64) -> Self {
        Self {
            stream,
            context,
            input: Bytes::new(),
            fin: false,
            header: HeaderDecoder::default(),
            payload: Payload::Header,
            phase: Phase::Head,
            content: Content::Open,
            budget: Budget::new(USELESS),
            // An encoded section is smaller: each of its lines counts 32 bytes more than it has.
            max_encoded: max_section.saturating_mul(2),
            head: PhantomData,
        }
    }

    /// The stream's identifier (RFC 9000 §2.1).
    pub fn stream(&self) -> u64 {
        self.stream
    }

    /// Takes the next bytes of the stream; `fin` marks the last ones.
    ///
    /// Meant for the time after [`Read::NeedsInput`]. Earlier, the rest of the last chunk is
    /// copied.
    pub fn receive(&mut self, chunk: Bytes, fin: bool) {
        self.fin |= fin;
        if self.input.is_empty() {
            self.input = chunk;
        } else {
            let mut joined = BytesMut::from(std::mem::take(&mut self.input));
            joined.extend_from_slice(&chunk);
            self.input = joined.freeze();
        }
    }

    /// Reads on. `connection` returns the stream's connection. It is called only for decoding a
    /// section, so that content needs no lock.
    ///
    /// # Errors
    /// The violation by the peer, which all later calls return, too. An error of the connection is
    /// to be reported by closing it.
    pub fn poll<C>(&mut self, connection: impl FnOnce() -> C) -> Result<Read<H>, Error>
    where
        C: DerefMut<Target = Connection>,
    {
        match self.phase {
            Phase::End => return Ok(Read::End),
            Phase::TooLarge => return Ok(Read::TooLarge),
            Phase::Failed(error) => return Err(error),
            Phase::Head | Phase::Content | Phase::Trailers => {}
        }
        let read = self.advance(connection);
        match &read {
            Ok(Read::End) => self.phase = Phase::End,
            Ok(Read::TooLarge) => self.phase = Phase::TooLarge,
            Err(error) => self.phase = Phase::Failed(*error),
            Ok(_) => {}
        }
        read
    }

    /// Whether the message certainly ends here: a request whose stream ended with its header
    /// section has no content.
    pub fn is_at_end(&self) -> bool {
        let between = matches!(self.payload, Payload::Header) && self.header.is_idle();
        self.phase == Phase::End || (self.fin && self.input.is_empty() && between)
    }

    /// Whether the message was read to its end. A caller that stops reading earlier has to call
    /// [`Connection::abandon`].
    pub fn is_complete(&self) -> bool {
        self.phase == Phase::End
    }

    fn advance<C>(&mut self, connection: impl FnOnce() -> C) -> Result<Read<H>, Error>
    where
        C: DerefMut<Target = Connection>,
    {
        let section = match self.payload {
            Payload::Blocked => None,
            _ => match self.parse()? {
                Parsed::Read(read) => return Ok(read),
                Parsed::Section(section) => Some(section),
            },
        };
        let mut connection = connection();
        let decoded = match section {
            Some(section) => connection.decode(self.stream, section)?,
            None => match connection.take_unblocked(self.stream) {
                Some(decoded) => decoded,
                None => return Ok(Read::Blocked),
            },
        };
        self.on_section(decoded, &mut connection)
    }

    /// Reads as far as the connection is not needed.
    fn parse(&mut self) -> Result<Parsed<H>, Error> {
        loop {
            match &mut self.payload {
                Payload::Header => match self.header.decode(&mut self.input) {
                    Some(header) => match self.on_header(header)? {
                        Some(payload) => self.payload = payload,
                        None => return Ok(Parsed::Read(Read::TooLarge)),
                    },
                    None => break,
                },
                Payload::Data { left: 0 } | Payload::Skipped { left: 0 } => {
                    self.payload = Payload::Header;
                }
                Payload::Data { left } => {
                    let Some(data) = frame::take(&mut self.input, left) else {
                        break;
                    };
                    self.budget.earn(data.len() as u64);
                    return Ok(Parsed::Read(Read::Data(data)));
                }
                Payload::Skipped { left } => match frame::take(&mut self.input, left) {
                    Some(skipped) => self.budget.spend(skipped.len() as u64)?,
                    None => break,
                },
                Payload::Section(content) => match content.gather(&mut self.input) {
                    Some(section) => return Ok(Parsed::Section(section)),
                    None => break,
                },
                Payload::Blocked => return Ok(Parsed::Read(Read::Blocked)),
            }
        }
        self.on_no_input().map(Parsed::Read)
    }

    /// Begins a frame (RFC 9114 §4.1, §7.2). `None` for a section beyond the limit.
    fn on_header(&mut self, header: Header) -> Result<Option<Payload>, Error> {
        let Header { kind, length } = header;
        match (kind, self.phase) {
            (kind::DATA, Phase::Content) => {
                self.content.on_data(length)?;
                if length == 0 {
                    self.budget.spend_frame(0)?;
                }
                Ok(Some(Payload::Data { left: length }))
            }
            (kind::HEADERS, Phase::Content) if self.content == Content::Tunnel => {
                Err(unexpected("HEADERS on a tunnel"))
            }
            (kind::HEADERS, Phase::Head | Phase::Content) if length > self.max_encoded => Ok(None),
            (kind::HEADERS, Phase::Head | Phase::Content) => {
                let content = frame::Content::new(length, self.max_encoded)?;
                Ok(Some(Payload::Section(content)))
            }
            (kind::DATA, Phase::Head) => Err(unexpected("DATA before HEADERS")),
            (kind::DATA | kind::HEADERS, _) => Err(unexpected("a frame after the trailers")),
            (kind::PUSH_PROMISE, _) => Err(Error::connection(
                H::PUSH_PROMISE,
                "a push, which was not allowed",
            )),
            _ if header.is_known() || header.is_reserved() => {
                Err(unexpected("a frame that may not be on a request stream"))
            }
            _ => {
                self.budget.spend_frame(0)?;
                Ok(Some(Payload::Skipped { left: length }))
            }
        }
    }

    fn on_section(
        &mut self,
        decoded: Decoded,
        connection: &mut Connection,
    ) -> Result<Read<H>, Error> {
        let fields = match decoded {
            Decoded::Fields(fields) => fields,
            Decoded::TooLarge => return Ok(Read::TooLarge),
            Decoded::Blocked => {
                self.payload = Payload::Blocked;
                return Ok(Read::Blocked);
            }
        };
        self.payload = Payload::Header;
        if self.phase == Phase::Content {
            self.content.on_end()?;
            self.phase = Phase::Trailers;
            let trailers = message::trailer_section(&fields);
            connection.recycle(fields);
            return trailers.map(Read::Trailers);
        }
        self.context.priority = connection.updated_priority(self.stream);
        let head = message::head::<H>(&fields, &self.context);
        connection.recycle(fields);
        let (head, content) = head?;
        if head.is_interim() {
            self.budget.spend_frame(0)?;
        } else {
            self.content = content;
            self.phase = Phase::Content;
        }
        Ok(Read::Head(head))
    }

    /// Handles the end of the input.
    fn on_no_input(&self) -> Result<Read<H>, Error> {
        if !self.fin {
            return Ok(Read::NeedsInput);
        }
        // "If the last frame on the stream was truncated, this MUST be treated as a connection
        // error of type H3_FRAME_ERROR" (RFC 9114 §7.1).
        if !matches!(self.payload, Payload::Header) || !self.header.is_idle() {
            let code = Code::FrameError;
            return Err(Error::connection(code, "a stream ends within a frame"));
        }
        if self.phase == Phase::Head {
            return Err(Error::stream(H::INCOMPLETE, "a stream without a message"));
        }
        if self.phase == Phase::Content {
            self.content.on_end()?;
        }
        Ok(Read::End)
    }
}

fn unexpected(reason: &'static str) -> Error {
    Error::connection(Code::FrameUnexpected, reason)
}
