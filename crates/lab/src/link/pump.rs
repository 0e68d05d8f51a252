//! The pump: one thread that carries packets between two TUN interfaces.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hikyaku_core::units::Timestamp;
use hikyaku_netsim::{Counters, Link, LinkConfig, derive_seed};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::clock_gettime;

use super::error::LinkError;
use super::lateness::Lateness;
use super::super_packet::SuperPacket;
use super::sys;
use super::tun::Tun;

/// Both directions of an emulated link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkPair {
    /// From client to server.
    pub up: LinkConfig,
    /// From server to client.
    pub down: LinkConfig,
}

/// What a pump did from start to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What became of the packets from client to server.
    pub up: Counters,
    /// What became of the packets from server to client.
    pub down: Counters,
    /// How late packets were handed over, in both directions.
    pub lateness: Lateness,
    /// Frames from a namespace that were no valid super-packet, and frames that
    /// a namespace refused. Anything but 0 spoils a measurement.
    pub faults: u64,
    /// Whether the thread had real-time priority.
    pub realtime: bool,
    /// CPU time of the thread.
    pub cpu: Duration,
    /// Time from start to stop.
    pub elapsed: Duration,
}

/// A running pump; stops on drop.
#[derive(Debug)]
pub(super) struct Pump {
    stop: Arc<OwnedFd>,
    /// Bytes delivered so far, up and down.
    delivered: Arc<[AtomicU64; 2]>,
    thread: Option<JoinHandle<io::Result<Report>>>,
}

/// The two interfaces that a pump joins.
#[derive(Debug)]
pub(super) struct Tuns {
    pub(super) client: Tun,
    pub(super) server: Tun,
}

impl Pump {
    /// Starts to carry packets; those that wait in the interfaces are thrown away.
    pub(super) fn start(tuns: Arc<Tuns>, links: LinkPair, seed: u64) -> Result<Self, LinkError> {
        let start = || -> io::Result<Self> {
            // Before this returns, or it would take the caller's first packets.
            let mut buffer = frame_buffer();
            for tun in [&tuns.client, &tuns.server] {
                while tun.read(&mut buffer)?.is_some() {}
            }
            let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
            let delivered = Arc::default();
            let (stopped, progress) = (Arc::clone(&stop), Arc::clone(&delivered));
            let thread = thread::Builder::new()
                .name("link".to_owned())
                .spawn(move || Worker::new(&tuns, &links, seed)?.run(&stopped, &progress))?;
            Ok(Self {
                stop,
                delivered,
                thread: Some(thread),
            })
        };
        start().map_err(LinkError::StartPump)
    }

    /// Bytes of packets delivered so far, up and down.
    pub(super) fn delivered(&self) -> [u64; 2] {
        [&self.delivered[0], &self.delivered[1]].map(|bytes| bytes.load(Ordering::Relaxed))
    }

    /// Stops and says what happened.
    pub(super) fn stop(mut self) -> Result<Report, LinkError> {
        self.join().map_err(LinkError::Pump)
    }

    fn join(&mut self) -> io::Result<Report> {
        rustix::io::write(&self.stop, &1_u64.to_ne_bytes())?;
        let Some(thread) = self.thread.take() else {
            return Err(io::Error::other("stopped before"));
        };
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        if self.thread.is_some() && !thread::panicking() {
            // Nobody asked for the report, so nobody is told of a failure.
            let _ = self.join();
        }
    }
}

/// One segment on its way: which, and of what.
#[derive(Debug)]
struct Segment {
    packet: Rc<SuperPacket>,
    index: usize,
}

/// One direction: from one interface through a link to the other.
struct Direction<'a> {
    from: &'a Tun,
    to: &'a Tun,
    link: Link<Segment>,
}

struct Worker<'a> {
    directions: [Direction<'a>; 2],
    buffer: Box<[u8]>,
    headers: Vec<u8>,
    lateness: Lateness,
    faults: u64,
    realtime: bool,
}

/// When packets wake the pump more often than this, it sleeps to the end of the
/// quantum and carries what has come together: a wake-up costs some 25 µs of CPU.
const QUANTUM: Duration = Duration::from_micros(250);

/// Frames read in one direction before the other gets its turn.
const FRAMES_PER_TURN: usize = 256;

