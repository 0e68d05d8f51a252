//! Reading of frames (RFC 9113 §3.4, §4).

use std::time::Instant;

use hikyaku_http_common::floods::Excess;
use hikyaku_http_common::priority::Priority;

use super::content::Data;
use super::{Connection, Event};
use crate::error::{Code, Error, Violation};
use crate::frame::{self, Header, PREFACE, flag, kind};
use crate::settings::INITIAL_FRAME_SIZE;
use crate::stream::Closed;

/// The part of the connection that comes next.
#[derive(Debug)]
pub(super) enum Reading {
    /// The client's preface, of which so many bytes have arrived.
    Preface(usize),
    /// A frame.
    Frame,
    /// The rest of a DATA frame.
    Data(Data),
    /// So many bytes of a frame that is ignored.
    Ignored(u32),
}

/// News of a frame, before its event borrows from the connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found<'i> {
    Request {
        stream: u32,
        priority: Priority,
        end: bool,
    },
    TooLarge {
        stream: u32,
        end: bool,
    },
    Data {
        stream: u32,
        data: &'i [u8],
        end: bool,
    },
    Trailers {
        stream: u32,
    },
    Reset {
        stream: u32,
        code: Code,
        fault: Option<&'static str>,
    },
    Pong {
        payload: [u8; 8],
    },
    GoAway {
        code: Code,
    },
}

pub(super) type Result<T> = std::result::Result<T, Violation>;

