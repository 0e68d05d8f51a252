//! Output: frames of the connection first, then content by priority.

use bytes::Buf;

use super::Connection;
use crate::frame::{Header, flag, kind};
use crate::output::Output;
use crate::stream::Phase;

/// A stream whose content is in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The stream.
    pub stream: u32,
    /// Whether the response is complete; else it goes on with more content.
    pub is_complete: bool,
}

impl Connection {
    /// Appends bytes for the transport to `output`, until it has `max` bytes or there are no more.
    /// Header sections may exceed `max`; frames of content come one by one.
    ///
    /// Appended bytes must be sent in their order, or the connection be closed. A caller that appends
    /// only to an output that is nearly empty keeps priorities and resets in force.
    pub fn poll_transmit(&mut self, output: &mut Output, max: usize) {
        output.write(|out| out.append(&mut self.frames));
        self.replies = 0;
        while output.remaining() < max && self.send_window > 0 {
            let Some(slot) = self.scheduler.first() else {
                break;
            };
            self.transmit_frame(slot, output);
            // RST_STREAM of an upload that nobody reads.
            output.write(|out| out.append(&mut self.frames));
        }
    }

    /// Whether [`Connection::poll_transmit`] has bytes now.
    pub fn has_output(&self) -> bool {
        !self.frames.is_empty() || self.send_window > 0 && self.scheduler.first().is_some()
    }

    /// Bytes of frames that leave before any content.
    pub fn queued_frames(&self) -> usize {
        self.frames.len()
    }

    /// Takes a stream of which all content so far is in the output, or the whole response. To be
    /// called until it returns `None`, once [`Connection::poll_transmit`] was.
    pub fn poll_sent(&mut self) -> Option<Sent> {
        while let Some(sent) = self.sent.pop_front() {
            if sent.is_complete || self.streams.slot(sent.stream).is_some() {
                return Some(sent);
            }
        }
        None
    }

    /// Appends the next DATA frame of a stream that the scheduler has given.
    fn transmit_frame(&mut self, slot: usize, output: &mut Output) {
        let max_frame = self
            .peer_settings()
            .max_frame_size
            .min(self.config.max_data);
        let stream = &mut self.streams[slot];
        let id = stream.id;
        let sending = &mut stream.sending;
        let window = sending.window.min(self.send_window);
        let room = window.min(max_frame.max(1).into()) as usize;
        let length = room.min(sending.queue.len);
        let header = Header {
            length: length as u32,
            kind: kind::DATA,
            flags: 0,
            stream: id,
        };
        sending.window -= i64::from(header.length);
        self.send_window -= i64::from(header.length);
        let is_last = length == sending.queue.len;
        let is_complete = sending.phase == Phase::Complete;
        let trailers = if is_last {
            sending.trailers.take()
        } else {
            None
        };
        let end = is_last && is_complete && trailers.is_none();
        let header = Header {
            flags: if end { flag::END_STREAM } else { 0 },
            ..header
        };
        output.write(|out| header.write(out));
        sending.queue.move_to(output, length);
        sending.is_ready = sending.has_sendable();
        let is_ready = sending.is_ready;
        self.scheduler.next(is_ready);
        self.budget.earn(header.length.into());
        if let Some(trailers) = trailers {
            output.write(|out| self.write_trailers(id, &trailers, out));
            self.ended(slot);
        } else if end {
            self.ended(slot);
        } else if is_last {
            self.sent.push_back(Sent {
                stream: id,
                is_complete: false,
            });
        }
    }
}
