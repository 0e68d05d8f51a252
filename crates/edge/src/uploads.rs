//! Flow control windows for uploads, which follow the bandwidth-delay product.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Context;
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;
use hikyaku_units::ByteSize;
use parking_lot::Mutex;

use crate::clock;

/// Bytes that a connection's uploads may have in flight at first: as much as it may buffer, if
/// nobody reads it. All connections of an address may do so at once. It is ahead of a sender's slow
/// start, which begins with 10 packets (RFC 6928), and is the default of HTTP/2 (RFC 9113 §6.9.2).
pub(crate) const FIRST_WINDOW: u32 = 64 << 10;

/// The window of each stream of HTTP/2 within that of a connection. It is half of it, so that a stream
/// that nobody reads does not hold up all others.
pub(crate) const fn stream_window(connection: u32) -> u32 {
    match connection / 2 {
        0..FIRST_WINDOW => FIRST_WINDOW,
        half => half,
    }
}

/// Memory for windows beyond [`FIRST_WINDOW`], shared by the connections of an address, or by all.
#[derive(Debug)]
pub(crate) struct UploadMemory {
    limit: AtomicU64,
    used: AtomicU64,
}

impl UploadMemory {
    /// So much memory.
    pub(crate) fn new(limit: ByteSize) -> Self {
        Self {
            limit: AtomicU64::new(limit.bytes()),
            used: AtomicU64::new(0),
        }
    }

    /// Changes how much there is. Memory in use stays in use.
    pub(crate) fn set_limit(&self, limit: ByteSize) {
        self.limit.store(limit.bytes(), Ordering::Relaxed);
    }

    /// Takes `bytes`, if there are so many.
    fn take(&self, bytes: u32) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let take = |used: u64| used.checked_add(bytes.into()).filter(|&used| used <= limit);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    fn give_back(&self, bytes: u32) {
        self.used.fetch_sub(bytes.into(), Ordering::Relaxed);
    }
}

/// The window of a connection's uploads.
#[derive(Debug)]
pub(crate) struct UploadWindow {
    state: Mutex<Growth>,
    /// Of who sets the window.
    setter: AtomicWaker,
    /// Of its address, and of all.
    memory: [Arc<UploadMemory>; 2],
}

impl UploadWindow {
    /// One that takes what it needs of the `memory` of its address and of that of all, and never exceeds
    /// `most` bytes.
    pub(crate) fn new(memory: [Arc<UploadMemory>; 2], most: u32) -> Self {
        Self {
            state: Mutex::new(Growth::new(most)),
            setter: AtomicWaker::new(),
            memory,
        }
    }

    /// Notes the connection's round-trip time; zero while it is not known.
    pub(crate) fn note_rtt(&self, rtt: Duration) {
        self.state.lock().rtt = rtt;
    }

    /// Notes that `bytes` of an upload were read.
    pub(crate) fn on_read(&self, bytes: u64) {
        let mut state = self.state.lock();
        if state.on_read(clock::now(), bytes, |more| self.take(more)) {
            drop(state);
            self.setter.wake();
        }
    }

    fn take(&self, bytes: u32) -> bool {
        let [address, all] = &self.memory;
        if !address.take(bytes) {
            return false;
        }
        let taken = all.take(bytes);
        if !taken {
            address.give_back(bytes);
        }
        taken
    }

    /// The window in bytes, where it has changed since the last call. The task is woken when it
    /// changes.
    pub(crate) fn poll_changed(&self, cx: &Context<'_>) -> Option<u32> {
        self.setter.register(cx.waker());
        let mut state = self.state.lock();
        std::mem::take(&mut state.changed).then_some(state.window)
    }

    /// The window in bytes.
    pub(crate) fn bytes(&self) -> u32 {
        self.state.lock().window
    }
}

impl Drop for UploadWindow {
    fn drop(&mut self) {
        let bytes = self.bytes() - FIRST_WINDOW;
        self.memory
            .iter()
            .for_each(|memory| memory.give_back(bytes));
    }
}

/// How a window grows.
///
/// It doubles as soon as an eighth of it is read within a round trip. By the time that a sender in slow
/// start hears of it, it sends four times as much. It may: a stream's window is at least half of the
/// connection's. Uploads that their reader holds up read less, and get no more.
#[derive(Clone, Copy, Debug)]
struct Growth {
    window: u32,
    most: u32,
    rtt: Duration,
    /// Since when the bytes of `read` are counted.
    since: Option<Instant>,
    read: u64,
    changed: bool,
}

