//! Sending of responses (RFC 9113 §8.1).

use bytes::Bytes;
use hikyaku_http_common::content::Content;
use hikyaku_http_common::message::{is_sent, length_of};
use hikyaku_http_common::priority::{Parameters, Priority};
use http::{HeaderMap, StatusCode};

use super::{Connection, Sent};
use crate::error::{Code, Unsent};
use crate::frame::{self, flag, kind};
use crate::hpack::Encoder;
use crate::message::Prepared;
use crate::stream::{Closed, Phase};

impl Connection {
    /// Sends a header section: any number of interim ones (1xx), then the final one. `end` says that
    /// no content follows.
    ///
    /// Fields that HTTP/2 must not have, such as Connection, are left out (RFC 9113 §8.2.2).
    ///
    /// # Errors
    /// [`Unsent::Over`], [`Unsent::Order`] after the final one, [`Unsent::SwitchesProtocols`] for
    /// 101, [`Unsent::Content`] if content has to follow, [`Unsent::TooLarge`].
    pub fn send_head(
        &mut self,
        stream: u32,
        status: StatusCode,
        headers: &HeaderMap,
        end: bool,
    ) -> Result<(), Unsent> {
        let slot = self.head_of(stream, status, length_of(headers), end)?;
        self.check_size(|| 32 + 10 + size(headers))?;
        let max_frame = self.max_frame();
        let encoder = &mut self.encoder;
        frame::write_block(stream, end, max_frame, &mut self.frames, |out| {
            encoder.begin(out);
            encoder.line(b":status", status.as_str().as_bytes(), false, out);
            encode_fields(encoder, headers, out);
        });
        self.head_is_sent(slot, status, length_of(headers), end);
        if !end && !status.is_informational() {
            self.on_server_priority(stream, slot, Parameters::of(headers));
        }
        Ok(())
    }

    /// Sends a prepared header section, with the fields in `more` after its own. Their names are in
    /// lower case. `end` says that no content follows.
    ///
    /// # Errors
    /// As [`Connection::send_head`].
    pub fn send_prepared(
        &mut self,
        stream: u32,
        prepared: &Prepared,
        more: &[(&str, &[u8])],
        end: bool,
    ) -> Result<(), Unsent> {
        let Prepared {
            status,
            content_length,
            priority,
            ref lines,
        } = *prepared;
        let slot = self.head_of(stream, status, content_length, end)?;
        self.check_size(|| {
            let more = more
                .iter()
                .map(|(name, value)| name.len() + value.len() + 32);
            lines.size() + more.sum::<usize>() as u64
        })?;
        let max_frame = self.max_frame();
        let encoder = &mut self.encoder;
        frame::write_block(stream, end, max_frame, &mut self.frames, |out| {
            encoder.begin(out);
            encoder.prepared(lines, out);
            for (name, value) in more {
                encoder.line(name.as_bytes(), value, false, out);
            }
        });
        self.head_is_sent(slot, status, content_length, end);
        if !end {
            self.on_server_priority(stream, slot, priority);
        }
        Ok(())
    }

