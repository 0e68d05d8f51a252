//! How much of the content that was sent the client has taken, by acknowledgements.
//!
//! Acknowledgements of anything else, such as answers to PING, do not show whether a client
//! takes content.

use std::time::{Duration, Instant};

use super::Snapshot;

/// Bytes that may wait between HTTP and a socket that takes no more: what TLS buffers.
pub(super) const ABOVE_SOCKET: u64 = 144 * 1024;

/// How long after a STREAM frame its acknowledgement may be seen, besides three round trips:
/// the counters are looked at once a second.
const SOON: Duration = Duration::from_secs(1);

/// The stream offset up to which a socket holds content of responses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ContentEnd {
    content: u64,
    end: u64,
    /// It is an upper bound, since the socket was full.
    estimated: bool,
}

impl ContentEnd {
    /// Notes that `content` bytes have left HTTP, and `written` bytes of whatever kind the socket's
    /// writer. Bytes that wait above a socket that is `blocked` will follow. Returns the offset.
    pub(super) fn look(&mut self, content: u64, written: u64, blocked: bool) -> u64 {
        if self.content != content {
            let above = if blocked { ABOVE_SOCKET } else { 0 };
            (self.content, self.end, self.estimated) = (content, written + above, blocked);
        } else if self.estimated && !blocked {
            (self.end, self.estimated) = (self.end.min(written), false);
        }
        self.end
    }
}

/// Bytes that were acknowledged while content was sent, or soon after it.
///
/// Acknowledgements of other frames, such as answers to PATH_CHALLENGE, do not show whether a client
/// takes content.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Streamed {
    /// STREAM frames sent so far.
    frames: u64,
    /// When another was seen.
    at: Option<Instant>,
    acked: u64,
    taken: u64,
}

impl Streamed {
    /// For a connection that is like this after the handshake.
    pub(super) fn after(handshake: &Snapshot) -> Self {
        Self {
            acked: handshake.acked,
            ..Self::default()
        }
    }

    /// Notes that so many STREAM frames were sent. Returns the bytes taken so far.
    pub(super) fn look(&mut self, now: Instant, frames: u64, snapshot: &Snapshot) -> u64 {
        if self.frames != frames {
            (self.frames, self.at) = (frames, Some(now));
        }
        let soon = SOON + 3 * snapshot.srtt;
        if self.at.is_some_and(|at| now <= at + soon) {
            self.taken += snapshot.acked.saturating_sub(self.acked);
        }
        self.acked = snapshot.acked;
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bytes_that_hold_content_are_taken() {
        // name, bytes of content, bytes written, blocked, end of content
        let looks = [
            ("a handshake", 0, 1000, false, 0),
            ("a response", 5000, 6200, false, 6200),
            ("answers to PINGs", 5000, 9000, false, 6200),
            (
                "more content, and a full socket",
                9000,
                20_000,
                true,
                20_000 + ABOVE_SOCKET,
            ),
            ("still full", 9000, 20_000, true, 20_000 + ABOVE_SOCKET),
            ("it has all", 9000, 24_000, false, 24_000),
            ("answers to PINGs again", 9000, 30_000, false, 24_000),
        ];
        let mut end = ContentEnd::default();
        for (name, content, written, blocked, want) in looks {
            assert_eq!(end.look(content, written, blocked), want, "{name}");
        }
    }

    #[test]
    fn only_acknowledgements_of_content_count() {
        let start = Instant::now();
        // name, at ms, STREAM frames sent, bytes acknowledged, bytes taken
        let looks = [
            ("nothing sent", 0, 0, 3000, 0),
            ("content", 1000, 9, 8000, 5000),
            ("a late acknowledgement", 2200, 9, 9000, 6000),
            ("answers to PATH_CHALLENGE", 4000, 9, 12_000, 6000),
            ("content again", 5000, 10, 13_000, 7000),
        ];
        let mut streamed = Streamed::default();
        for (name, ms, frames, acked, want) in looks {
            let snapshot = Snapshot {
                acked,
                srtt: Duration::from_millis(100),
                ..Snapshot::default()
            };
            let now = start + Duration::from_millis(ms);
            assert_eq!(streamed.look(now, frames, &snapshot), want, "{name}");
        }
    }
}
