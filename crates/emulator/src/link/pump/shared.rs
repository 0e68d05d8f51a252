//! State that the pump's thread and its owner share.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hikyaku_netsim::{Counters, Tally};
use hikyaku_units::Timestamp;
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::ClockId;

use super::{ChangePair, clock};
use crate::link::report::{DirectionState, Sample};

/// The owner's commands to the thread.
#[derive(Debug)]
pub(super) enum Command {
    /// Change the links at times after `start`.
    Change {
        start: Timestamp,
        changes: ChangePair,
    },
    /// Change the links at times after the first packet up.
    ChangeAfterFirstPacket(ChangePair),
    /// End the thread.
    Stop,
}

/// A bell for the thread, and its figures for the owner.
#[derive(Debug)]
pub(super) struct Shared {
    bell: OwnedFd,
    started: Duration,
    up: Gauge,
    down: Gauge,
}

impl Shared {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            started: clock(ClockId::Monotonic),
            up: Gauge::default(),
            down: Gauge::default(),
        })
    }

    /// Start of the link, by the monotonic clock.
    pub(super) fn started(&self) -> Duration {
        self.started
    }

    /// Wakes the thread: there is a command.
    pub(super) fn wake(&self) -> io::Result<()> {
        rustix::io::write(&self.bell, &1_u64.to_ne_bytes())?;
        Ok(())
    }

    /// A file that is readable after [`Self::wake`].
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Waits for the next [`Self::wake`] from now on.
    pub(super) fn silence(&self) {
        // The read fails if nobody has rung.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }

    pub(super) fn publish(&self, up: &DirectionState, down: &DirectionState) {
        self.up.store(up);
        self.down.store(down);
    }

    pub(super) fn sample(&self) -> Sample {
        Sample {
            at: clock(ClockId::Monotonic) - self.started,
            up: self.up.load(),
            down: self.down.load(),
        }
    }
}

/// A [`DirectionState`] that can be read while it is written, without a lock. An ordinary reader
/// could hold a lock while the real-time thread waits. Each number is right by itself; two may be
/// of different moments.
#[derive(Debug, Default)]
struct Gauge([[AtomicU64; 2]; 6]);

impl Gauge {
    fn store(&self, state: &DirectionState) {
        let Counters {
            delivered,
            lost,
            dropped,
            policed,
            marked,
        } = state.counters;
        let tallies = [delivered, lost, dropped, policed, marked, state.queued];
        for ([packets, bytes], tally) in self.0.iter().zip(tallies) {
            packets.store(tally.packets, Ordering::Relaxed);
            bytes.store(tally.bytes, Ordering::Relaxed);
        }
    }

    fn load(&self) -> DirectionState {
        let tally = |[packets, bytes]: &[AtomicU64; 2]| Tally {
            packets: packets.load(Ordering::Relaxed),
            bytes: bytes.load(Ordering::Relaxed),
        };
        let [delivered, lost, dropped, policed, marked, queued] = self.0.each_ref().map(tally);
        DirectionState {
            counters: Counters {
                delivered,
                lost,
                dropped,
                policed,
                marked,
            },
            queued,
        }
    }
}
