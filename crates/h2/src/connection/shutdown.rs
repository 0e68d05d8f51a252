//! The end of a connection, and timeouts (RFC 9113 §6.8).

use std::time::{Duration, Instant};

use super::Connection;
use crate::error::{Code, Error};
use crate::frame::{self, MAX_31_BITS, kind};

/// The steps of a server's stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Ask the client to open no more requests. Requests on their way are still taken, for a round
    /// trip or at most a second; then the step [`Shutdown::Refuse`] follows by itself.
    Announce,
    /// Reject the requests that have not arrived until now.
    Refuse,
}

/// GOAWAY as far as it was sent.
#[derive(Debug, Default)]
pub(super) struct Stop {
    /// The last stream in the last frame.
    sent: Option<u32>,
    /// The time by which requests are refused, once the stop was announced.
    deadline: Option<Instant>,
}

impl Stop {
    /// Whether a new stream is beyond the last one that is taken.
    pub(super) fn refuses(&self, stream: u32) -> bool {
        self.sent.is_some_and(|last| stream > last)
    }
}

impl Connection {
    /// Announces that this server stops.
    ///
    /// The first of two GOAWAY frames has "the last stream identifier set to 2^31-1 and a NO_ERROR
    /// code" (RFC 9113 §6.8).
    pub fn shutdown(&mut self, step: Shutdown, now: Instant) {
        self.now = now;
        match step {
            Shutdown::Announce if self.stop.sent.is_none() && !self.has_failed => {
                self.stop.sent = Some(MAX_31_BITS);
                self.stop.deadline = now.checked_add(MAX_ANNOUNCED);
                self.write_goaway(MAX_31_BITS, Code::NO_ERROR, "");
                self.ping(STOP_PING);
            }
            Shutdown::Announce => {}
            Shutdown::Refuse => self.refuse_more(),
        }
    }

    /// Whether the stop was announced, and requests are not refused yet.
    pub(super) fn is_announced(&self) -> bool {
        self.stop.deadline.is_some()
    }

    /// Rejects requests from now on. "Endpoints MUST NOT increase the value they send".
    pub(super) fn refuse_more(&mut self) {
        self.stop.deadline = None;
        let last = self.last_stream;
        if !self.has_failed && self.stop.sent.is_none_or(|sent| sent > last) {
            self.stop.sent = Some(last);
            self.write_goaway(last, Code::NO_ERROR, "");
        }
    }

    /// Whether nothing more comes: the connection failed, or it stops and its requests have ended.
    /// Once the output has been sent, the connection is to be closed.
    pub fn is_finished(&self) -> bool {
        let has_stopped = self.stop.sent.is_some() && self.stop.deadline.is_none();
        self.has_failed || has_stopped && self.streams.is_empty()
    }

    /// The time at which [`Connection::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.has_failed {
            return None;
        }
        let deadlines = [self.windows.deadline, self.stop.deadline];
        deadlines.into_iter().flatten().min()
    }

    /// Handles the timeouts that are due `now`.
    ///
    /// # Errors
    /// `SETTINGS_TIMEOUT` if the client has not acknowledged settings in time (RFC 9113 §6.5.3).
    pub fn handle_timeout(&mut self, now: Instant) -> Result<(), Error> {
        self.now = now;
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|it| it <= now);
        if self.has_failed {
            return Ok(());
        }
        if is_due(self.stop.deadline) {
            self.refuse_more();
        }
        if is_due(self.windows.deadline) {
            let error = Error {
                code: Code::SETTINGS_TIMEOUT,
                reason: "settings without an acknowledgement",
            };
            self.fail(error);
            return Err(error);
        }
        Ok(())
    }

    pub(super) fn write_goaway(&mut self, last: u32, code: Code, reason: &str) {
        let mut payload = [last.to_be_bytes(), code.value().to_be_bytes()].concat();
        payload.extend_from_slice(reason.as_bytes());
        frame::write(kind::GOAWAY, 0, 0, &payload, &mut self.frames);
    }
}

/// The PING frame whose answer shows that the client has seen the announcement.
pub(super) const STOP_PING: [u8; 8] = *b"stopping";

/// The longest time from the announcement to the refusal.
const MAX_ANNOUNCED: Duration = Duration::from_secs(1);