impl Growth {
    fn new(most: u32) -> Self {
        Self {
            window: FIRST_WINDOW,
            most: most.max(FIRST_WINDOW),
            rtt: Duration::ZERO,
            since: None,
            read: 0,
            changed: false,
        }
    }

    /// Notes bytes that were read, and grows if `memory` gives the missing bytes. Returns whether it has
    /// grown.
    fn on_read(&mut self, now: Instant, bytes: u64, memory: impl FnOnce(u32) -> bool) -> bool {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) > self.rtt {
            (self.since, self.read) = (Some(now), 0);
        }
        self.read += bytes;
        if self.rtt.is_zero() || self.read < u64::from(self.window / 8) {
            return false;
        }
        (self.since, self.read) = (None, 0);
        let window = self.window.saturating_mul(2).min(self.most);
        let more = window - self.window;
        if more == 0 || !memory(more) {
            return false;
        }
        (self.window, self.changed) = (window, true);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The window in KiB after `secs` of an upload that is read at `rate` bytes a second, as far
    /// as the window lets it.
    fn window_after(secs: u64, rate: u64, rtt_ms: u64, memory: u64) -> u32 {
        let pool = UploadMemory::new(ByteSize::from_bytes(memory));
        let start = Instant::now();
        let mut growth = Growth::new(16 << 20);
        growth.rtt = Duration::from_millis(rtt_ms);
        for ms in (0..secs * 1000).step_by(10) {
            let bound = u64::from(stream_window(growth.window)) * 1000 / rtt_ms;
            let bytes = rate.min(bound) / 100;
            let now = start + Duration::from_millis(ms);
            growth.on_read(now, bytes, |more| pool.take(more));
        }
        growth.window >> 10
    }

    #[test]
    fn the_window_stays_ahead_of_the_bandwidth_delay_product() {
        // name, rate in bytes a second, RTT in ms, memory, window in KiB
        let cases = [
            ("50 Mbit/s over 600 ms", 6_250_000, 600, 1 << 30, 16 << 10),
            ("50 Mbit/s over 100 ms", 6_250_000, 100, 1 << 30, 8 << 10),
            ("50 Mbit/s over 20 ms", 6_250_000, 20, 1 << 30, 2 << 10),
            ("1 Gbit/s over 20 ms", 125_000_000, 20, 1 << 30, 16 << 10),
            (
                "1 Gbit/s over 600 ms: the bound",
                125_000_000,
                600,
                1 << 30,
                16 << 10,
            ),
            ("a reader that takes 100 kB/s", 100_000, 600, 1 << 30, 512),
            ("memory for three steps", 6_250_000, 600, 3 << 20, 2 << 10),
            ("no memory", 6_250_000, 600, 0, 64),
        ];
        for (name, rate, rtt, memory, want) in cases {
            assert_eq!(window_after(30, rate, rtt, memory), want, "{name}");
        }
    }

    #[test]
    fn memory_is_taken_of_the_address_and_of_all_and_given_back() {
        let kib = |kib| Arc::new(UploadMemory::new(ByteSize::from_kib(kib)));
        // of the address, of all, whether they suffice for one step
        for (address, all, grows) in [(64, 64, true), (63, 64, false), (64, 63, false)] {
            let memory = [kib(address), kib(all)];
            let window = UploadWindow::new(memory.clone(), 16 << 20);
            window.note_rtt(Duration::from_secs(1));
            let cx = Context::from_waker(std::task::Waker::noop());
            assert_eq!(window.poll_changed(&cx), None);
            window.on_read(1 << 10);
            assert_eq!(window.poll_changed(&cx), None, "little was read");
            window.on_read(1 << 20);
            let grown = grows.then_some(128 << 10);
            assert_eq!(window.poll_changed(&cx), grown, "{address} and {all}");
            assert_eq!(window.poll_changed(&cx), None, "reported once");
            let used = if grows { 64 << 10 } else { 0 };
            let in_use = |memory: &Arc<UploadMemory>| memory.used.load(Ordering::Relaxed);
            assert_eq!(memory.each_ref().map(in_use), [used; 2]);
            drop(window);
            assert_eq!(memory.each_ref().map(in_use), [0; 2]);
        }
    }
}