    /// Checks that a header section can be sent now. Returns the slot of its stream.
    fn head_of(
        &self,
        stream: u32,
        status: StatusCode,
        length: Option<u64>,
        end: bool,
    ) -> Result<usize, Unsent> {
        let slot = self.streams.slot(stream).ok_or(Unsent::Over)?;
        let sending = &self.streams[slot].sending;
        if sending.phase != Phase::Head {
            return Err(Unsent::Order);
        }
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Unsent::SwitchesProtocols);
        }
        if end && status.is_informational() {
            return Err(Unsent::Order);
        }
        if end {
            Content::of_response(status, &sending.method, length).on_end()?;
        }
        Ok(slot)
    }

    fn head_is_sent(&mut self, slot: usize, status: StatusCode, length: Option<u64>, end: bool) {
        if status.is_informational() {
            return;
        }
        let sending = &mut self.streams[slot].sending;
        sending.content = Content::of_response(status, &sending.method, length);
        sending.phase = Phase::Content;
        if end {
            sending.phase = Phase::Complete;
            self.ended(slot);
        }
    }

    /// Sends content. It waits, without a copy, until the client's windows and other responses leave
    /// room; [`Connection::queued`] bytes do so. `end` says that it is the last.
    ///
    /// # Errors
    /// [`Unsent::Over`], [`Unsent::Order`] before the header section or after the end.
    /// [`Unsent::Content`] if the header section announces another length, or allows none.
    pub fn send_data(&mut self, stream: u32, data: Bytes, end: bool) -> Result<(), Unsent> {
        let slot = self.content_of(stream)?;
        let sending = &mut self.streams[slot].sending;
        let mut content = sending.content;
        content.on_data(data.len() as u64)?;
        if end {
            content.on_end()?;
            sending.phase = Phase::Complete;
        }
        sending.content = content;
        sending.queue.push(data);
        if end && sending.queue.len == 0 {
            frame::write(kind::DATA, flag::END_STREAM, stream, &[], &mut self.frames);
            self.ended(slot);
        } else {
            self.schedule(slot);
        }
        Ok(())
    }

    /// Sends trailers, which end the response, after all content.
    ///
    /// # Errors
    /// [`Unsent::Over`], [`Unsent::Order`] before the header section, after the end or in a tunnel.
    /// [`Unsent::Content`] if content is missing, [`Unsent::TooLarge`].
    pub fn send_trailers(&mut self, stream: u32, trailers: HeaderMap) -> Result<(), Unsent> {
        let slot = self.content_of(stream)?;
        self.check_size(|| size(&trailers))?;
        let sending = &mut self.streams[slot].sending;
        if sending.content == Content::Tunnel {
            return Err(Unsent::Order);
        }
        sending.content.on_end()?;
        sending.phase = Phase::Complete;
        if sending.queue.len > 0 {
            sending.trailers = Some(Box::new(trailers));
            return Ok(());
        }
        let mut frames = std::mem::take(&mut self.frames);
        self.write_trailers(stream, &trailers, &mut frames);
        self.frames = frames;
        self.ended(slot);
        Ok(())
    }

    /// Whether content may be sent: after the header section, unless that answers HEAD or has a
    /// status without content (RFC 9110 §6.4.1).
    pub fn takes_content(&self, stream: u32) -> bool {
        let slot = self.content_of(stream).ok();
        slot.is_some_and(|slot| self.streams[slot].sending.content != Content::None)
    }

    /// The slot of a stream on which content can be sent.
    fn content_of(&self, stream: u32) -> Result<usize, Unsent> {
        let slot = self.streams.slot(stream).ok_or(Unsent::Over)?;
        match self.streams[slot].sending.phase {
            Phase::Content => Ok(slot),
            Phase::Complete if self.streams[slot].sending.has_ended => Err(Unsent::Over),
            Phase::Head | Phase::Complete => Err(Unsent::Order),
        }
    }

    pub(super) fn write_trailers(&mut self, stream: u32, trailers: &HeaderMap, out: &mut Vec<u8>) {
        let max_frame = self.max_frame();
        let encoder = &mut self.encoder;
        frame::write_block(stream, true, max_frame, out, |out| {
            encoder.begin(out);
            encode_fields(encoder, trailers, out);
        });
    }

    /// Resets a stream: neither its request nor its response goes on. Does nothing if it is over.
    pub fn reset(&mut self, stream: u32, code: Code) {
        if let Some(slot) = self.streams.slot(stream) {
            self.write_reset(stream, code);
            self.close(slot, Closed::Reset);
        }
    }

    /// Drops the rest of a request's content. The client is asked to send no more once the response
    /// is complete (RFC 9113 §8.1). Does nothing if the request has ended.
    pub fn stop_reading(&mut self, stream: u32) {
        if let Some(slot) = self.streams.slot(stream) {
            self.streams[slot].receiving.is_stopped = true;
            if self.streams[slot].sending.has_ended {
                self.close_sent(slot);
            }
        }
    }

    /// Has the parameters of a response's own priority replace the client's (RFC 9218 §8).
    fn on_server_priority(&mut self, stream: u32, slot: usize, parameters: Parameters) {
        if parameters != Parameters::default() {
            self.streams[slot].by_server = parameters;
            self.set_priority(stream, self.streams[slot].priority);
        }
    }

    /// Sets the client's priority of a response, but for the parameters that the response itself has (RFC 9218
    /// §8). Does nothing if the stream is over.
    pub fn set_priority(&mut self, stream: u32, priority: Priority) {
        let Some(slot) = self.streams.slot(stream) else {
            return;
        };
        let priority = self.streams[slot].by_server.or(priority);
        let before = std::mem::replace(&mut self.streams[slot].priority, priority);
        if before != priority && self.streams[slot].sending.is_ready {
            self.scheduler.remove(stream, before);
            self.scheduler.insert(stream, slot, priority);
        }
    }

    /// Bytes of a response's content that wait to be sent.
    pub fn queued(&self, stream: u32) -> usize {
        let slot = self.streams.slot(stream);
        slot.map_or(0, |slot| self.streams[slot].sending.queue.len)
    }

    /// Gives the stream to the scheduler if it has content that can be sent.
    pub(super) fn schedule(&mut self, slot: usize) {
        let stream = &mut self.streams[slot];
        if stream.sending.has_sendable() && !stream.sending.is_ready {
            stream.sending.is_ready = true;
            self.scheduler.insert(stream.id, slot, stream.priority);
        }
    }

    /// Takes note that the end of a response is in the output.
    pub(super) fn ended(&mut self, slot: usize) {
        let stream = &mut self.streams[slot];
        stream.sending.has_ended = true;
        self.sent.push_back(Sent {
            stream: stream.id,
            is_complete: true,
        });
        self.close_sent(slot);
    }

    /// Closes a stream that has sent its response, unless its request goes on.
    fn close_sent(&mut self, slot: usize) {
        let stream = &self.streams[slot];
        if stream.receiving.is_stopped && !stream.receiving.has_ended {
            let id = stream.id;
            self.cancellations.on_complete();
            self.write_reset(id, Code::NO_ERROR);
            self.close(slot, Closed::Reset);
        } else {
            self.close_if_over(slot);
        }
    }

    fn write_reset(&mut self, stream: u32, code: Code) {
        let payload = code.value().to_be_bytes();
        frame::write(kind::RST_STREAM, 0, stream, &payload, &mut self.frames);
    }

    fn check_size(&self, size: impl FnOnce() -> u64) -> Result<(), Unsent> {
        let limit = self
            .peer
            .as_ref()
            .and_then(|peer| peer.max_header_list_size);
        let Some(limit) = limit.map(u64::from) else {
            return Ok(());
        };
        let size = size();
        if size > limit {
            return Err(Unsent::TooLarge { size, limit });
        }
        Ok(())
    }

    fn max_frame(&self) -> usize {
        self.peer_settings().max_frame_size as usize
    }
}

fn encode_fields(encoder: &mut Encoder, headers: &HeaderMap, out: &mut Vec<u8>) {
    for (name, value) in headers {
        if is_sent(name, value) {
            let name = name.as_str().as_bytes();
            encoder.line(name, value.as_bytes(), value.is_sensitive(), out);
        }
    }
}

/// The size of fields in a section (RFC 9113 §6.5.2).
fn size(headers: &HeaderMap) -> u64 {
    let sizes = headers
        .iter()
        .filter(|(name, value)| is_sent(name, value))
        .map(|(name, value)| name.as_str().len() + value.len() + 32);
    sizes.sum::<usize>() as u64
}
