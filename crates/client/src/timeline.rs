//! The times of a request's events.

use std::time::{Duration, Instant};

/// The times of opening a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Opening {
    /// Name resolution.
    pub(super) resolve: Duration,
    /// TCP: SYN to SYN-ACK. QUIC: the whole handshake, TLS included.
    pub(super) connect: Duration,
    /// The TLS handshake on TCP.
    pub(super) tls: Option<Duration>,
}

/// The moments of one request, as far as it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeline {
    pub(super) start: Instant,
    /// Times of opening a connection for this request; `None` if it used an existing one.
    pub(super) opening: Option<Opening>,
    /// A connection is open and the request is about to be written.
    pub(super) send: Option<Instant>,
    /// The request is written.
    pub(super) sent: Option<Instant>,
    /// The response's header section has arrived.
    pub(super) first_byte: Option<Instant>,
    /// The response is complete, or was given up.
    pub(super) end: Option<Instant>,
}

/// The phases of a request; their sum is its total time, as in the HTTP Archive format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Phases {
    /// Waiting for a connection that is being opened or in use, or failed attempts.
    pub(super) blocked: Duration,
    pub(super) opening: Opening,
    pub(super) send: Duration,
    /// Time from the request's last byte to the response's first.
    pub(super) wait: Duration,
    pub(super) receive: Duration,
}

impl Timeline {
    pub(super) fn new(start: Instant) -> Self {
        Self {
            start,
            opening: None,
            send: None,
            sent: None,
            first_byte: None,
            end: None,
        }
    }

    /// Discards an attempt that will be repeated; its time counts as blocked.
    pub(super) fn retry(&mut self) {
        *self = Self::new(self.start);
    }

    /// Time from the start to the end, zero while it has not ended.
    pub(super) fn total(&self) -> Duration {
        self.end.map_or(Duration::ZERO, |end| end - self.start)
    }

    /// Time from the start to the first byte of the response.
    pub(super) fn until_first_byte(self) -> Option<Duration> {
        self.first_byte.map(|at| at - self.start)
    }

    /// Returns the time of each phase. A phase that was reached but not left lasts to the end, and
    /// those after it are zero.
    pub(super) fn phases(&self) -> Phases {
        let end = self.end.unwrap_or(self.start);
        let send = self.send.unwrap_or(end);
        let first_byte = self.first_byte.unwrap_or(end).max(send);
        // A response may begin before its request is complete.
        let sent = self.sent.unwrap_or(first_byte).clamp(send, first_byte);
        let opening = self.opening.unwrap_or_default();
        let spent = opening.resolve + opening.connect + opening.tls.unwrap_or_default();
        Phases {
            blocked: (send - self.start).saturating_sub(spent),
            opening,
            send: sent - send,
            wait: first_byte - sent,
            receive: end.saturating_duration_since(first_byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(start: Instant, ms: Option<u64>) -> Option<Instant> {
        ms.map(|ms| start + Duration::from_millis(ms))
    }

    #[test]
    fn phases_of_requests_that_ended_early() {
        // name, send, sent, first byte, end -> blocked, send, wait, receive
        type Case = (&'static str, [Option<u64>; 4], [u64; 4]);
        let cases: &[Case] = &[
            (
                "complete",
                [Some(30), Some(31), Some(50), Some(90)],
                [10, 1, 19, 40],
            ),
            ("no connection", [None, None, None, Some(40)], [20, 0, 0, 0]),
            (
                "while sending",
                [Some(30), None, None, Some(40)],
                [10, 10, 0, 0],
            ),
            (
                "while waiting",
                [Some(30), Some(31), None, Some(40)],
                [10, 1, 9, 0],
            ),
            (
                "early answer",
                [Some(30), Some(60), Some(50), Some(70)],
                [10, 20, 0, 20],
            ),
        ];
        let start = Instant::now();
        for (name, [send, sent, first_byte, end], want) in cases {
            let timeline = Timeline {
                start,
                opening: Some(Opening {
                    resolve: Duration::from_millis(1),
                    connect: Duration::from_millis(9),
                    tls: Some(Duration::from_millis(10)),
                }),
                send: at(start, *send),
                sent: at(start, *sent),
                first_byte: at(start, *first_byte),
                end: at(start, *end),
            };
            let phases = timeline.phases();
            let got = [phases.blocked, phases.send, phases.wait, phases.receive];
            assert_eq!(got, want.map(Duration::from_millis), "{name}");
        }
    }

    proptest! {
        #[test]
        fn phases_add_up(opened in 0u64..50, steps in prop::array::uniform4(0u64..1000)) {
            let start = Instant::now();
            let mut now = start + Duration::from_millis(opened);
            let mut after = |ms| { now += Duration::from_millis(ms); Some(now) };
            let timeline = Timeline {
                start,
                opening: Some(Opening {
                    resolve: Duration::ZERO,
                    connect: Duration::from_millis(opened),
                    tls: None,
                }),
                send: after(steps[0]),
                sent: after(steps[1]),
                first_byte: after(steps[2]),
                end: after(steps[3]),
            };
            let p = timeline.phases();
            let sum = p.blocked + p.opening.connect + p.send + p.wait + p.receive;
            prop_assert_eq!(sum, timeline.total());
        }
    }
}
