//! Frames that concern the connection, and streams as a whole.

use hikyaku_http_common::priority::Priority;

use super::Connection;
use super::receive::{Found, Result};
use super::requests::depends_on;
use super::shutdown::STOP_PING;
use crate::error::{Code, Violation};
use crate::frame::{Header, MAX_31_BITS, flag, kind};
use crate::stream::Closed;

impl Connection {
    /// SETTINGS (RFC 9113 §6.5).
    pub(super) fn on_settings(
        &mut self,
        header: Header,
        payload: &[u8],
    ) -> Result<Option<Found<'static>>> {
        if header.stream != 0 {
            return Err(Violation::protocol("SETTINGS on a stream"));
        }
        if header.has(flag::ACK) {
            if !payload.is_empty() {
                return Err(Violation::frame_size("an acknowledgement with settings"));
            }
            self.on_settings_acknowledged()?;
            return Ok(None);
        }
        let before = self.peer_settings();
        let mut settings = before;
        settings.update(payload, self.peer.is_none())?;
        if self.peer.is_some() {
            self.spend_frame(header.length)?;
        }
        self.peer = Some(settings);
        self.encoder.set_peer_capacity(settings.header_table_size);
        let more = i64::from(settings.initial_window_size) - i64::from(before.initial_window_size);
        if more != 0 {
            // The work grows with the streams (CVE-2019-9515 and its kind).
            self.spend_frame(self.streams.len() as u32)?;
            for slot in self.streams.slots().collect::<Vec<_>>() {
                self.widen(slot, more).map_err(|_| overflow_of_settings())?;
            }
        }
        self.reply_with(kind::SETTINGS, flag::ACK, 0, &[])?;
        Ok(None)
    }

    /// Changes the window towards the client of a stream, and goes on sending if it can.
    fn widen(&mut self, slot: usize, more: i64) -> Result<()> {
        let sending = &mut self.streams[slot].sending;
        sending.window += more;
        if sending.window > i64::from(MAX_31_BITS) {
            let reason = "a stream's window exceeds 31 bits";
            return Err(Violation::stream(Code::FLOW_CONTROL_ERROR, reason));
        }
        self.schedule(slot);
        Ok(())
    }

    /// WINDOW_UPDATE (RFC 9113 §6.9).
    pub(super) fn on_window_update(
        &mut self,
        header: Header,
        payload: &[u8],
    ) -> Result<Option<Found<'static>>> {
        let bytes: [u8; 4] = payload
            .try_into()
            .map_err(|_| Violation::frame_size("WINDOW_UPDATE of another size than 4"))?;
        let more = u32::from_be_bytes(bytes) & MAX_31_BITS;
        self.check_not_idle(header)?;
        // CVE-2019-9511, CVE-2019-9517: content sent in tiny pieces allows less than they cost.
        self.spend_frame(0)?;
        if header.stream == 0 {
            if more == 0 {
                return Err(Violation::protocol("WINDOW_UPDATE of 0 bytes"));
            }
            self.send_window += i64::from(more);
            if self.send_window > i64::from(MAX_31_BITS) {
                let reason = "the connection's window exceeds 31 bits";
                return Err(Violation::connection(Code::FLOW_CONTROL_ERROR, reason));
            }
            return Ok(None);
        }
        let Some(slot) = self.streams.slot(header.stream) else {
            return Ok(None);
        };
        if more == 0 {
            return Err(Violation::malformed("WINDOW_UPDATE of 0 bytes"));
        }
        self.widen(slot, more.into())?;
        Ok(None)
    }

    /// RST_STREAM (RFC 9113 §6.4).
    pub(super) fn on_reset(
        &mut self,
        header: Header,
        payload: &[u8],
    ) -> Result<Option<Found<'static>>> {
        let code: [u8; 4] = payload
            .try_into()
            .map_err(|_| Violation::frame_size("RST_STREAM of another size than 4"))?;
        if header.stream == 0 {
            return Err(Violation::protocol("RST_STREAM without a stream"));
        }
        self.check_not_idle(header)?;
        let Some(slot) = self.streams.slot(header.stream) else {
            self.spend_frame(header.length)?;
            return Ok(None);
        };
        // CVE-2023-44487.
        self.cancellations.on_cancelled(self.now)?;
        self.close(slot, Closed::ResetByPeer);
        Ok(Some(Found::Reset {
            stream: header.stream,
            code: Code::from_value(u32::from_be_bytes(code)),
            fault: None,
        }))
    }

    /// PRIORITY (RFC 9113 §6.3), which says nothing any more.
    pub(super) fn on_priority(
        &mut self,
        header: Header,
        payload: &[u8],
    ) -> Result<Option<Found<'static>>> {
        if header.stream == 0 {
            return Err(Violation::protocol("PRIORITY without a stream"));
        }
        self.spend_frame(header.length)?;
        let is_open = self.streams.slot(header.stream).is_some();
        let wrong = |code, reason| match is_open {
            true => Violation::stream(code, reason),
            // RST_STREAM cannot be sent on a stream that is idle.
            false => Violation::connection(code, reason),
        };
        let signal = payload
            .try_into()
            .map_err(|_| wrong(Code::FRAME_SIZE_ERROR, "PRIORITY of another size than 5"))?;
        if depends_on(signal) == header.stream {
            let reason = "a stream that depends on itself";
            return Err(wrong(Code::PROTOCOL_ERROR, reason));
        }
        Ok(None)
    }

    /// PRIORITY_UPDATE (RFC 9218 §7.1).
    pub(super) fn on_priority_update(
        &mut self,
        header: Header,
        payload: &[u8],
    ) -> Result<Option<Found<'static>>> {
        if header.stream != 0 {
            return Err(Violation::protocol("PRIORITY_UPDATE on a stream"));
        }
        let (stream, value) = payload
            .split_first_chunk::<4>()
            .ok_or(Violation::frame_size("PRIORITY_UPDATE without a stream"))?;
        let stream = u32::from_be_bytes(*stream) & MAX_31_BITS;
        if stream.is_multiple_of(2) {
            let reason = "PRIORITY_UPDATE of a stream that is no client's";
            return Err(Violation::protocol(reason));
        }
        self.spend_frame(header.length)?;
        let priority = Priority::parse(value);
        if stream > self.last_stream {
            // "If the total of such streams exceeds the limit, this is a connection error".
            if !self.idle_priorities.update(stream, priority) {
                return Err(Violation::protocol("priorities of too many streams"));
            }
        } else {
            self.set_priority(stream, priority);
        }
        Ok(None)
    }

    /// PING (RFC 9113 §6.7).
    pub(super) fn on_ping(
        &mut self,
        header: Header,
        payload: &[u8],
    ) -> Result<Option<Found<'static>>> {
        let payload: [u8; 8] = payload
            .try_into()
            .map_err(|_| Violation::frame_size("PING of another size than 8"))?;
        if header.stream != 0 {
            return Err(Violation::protocol("PING on a stream"));
        }
        self.spend_frame(header.length)?;
        if !header.has(flag::ACK) {
            self.reply_with(kind::PING, flag::ACK, 0, &payload)?;
            return Ok(None);
        }
        if payload == STOP_PING && self.is_announced() {
            self.refuse_more();
            return Ok(None);
        }
        Ok(Some(Found::Pong { payload }))
    }

    /// GOAWAY (RFC 9113 §6.8).
    pub(super) fn on_goaway(
        &mut self,
        header: Header,
        payload: &[u8],
    ) -> Result<Option<Found<'static>>> {
        if header.stream != 0 {
            return Err(Violation::protocol("GOAWAY on a stream"));
        }
        let Some((&[_, _, _, _, code @ ..], _)) = payload.split_first_chunk::<8>() else {
            return Err(Violation::frame_size("GOAWAY is truncated"));
        };
        self.spend_frame(header.length)?;
        let code = Code::from_value(u32::from_be_bytes(code));
        Ok(Some(Found::GoAway { code }))
    }

    /// A frame on a stream that is idle, or that a server would have to open (RFC 9113 §5.1).
    fn check_not_idle(&self, header: Header) -> Result<()> {
        let stream = header.stream;
        if stream > self.last_stream || stream != 0 && stream.is_multiple_of(2) {
            return Err(Violation::protocol("a frame on an idle stream"));
        }
        Ok(())
    }
}

const fn overflow_of_settings() -> Violation {
    let reason = "settings by which a stream's window exceeds 31 bits";
    Violation::connection(Code::FLOW_CONTROL_ERROR, reason)
}