impl<'a> Worker<'a> {
    fn new(tuns: &'a Tuns, links: &LinkPair, seed: u64) -> io::Result<Self> {
        let realtime = sys::become_realtime().is_ok();
        // The default slack lets timers of ordinary threads fire 50 µs late.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        Ok(Self {
            directions: [
                Direction::new(
                    &tuns.client,
                    &tuns.server,
                    &links.up,
                    derive_seed(seed, &[0]),
                ),
                Direction::new(
                    &tuns.server,
                    &tuns.client,
                    &links.down,
                    derive_seed(seed, &[1]),
                ),
            ],
            buffer: frame_buffer(),
            headers: Vec::with_capacity(256),
            lateness: Lateness::default(),
            faults: 0,
            realtime,
        })
    }

    fn run(mut self, stop: &OwnedFd, delivered: &[AtomicU64; 2]) -> io::Result<Report> {
        let (started, cpu_before) = (clock(ClockId::Monotonic), clock(ClockId::ThreadCPUTime));
        let mut woken = started;
        while !self.wait(stop)? {
            let now = clock(ClockId::Monotonic);
            for (i, delivered) in delivered.iter().enumerate() {
                self.take_in(i)?;
                self.hand_over(i);
                let bytes = self.directions[i].link.counters().delivered.bytes;
                delivered.store(bytes, Ordering::Relaxed);
            }
            if now < woken + QUANTUM {
                clock_nanosleep_absolute(ClockId::Monotonic, &timespec(now + QUANTUM))?;
            }
            woken = now;
        }
        let [up, down] = self.directions.map(|direction| direction.link.counters());
        Ok(Report {
            up,
            down,
            lateness: self.lateness,
            faults: self.faults,
            realtime: self.realtime,
            cpu: clock(ClockId::ThreadCPUTime) - cpu_before,
            elapsed: clock(ClockId::Monotonic) - started,
        })
    }

    /// Waits for a frame or until one is due. Returns whether to stop.
    fn wait(&self, stop: &OwnedFd) -> io::Result<bool> {
        let next_due = self
            .directions
            .iter()
            .filter_map(|direction| direction.link.next_due())
            .min();
        let timeout = next_due.map(|due| {
            let due = Duration::from_micros(due.as_micros());
            timespec(due.saturating_sub(clock(ClockId::Monotonic)))
        });
        let [up, down] = &self.directions;
        let mut fds = [stop.as_fd(), up.from.as_fd(), down.from.as_fd()]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => Ok(!fds[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(err) => Err(err.into()),
        }
    }

    /// Moves frames from an interface into its link.
    fn take_in(&mut self, direction: usize) -> io::Result<()> {
        let Direction { from, link, .. } = &mut self.directions[direction];
        for _ in 0..FRAMES_PER_TURN {
            let Some(frame) = from.read(&mut self.buffer)? else {
                break;
            };
            let Ok(packet) = SuperPacket::parse(frame) else {
                self.faults += 1;
                continue;
            };
            let packet = Rc::new(packet);
            // After the read: a time before it would deliver the packet early.
            let now = timestamp(clock(ClockId::Monotonic));
            for index in 0..packet.segments() {
                // An IP packet has at most 64 KiB.
                let len = packet.segment_len(index) as u32;
                // What the queue drops is in the link's counters.
                let _ = link.enqueue(
                    now,
                    len,
                    Segment {
                        packet: Rc::clone(&packet),
                        index,
                    },
                );
            }
        }
        Ok(())
    }

    /// Writes what is due, neighbours of a super-packet as one frame.
    fn hand_over(&mut self, direction: usize) {
        let now = timestamp(clock(ClockId::Monotonic));
        let Direction { to, link, .. } = &mut self.directions[direction];
        let mut next = link.poll(now);
        while let Some(first) = next {
            let Segment { packet, index } = first.payload;
            self.lateness
                .record(now.as_micros().saturating_sub(first.due.as_micros()));
            let mut end = index + 1;
            next = link.poll(now);
            while let Some(delivery) = next.take_if(|delivery| {
                Rc::ptr_eq(&delivery.payload.packet, &packet) && delivery.payload.index == end
            }) {
                self.lateness
                    .record(now.as_micros().saturating_sub(delivery.due.as_micros()));
                end += 1;
                next = link.poll(now);
            }
            let payload = packet.run(index..end, &mut self.headers);
            if to.write(&self.headers, payload).is_err() {
                self.faults += 1;
            }
        }
    }
}

impl<'a> Direction<'a> {
    fn new(from: &'a Tun, to: &'a Tun, config: &LinkConfig, seed: u64) -> Self {
        Self {
            from,
            to,
            link: Link::new(config, seed),
        }
    }
}

fn frame_buffer() -> Box<[u8]> {
    vec![0; Tun::MAX_FRAME].into()
}

fn clock(id: ClockId) -> Duration {
    // Neither clock runs before its zero.
    Duration::try_from(clock_gettime(id)).unwrap_or_default()
}

fn timestamp(since_boot: Duration) -> Timestamp {
    Timestamp::from_micros(u64::try_from(since_boot.as_micros()).unwrap_or(u64::MAX))
}

fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).unwrap_or(Timespec {
        tv_sec: i64::MAX,
        tv_nsec: 0,
    })
}
