//! Flow control of the client's content (RFC 9113 §5.2, §6.9).

use std::time::Instant;

use super::receive::Result;
use super::{Config, Connection};
use crate::error::{Code, Violation};
use crate::frame::{self, MAX_31_BITS, kind};
use crate::settings::{self, INITIAL_WINDOW, id};

/// The windows that the server gives its client.
#[derive(Debug)]
pub(super) struct LocalWindows {
    /// Bytes that the client may still send on all streams together.
    connection: i64,
    /// Bytes that nobody gets, and for which the client has got no credit again.
    dropped: u32,
    /// The window of new streams that the client is held to. A larger one holds from the frame that
    /// announces it, a smaller one from its acknowledgement.
    stream: u32,
    /// The last window of new streams that was sent.
    announced: u32,
    /// A window of new streams that is sent once the client has acknowledged the former one.
    wanted: Option<u32>,
    /// The time by which the client has to acknowledge settings, if it has not.
    pub(super) deadline: Option<Instant>,
}

impl LocalWindows {
    pub(super) fn new(config: &Config, connection: u32, now: Instant) -> Self {
        Self {
            connection: connection.into(),
            dropped: 0,
            stream: config.stream_window.clamp(INITIAL_WINDOW, MAX_31_BITS),
            announced: config.stream_window.min(MAX_31_BITS),
            wanted: None,
            deadline: now.checked_add(config.settings_timeout),
        }
    }

    /// Bytes that the client may send on a stream that it opens now.
    pub(super) fn of_new_stream(&self) -> i64 {
        self.stream.into()
    }

    /// Counts bytes of a DATA frame.
    ///
    /// # Errors
    /// `FLOW_CONTROL_ERROR` of the connection.
    pub(super) fn on_received(&mut self, length: u32) -> Result<()> {
        self.connection -= i64::from(length);
        if self.connection < 0 {
            let reason = "more content than the connection's window allows";
            return Err(Violation::connection(Code::FLOW_CONTROL_ERROR, reason));
        }
        Ok(())
    }
}

impl Connection {
    /// Bytes of content that the client may still send on all streams together.
    pub fn connection_window(&self) -> u32 {
        u32::try_from(self.windows.connection).unwrap_or_default()
    }

    /// Bytes of content that the client may still send on a stream; none if it is over.
    pub fn stream_window(&self, stream: u32) -> u32 {
        let slot = self.streams.slot(stream);
        let window = slot.map_or(0, |slot| self.streams[slot].receiving.window);
        u32::try_from(window).unwrap_or_default()
    }

    /// Allows `bytes` more of content on all streams together, up to 2^31 - 1 bytes.
    ///
    /// The window grows by this alone, beside bytes that no event has brought: those of padding, and
    /// of streams that are over or stopped.
    pub fn grow_connection_window(&mut self, bytes: u32) {
        let room = i64::from(MAX_31_BITS) - self.windows.connection;
        let bytes = i64::from(bytes).min(room) as u32;
        if bytes > 0 && !self.has_failed {
            self.windows.connection += i64::from(bytes);
            self.write_window_update(0, bytes);
        }
    }

    /// Allows `bytes` more of content on a stream, up to 2^31 - 1 bytes. Does nothing if the request
    /// has ended.
    pub fn grow_stream_window(&mut self, stream: u32, bytes: u32) {
        let Some(slot) = self.streams.slot(stream) else {
            return;
        };
        let receiving = &mut self.streams[slot].receiving;
        if receiving.has_ended || receiving.is_stopped {
            return;
        }
        let room = i64::from(MAX_31_BITS) - receiving.window;
        let bytes = i64::from(bytes) + i64::from(receiving.padding);
        let bytes = bytes.min(room);
        receiving.padding = 0;
        receiving.window += bytes;
        if bytes > 0 {
            self.write_window_update(stream, bytes as u32);
        }
    }

    /// Sets the window of streams, in bytes, up to 2^31 - 1: of new ones, and of open ones by the
    /// difference (RFC 9113 §6.9.2). It holds once the client has acknowledged it.
    pub fn set_stream_window(&mut self, window: u32, now: Instant) {
        self.now = now;
        self.windows.wanted = Some(window.min(MAX_31_BITS));
        self.announce_window();
    }

    /// Sends the window that is wanted, unless the client has former settings to acknowledge.
    fn announce_window(&mut self) {
        if self.windows.deadline.is_some() || self.has_failed {
            return;
        }
        let Some(window) = self.windows.wanted.take() else {
            return;
        };
        if window != self.windows.announced {
            self.windows.announced = window;
            self.windows.deadline = self.now.checked_add(self.config.settings_timeout);
            settings::write(&[(id::INITIAL_WINDOW_SIZE, window)], &mut self.frames);
            self.move_windows(self.windows.stream.max(window));
        }
    }

    /// Takes the acknowledgement of settings.
    pub(super) fn on_settings_acknowledged(&mut self) -> Result<()> {
        if self.windows.deadline.take().is_none() {
            return self.spend_frame(0);
        }
        self.decoder.set_max_capacity(self.config.header_table_size);
        self.move_windows(self.windows.stream.min(self.windows.announced));
        self.announce_window();
        Ok(())
    }

    /// Changes the window of new streams, and that of open ones by the difference.
    fn move_windows(&mut self, window: u32) {
        let difference = i64::from(window) - i64::from(self.windows.stream);
        self.windows.stream = window;
        for slot in self.streams.slots().collect::<Vec<_>>() {
            self.streams[slot].receiving.window += difference;
        }
    }

    /// Gives the client credit for bytes that nobody gets.
    pub(super) fn credit(&mut self, bytes: u32) -> Result<()> {
        self.windows.dropped += bytes;
        let dropped = self.windows.dropped;
        if dropped >= MIN_CREDIT {
            self.windows.dropped = 0;
            self.windows.connection += i64::from(dropped);
            self.reply(kind::WINDOW_UPDATE, 0, &dropped.to_be_bytes())?;
        }
        Ok(())
    }

    fn write_window_update(&mut self, stream: u32, bytes: u32) {
        let payload = bytes.to_be_bytes();
        frame::write(kind::WINDOW_UPDATE, 0, stream, &payload, &mut self.frames);
    }
}

/// Bytes that nobody gets are credited from this many on.
const MIN_CREDIT: u32 = 8 * 1024;
