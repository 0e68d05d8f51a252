//! HEADERS and CONTINUATION (RFC 9113 §6.2, §6.10).

use hikyaku_http_common::content::Content;
use hikyaku_http_common::priority::{Parameters, Priority};
use http::Method;

use super::receive::{Found, Result};
use super::{ANY_CONTENT, Connection};
use crate::error::{Code, Violation};
use crate::frame::{Header, flag, kind};
use crate::message;
use crate::stream::{Closed, Phase, Queue, Receiving, Sending, Stream};

/// A field block whose end has not arrived.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    end_stream: bool,
    depends_on_itself: bool,
    fragments: Vec<u8>,
    /// CONTINUATION frames so far.
    frames: u32,
}

/// Parts of a HEADERS frame beside its field block.
#[derive(Clone, Copy)]
struct Opening {
    stream: u32,
    end_stream: bool,
    depends_on_itself: bool,
}

impl Connection {
    pub(super) fn on_headers(
        &mut self,
        header: Header,
        payload: &[u8],
    ) -> Result<Option<Found<'static>>> {
        if header.stream.is_multiple_of(2) {
            return Err(Violation::protocol(
                "HEADERS on a stream that is no client's",
            ));
        }
        let mut fragment = without_padding(header, payload)?;
        let mut depends_on_itself = false;
        if header.has(flag::PRIORITY) {
            let (signal, rest) = fragment
                .split_first_chunk::<5>()
                .ok_or(Violation::frame_size("HEADERS without its priority"))?;
            depends_on_itself = depends_on(signal) == header.stream;
            fragment = rest;
        }
        let opening = Opening {
            stream: header.stream,
            end_stream: header.has(flag::END_STREAM),
            depends_on_itself,
        };
        if header.has(flag::END_HEADERS) {
            return self.on_block(opening, fragment);
        }
        self.check_block(fragment.len())?;
        self.block = Some(Block {
            stream: opening.stream,
            end_stream: opening.end_stream,
            depends_on_itself,
            fragments: fragment.to_vec(),
            frames: 0,
        });
        Ok(None)
    }

    pub(super) fn on_continuation(
        &mut self,
        header: Header,
        fragment: &[u8],
    ) -> Result<Option<Found<'static>>> {
        let Some(mut block) = self.block.take() else {
            return Err(Violation::protocol("CONTINUATION without a field block"));
        };
        block.frames += 1;
        // CVE-2024-27316: a block without end, of frames with little in them.
        if block.frames > MAX_CONTINUATIONS {
            let code = Code::ENHANCE_YOUR_CALM;
            return Err(Violation::connection(code, "too many CONTINUATION frames"));
        }
        self.check_block(block.fragments.len() + fragment.len())?;
        block.fragments.extend_from_slice(fragment);
        if !header.has(flag::END_HEADERS) {
            self.block = Some(block);
            return Ok(None);
        }
        let opening = Opening {
            stream: block.stream,
            end_stream: block.end_stream,
            depends_on_itself: block.depends_on_itself,
        };
        self.on_block(opening, &block.fragments)
    }

    /// Checks the size of an encoded block. A larger one cannot even be skipped, since later blocks
    /// depend on it.
    fn check_block(&self, length: usize) -> Result<()> {
        if length as u64 > u64::from(self.config.max_section_size) {
            let code = Code::ENHANCE_YOUR_CALM;
            return Err(Violation::connection(
                code,
                "a field block that is too large",
            ));
        }
        Ok(())
    }

    fn on_block(&mut self, opening: Opening, block: &[u8]) -> Result<Option<Found<'static>>> {
        let stream = opening.stream;
        let decoded = self.decoder.decode(block, &mut self.section);
        let is_kept = decoded
            .map_err(|error| Violation::connection(Code::COMPRESSION_ERROR, error.reason()))?;
        if let Some(slot) = self.streams.slot(stream) {
            return self.on_trailers(slot, opening, is_kept);
        }
        if stream > self.last_stream {
            return self.on_request(opening, block.len(), is_kept);
        }
        match self.closed.how(stream) {
            // "An endpoint MUST ignore frames that it receives on closed streams after it has sent a
            // RST_STREAM frame" (RFC 9113 §5.4.2 and §5.1 together).
            Some(Closed::Reset) => {
                self.spend_frame(block.len() as u32)?;
                Ok(None)
            }
            Some(Closed::ResetByPeer) => Err(Violation::stream(
                Code::STREAM_CLOSED,
                "HEADERS on a stream that the client reset",
            )),
            Some(Closed::Ended) => Err(Violation::connection(
                Code::STREAM_CLOSED,
                "HEADERS on a stream that has ended",
            )),
            None => Err(Violation::protocol("a stream with a smaller identifier")),
        }
    }

    fn on_request(
        &mut self,
        opening: Opening,
        block: usize,
        is_kept: bool,
    ) -> Result<Option<Found<'static>>> {
        let Opening {
            stream, end_stream, ..
        } = opening;
        self.last_stream = stream;
        let updated = self.idle_priorities.take(stream);
        if self.streams.len() >= self.config.max_streams as usize || self.stop.refuses(stream) {
            self.refuse(stream, block)?;
            return Ok(None);
        }
        // RFC 7540 §5.3.1, which clients that still send priorities obey.
        if opening.depends_on_itself {
            return Err(Violation::malformed("a stream that depends on itself"));
        }
        if !is_kept {
            self.open(
                stream,
                Method::GET,
                ANY_CONTENT,
                Priority::default(),
                end_stream,
            );
            return Ok(Some(Found::TooLarge {
                stream,
                end: end_stream,
            }));
        }
        self.parsed = message::parse(&mut self.section, self.config.connect_protocol)?;
        let priority = updated.unwrap_or_else(|| self.parsed.priority(&self.section));
        let content = self.head(priority).content();
        if end_stream {
            content.on_end()?;
        }
        let method = match content {
            Content::Tunnel => Method::CONNECT,
            _ if self.parsed.is_head(&self.section) => Method::HEAD,
            _ => Method::GET,
        };
        self.open(stream, method, content, priority, end_stream);
        Ok(Some(Found::Request {
            stream,
            priority,
            end: end_stream,
        }))
    }

    /// Refuses a request whose block has `block` bytes.
    fn refuse(&mut self, stream: u32, block: usize) -> Result<()> {
        self.spend_frame(block as u32)?;
        let code = Code::REFUSED_STREAM.value().to_be_bytes();
        self.reply(kind::RST_STREAM, stream, &code)?;
        self.closed.push(stream, Closed::Reset);
        Ok(())
    }

    fn open(
        &mut self,
        id: u32,
        method: Method,
        content: Content,
        priority: Priority,
        has_ended: bool,
    ) {
        self.budget.earn(USELESS_PER_REQUEST);
        self.streams.insert(Stream {
            id,
            priority,
            by_server: Parameters::default(),
            receiving: Receiving {
                content,
                window: self.windows.of_new_stream(),
                padding: 0,
                is_stopped: false,
                has_ended,
            },
            sending: Sending {
                method,
                phase: Phase::Head,
                content: ANY_CONTENT,
                window: self.peer_settings().initial_window_size.into(),
                queue: Queue::default(),
                trailers: None,
                is_ready: false,
                has_ended: false,
            },
        });
    }

    fn on_trailers(
        &mut self,
        slot: usize,
        opening: Opening,
        is_kept: bool,
    ) -> Result<Option<Found<'static>>> {
        let receiving = &mut self.streams[slot].receiving;
        if receiving.has_ended {
            let reason = "HEADERS after the end of the request";
            return Err(Violation::stream(Code::STREAM_CLOSED, reason));
        }
        // "Other than DATA and stream management, frames MUST NOT be sent on a connected stream".
        if receiving.content == Content::Tunnel {
            return Err(Violation::malformed("HEADERS in a tunnel"));
        }
        if !opening.end_stream {
            return Err(Violation::malformed("a second header section"));
        }
        if !is_kept {
            return Err(Violation::malformed("trailers that are too large"));
        }
        message::parse_trailers(&self.section)?;
        receiving.content.on_end()?;
        receiving.has_ended = true;
        let is_stopped = receiving.is_stopped;
        self.close_if_over(slot);
        let stream = opening.stream;
        Ok((!is_stopped).then_some(Found::Trailers { stream }))
    }
}

/// Takes the padding off a payload (RFC 9113 §6.1, §6.2).
fn without_padding(header: Header, payload: &[u8]) -> Result<&[u8]> {
    if !header.has(flag::PADDED) {
        return Ok(payload);
    }
    let (&padding, rest) = payload
        .split_first()
        .ok_or(Violation::frame_size("a frame without its pad length"))?;
    let length = rest.len().checked_sub(padding.into());
    let length = length.ok_or(Violation::protocol("more padding than the frame has bytes"))?;
    Ok(&rest[..length])
}

/// The stream on which a priority signal depends (RFC 7540 §5.3.1).
pub(super) const fn depends_on(&[a, b, c, d, _]: &[u8; 5]) -> u32 {
    u32::from_be_bytes([a & 0x7f, b, c, d])
}

/// CONTINUATION frames that a field block may have.
const MAX_CONTINUATIONS: u32 = 32;

/// Bytes without use that each request allows.
const USELESS_PER_REQUEST: u64 = 1024;