impl Connection {
    /// Reads bytes of the client, up to the next event. It takes what it has read off `input`, and is
    /// to be called until it returns `None`: `input` is then empty.
    ///
    /// Between two calls bytes may be sent, streams be answered, and windows grow.
    ///
    /// # Errors
    /// The violation that ends the connection. GOAWAY is in the output then, and whatever comes
    /// later is dropped.
    pub fn recv<'c, 'i: 'c>(
        &'c mut self,
        input: &mut &'i [u8],
        now: Instant,
    ) -> std::result::Result<Option<Event<'c>>, Error> {
        self.now = now;
        let found = loop {
            if self.has_failed {
                *input = &[];
            }
            if input.is_empty() {
                return Ok(None);
            }
            match self.read(input) {
                Ok(None) => {}
                Ok(Some(found)) => break found,
                Err(Violation::Connection(error) | Violation::Stream(error)) => {
                    self.fail(error);
                    return Err(error);
                }
            }
        };
        Ok(Some(self.event(found)))
    }

    fn read<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Found<'i>>> {
        match self.reading {
            Reading::Preface(got) => {
                let count = input.len().min(PREFACE.len() - got);
                let (now, rest) = input.split_at(count);
                if *now != PREFACE[got..got + count] {
                    return Err(Violation::protocol("the connection preface is none"));
                }
                *input = rest;
                self.reading = match got + count {
                    got if got < PREFACE.len() => Reading::Preface(got),
                    _ => Reading::Frame,
                };
                Ok(None)
            }
            Reading::Frame => {
                let mut partial = std::mem::take(&mut self.partial);
                let found = self.frame(&mut partial, input);
                self.partial = partial;
                found
            }
            Reading::Data(data) => self.data(data, input),
            Reading::Ignored(left) => {
                let count = input.len().min(left as usize);
                *input = &input[count..];
                self.reading = match left - count as u32 {
                    0 => Reading::Frame,
                    left => Reading::Ignored(left),
                };
                Ok(None)
            }
        }
    }

    /// Reads a frame once it is there. The content of DATA and of unknown frames is left in `input`.
    fn frame<'i>(
        &mut self,
        partial: &mut Vec<u8>,
        input: &mut &'i [u8],
    ) -> Result<Option<Found<'i>>> {
        let Some(first) = gather(partial, input, Header::LEN) else {
            return Ok(None);
        };
        let header = Header::read(first.try_into().unwrap_or_default());
        self.check(header)?;
        let needed = match header.kind {
            kind::DATA => header.length.min(u32::from(header.has(flag::PADDED))),
            kind::HEADERS..=kind::CONTINUATION | kind::PRIORITY_UPDATE => header.length,
            _ => 0,
        };
        let length = Header::LEN + needed as usize;
        let Some(whole) = gather(partial, input, length) else {
            return Ok(None);
        };
        let found = match self.dispatch(header, &whole[Header::LEN..]) {
            Err(Violation::Stream(error)) => self.reset_faulty(header.stream, error)?,
            found => found?,
        };
        if partial.is_empty() {
            *input = &input[length..];
        } else {
            partial.clear();
        }
        Ok(found)
    }

    /// Checks what holds for every frame.
    fn check(&self, header: Header) -> Result<()> {
        if header.length > INITIAL_FRAME_SIZE {
            return Err(Violation::frame_size(
                "a frame larger than the settings allow",
            ));
        }
        if let Some(block) = &self.block {
            // "Any number of CONTINUATION frames can be sent, as long as the preceding frame is on
            // the same stream".
            if header.kind != kind::CONTINUATION || header.stream != block.stream {
                return Err(Violation::protocol("a frame within a field block"));
            }
        } else if header.kind == kind::CONTINUATION {
            return Err(Violation::protocol("CONTINUATION without a field block"));
        }
        if self.peer.is_none() && (header.kind != kind::SETTINGS || header.has(flag::ACK)) {
            return Err(Violation::protocol("the first frame is not SETTINGS"));
        }
        Ok(())
    }

    fn dispatch(&mut self, header: Header, payload: &[u8]) -> Result<Option<Found<'static>>> {
        match header.kind {
            kind::DATA => self.on_data(header, payload),
            kind::HEADERS => self.on_headers(header, payload),
            kind::CONTINUATION => self.on_continuation(header, payload),
            kind::PRIORITY => self.on_priority(header, payload),
            kind::RST_STREAM => self.on_reset(header, payload),
            kind::SETTINGS => self.on_settings(header, payload),
            kind::PUSH_PROMISE => Err(Violation::protocol("a push by a client")),
            kind::PING => self.on_ping(header, payload),
            kind::GOAWAY => self.on_goaway(header, payload),
            kind::WINDOW_UPDATE => self.on_window_update(header, payload),
            kind::PRIORITY_UPDATE => self.on_priority_update(header, payload),
            // "Implementations MUST discard frames that have unknown or unsupported types".
            _ => {
                self.spend_frame(header.length)?;
                if header.length > 0 {
                    self.reading = Reading::Ignored(header.length);
                }
                Ok(None)
            }
        }
    }

    /// Resets a stream because of the client's fault. That counts as a cancelled request, since it
    /// causes the same work.
    fn reset_faulty(&mut self, stream: u32, error: Error) -> Result<Option<Found<'static>>> {
        self.cancellations.on_cancelled(self.now)?;
        self.reply(kind::RST_STREAM, stream, &error.code.value().to_be_bytes())?;
        let Some(slot) = self.streams.slot(stream) else {
            if self.closed.how(stream).is_none() {
                self.closed.push(stream, Closed::Reset);
            }
            return Ok(None);
        };
        self.close(slot, Closed::Reset);
        Ok(Some(Found::Reset {
            stream,
            code: error.code,
            fault: Some(error.reason),
        }))
    }

    /// Appends a frame that answers the client.
    ///
    /// # Errors
    /// `ENHANCE_YOUR_CALM` if the client does not read the answers (CVE-2019-9512, CVE-2019-9515).
    pub(super) fn reply(&mut self, kind: u8, stream: u32, payload: &[u8]) -> Result<()> {
        self.reply_with(kind, 0, stream, payload)
    }

    pub(super) fn reply_with(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
    ) -> Result<()> {
        self.replies += Header::LEN + payload.len();
        if self.replies > MAX_REPLIES {
            return Err(Excess("answers that are not read").into());
        }
        frame::write(kind, flags, stream, payload, &mut self.frames);
        Ok(())
    }

    /// Counts a frame without use that has `length` bytes.
    ///
    /// # Errors
    /// `ENHANCE_YOUR_CALM` if there were too many.
    pub(super) fn spend_frame(&mut self, length: u32) -> Result<()> {
        if self.budget.spend_frame(length.into()).is_ok() {
            return Ok(());
        }
        let gone = self.now.saturating_duration_since(self.refilled);
        let millis = u64::try_from(gone.as_millis()).unwrap_or(u64::MAX);
        self.budget
            .earn(millis.saturating_mul(USELESS_PER_MILLISECOND));
        self.refilled = self.now;
        Ok(self.budget.spend_frame(length.into())?)
    }
}

/// The first `length` bytes of a frame, if they have arrived: where they stand in `input`, unless
/// earlier ones are in `partial`.
fn gather<'a, 'i: 'a>(
    partial: &'a mut Vec<u8>,
    input: &mut &'i [u8],
    length: usize,
) -> Option<&'a [u8]> {
    if partial.is_empty()
        && let Some(bytes) = input.get(..length)
    {
        return Some(bytes);
    }
    let missing = length.saturating_sub(partial.len());
    let (now, rest) = input.split_at(missing.min(input.len()));
    partial.extend_from_slice(now);
    *input = rest;
    partial.get(..length)
}

/// Bytes of answers that may wait to be sent.
const MAX_REPLIES: usize = 16 * 1024;

/// Bytes without use that each millisecond allows: about 1,000 frames a second.
const USELESS_PER_MILLISECOND: u64 = 40;
