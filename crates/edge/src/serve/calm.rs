//! A bound on the frames of HTTP/2 that ask for nothing.
//!
//! SETTINGS and PING have to be acknowledged, PRIORITY, WINDOW_UPDATE, RST_STREAM, empty DATA and
//! unknown frames to be looked at. An endpoint that sends them without end may be treated as having
//! reached ENHANCE_YOUR_CALM (RFC 9113 §10.5).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::clock;
use crate::metrics::Refusal;
use crate::shared::Shared;

/// Frames that a client may send at once beyond its rate.
const BURST: u64 = 10_000;
/// The time in which one more frame is never too many: a thousand in a second.
const EACH: Duration = Duration::from_millis(1);
/// Bytes sent that excuse a frame: receivers open their windows as they read.
const BYTES_EACH: u64 = 1024;
/// Length of what a client says first (RFC 9113 §3.4).
const PREFACE: u64 = 24;

/// Follows the frames that a client sends (RFC 9113 §4.1).
#[derive(Debug)]
struct Frames {
    head: [u8; 9],
    /// Bytes of `head` that are there.
    known: usize,
    /// Bytes until the next frame begins.
    skip: u64,
}

impl Frames {
    const fn new() -> Self {
        Self {
            head: [0; 9],
            known: 0,
            skip: PREFACE,
        }
    }

    /// Takes the next bytes. Returns how many frames began among them that ask for nothing.
    fn observe(&mut self, mut bytes: &[u8]) -> u64 {
        let mut idle = 0;
        while !bytes.is_empty() {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len() as u64);
                self.skip -= skipped;
                bytes = &bytes[skipped as usize..];
                continue;
            }
            let taken = (self.head.len() - self.known).min(bytes.len());
            self.head[self.known..][..taken].copy_from_slice(&bytes[..taken]);
            self.known += taken;
            bytes = &bytes[taken..];
            if self.known == self.head.len() {
                self.known = 0;
                idle += u64::from(self.begin());
            }
        }
        idle
    }

    /// Begins the frame of `head`. Returns whether it asks for nothing.
    fn begin(&mut self) -> bool {
        const DATA: u8 = 0;
        const HEADERS: u8 = 1;
        const CONTINUATION: u8 = 9;
        const END_STREAM: u8 = 1;
        let [a, b, c, kind, flags, ..] = self.head;
        let length = u32::from_be_bytes([0, a, b, c]);
        self.skip = u64::from(length);
        match kind {
            DATA => length == 0 && flags & END_STREAM == 0,
            HEADERS | CONTINUATION => false,
            _ => true,
        }
    }
}

/// How many idle frames a client may still send.
#[derive(Debug)]
struct Allowance {
    left: u64,
    /// Up to when the rate has been added.
    until: Instant,
}

impl Allowance {
    const fn new(now: Instant) -> Self {
        Self {
            left: BURST,
            until: now,
        }
    }

    /// Takes `frames` off, after `sent` more bytes went to the client. Returns whether there were
    /// enough.
    fn take(&mut self, now: Instant, frames: u64, sent: u64) -> bool {
        let elapsed = now.saturating_duration_since(self.until).as_nanos();
        let earned = u64::try_from(elapsed / EACH.as_nanos()).unwrap_or(u64::MAX);
        self.until += EACH * u32::try_from(earned).unwrap_or(u32::MAX);
        let all = self.left.saturating_add(earned).min(BURST);
        let all = all.saturating_add(sent / BYTES_EACH);
        self.left = all.saturating_sub(frames);
        all >= frames
    }
}

/// A connection on which frames that ask for nothing are bounded; reading more of them fails.
#[derive(Debug)]
pub(super) struct Calm<T> {
    io: T,
    frames: Frames,
    allowance: Allowance,
    /// Bytes written since a frame was last paid for.
    sent: u64,
    shared: Arc<Shared>,
}

impl<T> Calm<T> {
    pub(super) fn new(io: T, shared: Arc<Shared>) -> Self {
        Self {
            io,
            frames: Frames::new(),
            allowance: Allowance::new(clock::now()),
            sent: 0,
            shared,
        }
    }

    fn check(&mut self, bytes: &[u8]) -> io::Result<()> {
        let idle = self.frames.observe(bytes);
        if idle == 0 {
            return Ok(());
        }
        let sent = self.sent;
        self.sent %= BYTES_EACH;
        if self.allowance.take(clock::now(), idle, sent) {
            return Ok(());
        }
        self.shared.metrics.on_refusal(Refusal::Flood);
        Err(io::Error::other("too many frames that ask for nothing"))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Calm<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        Poll::Ready(self.check(&buf.filled()[before..]))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Calm<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(cx, buf))?;
        self.sent += written as u64;
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, bufs))?;
        self.sent += written as u64;
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, length: u32) -> Vec<u8> {
        let [_, a, b, c] = length.to_be_bytes();
        let head = [a, b, c, kind, flags, 0, 0, 0, 1];
        [&head[..], &vec![0; length as usize]].concat()
    }

    #[test]
    fn frames_are_told_apart_however_they_are_cut() {
        let cases = [
            ("DATA", frame(0, 0, 300), 0),
            ("empty DATA", frame(0, 0, 0), 1),
            ("the end of a request", frame(0, 1, 0), 0),
            ("HEADERS", frame(1, 4, 20), 0),
            ("PRIORITY", frame(2, 0, 5), 1),
            ("RST_STREAM", frame(3, 0, 4), 1),
            ("SETTINGS", frame(4, 0, 0), 1),
            ("PING", frame(6, 0, 8), 1),
            ("WINDOW_UPDATE", frame(8, 0, 4), 1),
            ("CONTINUATION", frame(9, 4, 70_000), 0),
            ("unknown", frame(0xfa, 0, 3), 1),
        ];
        let mut all = vec![b'P'; PREFACE as usize];
        for (name, bytes, want) in &cases {
            let mut frames = Frames::new();
            frames.skip = 0;
            assert_eq!(frames.observe(bytes), *want, "{name}");
            all.extend_from_slice(bytes);
        }
        let want: u64 = cases.iter().map(|(_, _, idle)| idle).sum();
        for size in [1, 2, 8, 9, 10, 1000, all.len()] {
            let mut frames = Frames::new();
            let idle: u64 = all.chunks(size).map(|bytes| frames.observe(bytes)).sum();
            assert_eq!(idle, want, "in pieces of {size}");
        }
    }

    #[test]
    fn only_floods_are_too_many() {
        let start = Instant::now();
        // name, frames and bytes sent every 100 ms, whether it goes on for a minute
        let cases = [
            ("a PING now and then", 1, 0, true),
            ("as fast as is never too many", 100, 0, true),
            ("ten times that", 1000, 0, false),
            (
                "a window for each packet of 1 Gbit/s",
                8600,
                12_500_000,
                true,
            ),
            ("windows for nothing", 8600, 100_000, false),
        ];
        for (name, frames, sent, want) in cases {
            let mut allowance = Allowance::new(start);
            let goes_on = (1..=600).all(|step| {
                let now = start + Duration::from_millis(100 * step);
                allowance.take(now, frames, sent)
            });
            assert_eq!(goes_on, want, "{name}");
        }
        let mut allowance = Allowance::new(start);
        assert!(allowance.take(start, BURST, 0), "a burst");
        assert!(!allowance.take(start, 1, 0), "and no more");
    }
}
