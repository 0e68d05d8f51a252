//! DATA (RFC 9113 §6.1).

use super::Connection;
use super::receive::{Found, Reading, Result};
use crate::error::{Code, Violation};
use crate::frame::{Header, flag};
use crate::stream::Closed;

/// The rest of a DATA frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    stream: u32,
    /// Bytes of content to come.
    content: u32,
    /// Bytes of padding after them.
    padding: u32,
    end: bool,
    /// Whether nobody gets the content.
    is_dropped: bool,
}

impl Data {
    /// Reads the layout of a frame. Also returns the bytes that are no content.
    fn of(header: Header, payload: &[u8]) -> Result<(Self, u32)> {
        let mut data = Self {
            stream: header.stream,
            content: header.length,
            padding: 0,
            end: header.has(flag::END_STREAM),
            is_dropped: true,
        };
        if !header.has(flag::PADDED) {
            return Ok((data, 0));
        }
        let &padding = payload
            .first()
            .ok_or(Violation::frame_size("a frame without its pad length"))?;
        data.padding = padding.into();
        let overhead = data.padding + 1;
        let content = header.length.checked_sub(overhead);
        let reason = "more padding than the frame has bytes";
        data.content = content.ok_or(Violation::protocol(reason))?;
        Ok((data, overhead))
    }
}

impl Connection {
    /// Takes the start of a frame: `payload` has the pad length, if there is one.
    pub(super) fn on_data(
        &mut self,
        header: Header,
        payload: &[u8],
    ) -> Result<Option<Found<'static>>> {
        let (stream, length) = (header.stream, header.length);
        if stream.is_multiple_of(2) || stream > self.last_stream {
            return Err(Violation::protocol("DATA on an idle stream"));
        }
        let (mut data, overhead) = Data::of(header, payload)?;
        self.windows.on_received(length)?;
        self.credit(overhead)?;
        let accepted = self.accept(&mut data, length, overhead);
        if data.content + data.padding > 0 {
            self.reading = Reading::Data(data);
        }
        accepted?;
        if data.content > 0 {
            self.budget.earn(data.content.into());
            return Ok(None);
        }
        if !data.end {
            // CVE-2019-9518.
            self.spend_frame(length)?;
            return Ok(None);
        }
        Ok(self.deliver(data, &[], true))
    }

    /// Checks a frame against its stream, and counts it there.
    fn accept(&mut self, data: &mut Data, length: u32, overhead: u32) -> Result<()> {
        let Some(slot) = self.streams.slot(data.stream) else {
            if self.closed.how(data.stream) == Some(Closed::Reset) {
                data.end = false;
                return Ok(());
            }
            return Err(closed("DATA on a stream that is closed"));
        };
        let receiving = &mut self.streams[slot].receiving;
        if receiving.has_ended {
            return Err(closed("DATA after the end of the request"));
        }
        receiving.window -= i64::from(length);
        if receiving.window < 0 {
            let reason = "more content than the stream's window allows";
            return Err(Violation::stream(Code::FLOW_CONTROL_ERROR, reason));
        }
        receiving.padding += overhead;
        receiving.content.on_data(data.content.into())?;
        if data.end {
            receiving.content.on_end()?;
        }
        data.is_dropped = receiving.is_stopped;
        Ok(())
    }

    /// Takes the next bytes of a frame.
    pub(super) fn data<'i>(
        &mut self,
        mut data: Data,
        input: &mut &'i [u8],
    ) -> Result<Option<Found<'i>>> {
        let had_content = data.content > 0;
        let (piece, rest) = input.split_at(input.len().min(data.content as usize));
        data.content -= piece.len() as u32;
        let skipped = rest.len().min(data.padding as usize);
        let is_padding = data.content == 0;
        if is_padding {
            data.padding -= skipped as u32;
        }
        *input = if is_padding { &rest[skipped..] } else { rest };
        self.reading = match data.content + data.padding {
            0 => Reading::Frame,
            _ => Reading::Data(data),
        };
        if !had_content {
            return Ok(None);
        }
        let end = data.end && data.content == 0;
        if data.is_dropped || self.streams.slot(data.stream).is_none() {
            self.credit(piece.len() as u32)?;
            data.is_dropped = true;
        }
        Ok(self.deliver(data, piece, end))
    }

    /// Ends the request, if that is due. Returns the content for the caller.
    fn deliver<'i>(&mut self, data: Data, piece: &'i [u8], end: bool) -> Option<Found<'i>> {
        let slot = self.streams.slot(data.stream)?;
        if end {
            self.streams[slot].receiving.has_ended = true;
            self.close_if_over(slot);
        }
        (!data.is_dropped).then_some(Found::Data {
            stream: data.stream,
            data: piece,
            end,
        })
    }
}

const fn closed(reason: &'static str) -> Violation {
    Violation::stream(Code::STREAM_CLOSED, reason)
}
