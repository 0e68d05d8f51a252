//! The pump's thread.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use hikyaku_netsim::{PacketInfo, derive_seed};
use hikyaku_units::Timestamp;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::{ClockId, clock_nanosleep_absolute};

use super::journal::Journal;
use super::lines::Lines;
use super::shared::{Command, Shared};
use super::{ChangePair, LinkPair, LinkSet, Tuns, clock, frame_buffer, timespec, timestamp};
use crate::link::ip;
use crate::link::lateness::Lateness;
use crate::link::packet_log::PacketLog;
use crate::link::report::{Report, Sample};
use crate::link::steal::CpuTime;
use crate::link::super_packet::SuperPacket;
use crate::link::sys;
use crate::link::tun::Tun;

/// One segment on its way, by its number and its super-packet.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) packet: Rc<Arrived>,
    pub(super) index: usize,
}

/// A frame from an interface.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) frame: SuperPacket,
    pub(super) at: Timestamp,
}

/// One direction: from one interface through its links to the other.
struct Direction<'a> {
    name: &'static str,
    from: &'a Tun,
    to: &'a Tun,
    lines: Lines,
}

pub(super) struct Worker<'a> {
    shared: &'a Shared,
    directions: [Direction<'a>; 2],
    buffer: Box<[u8]>,
    headers: Vec<u8>,
    journal: Journal,
    samples: Vec<Sample>,
    /// Changes that wait for the first packet up.
    awaiting: Option<ChangePair>,
    faults: u64,
    realtime: bool,
}

/// Quantum of the pump. If packets wake it more often, it sleeps to the end of the quantum and
/// carries all packets together. A wake-up costs about 25 µs of CPU.
const QUANTUM: Duration = Duration::from_micros(250);

/// Indices of the directions.
const UP: usize = 0;
const DOWN: usize = 1;

/// Frames of one direction per turn.
const FRAMES_PER_TURN: usize = 256;

impl<'a> Worker<'a> {
    pub(super) fn new<'l>(
        tuns: &'a Tuns,
        links: &'l LinkSet,
        seed: u64,
        shared: &'a Shared,
        log: Option<PacketLog>,
    ) -> io::Result<Self> {
        let realtime = sys::become_realtime().is_ok();
        // The default slack lets timers of ordinary threads fire 50 µs late.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        let started = timestamp(shared.started());
        let direction = |name, from, to, coordinate| {
            let of = |pair: &'l LinkPair| [&pair.up, &pair.down][coordinate];
            let own = links.own.iter().map(|(client, pair)| (*client, of(pair)));
            let seed = derive_seed(seed, &[coordinate as u64]);
            Direction {
                name,
                from,
                to,
                lines: Lines::new(started, of(&links.common), own, seed, log.is_some()),
            }
        };
        Ok(Self {
            shared,
            directions: [
                direction("up", &tuns.a, &tuns.b, UP),
                direction("down", &tuns.b, &tuns.a, DOWN),
            ],
            buffer: frame_buffer(),
            headers: Vec::with_capacity(256),
            journal: Journal {
                lateness: Lateness::default(),
                log,
                started,
            },
            samples: Vec::new(),
            awaiting: None,
            faults: 0,
            realtime,
        })
    }

    pub(super) fn run(mut self, commands: &Receiver<Command>) -> io::Result<Report> {
        let started = self.shared.started();
        let cpu_before = clock(ClockId::ThreadCPUTime);
        let machine_before = CpuTime::now()?;
        let mut woken = started;
        let mut next_sample = started + Sample::INTERVAL;
        loop {
            if self.wait(next_sample)? && self.obey(commands) {
                break;
            }
            let now = clock(ClockId::Monotonic);
            for direction in 0..self.directions.len() {
                self.take_in(direction)?;
                self.hand_over(direction);
            }
            let is_sampled = now >= next_sample;
            // A look at hundreds of links in every turn would take too much CPU time.
            if is_sampled || self.directions[UP].lines.is_one() {
                let [up, down] = self.directions.each_ref().map(|way| way.lines.state());
                self.shared.publish(&up, &down);
                if is_sampled {
                    let at = now - started;
                    self.samples.push(Sample { at, up, down });
                    next_sample = next_sample_after(started, now);
                }
            }
            if now < woken + QUANTUM {
                clock_nanosleep_absolute(ClockId::Monotonic, &timespec(now + QUANTUM))?;
            }
            woken = now;
        }
        if let Some(log) = self.journal.log {
            log.finish()?;
        }
        let [up, down] = self.directions.map(|way| way.lines.state().counters);
        Ok(Report {
            up,
            down,
            samples: self.samples,
            lateness: self.journal.lateness,
            faults: self.faults,
            realtime: self.realtime,
            cpu: clock(ClockId::ThreadCPUTime) - cpu_before,
            steal: machine_before.steal_until(CpuTime::now()?),
            elapsed: clock(ClockId::Monotonic) - started,
        })
    }

    /// Waits for a frame, a due packet, or `deadline`. Returns whether commands are pending.
    fn wait(&self, deadline: Duration) -> io::Result<bool> {
        let due = self.directions.iter().filter_map(|direction| {
            let due = direction.lines.next_due()?;
            Some(Duration::from_micros(due.as_micros()))
        });
        let until = due.fold(deadline, Duration::min);
        let timeout = timespec(until.saturating_sub(clock(ClockId::Monotonic)));
        let [up, down] = &self.directions;
        let mut fds = [self.shared.bell(), up.from.as_fd(), down.from.as_fd()]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => Ok(!fds[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(err) => Err(err.into()),
        }
    }

    /// Executes the owner's commands. Returns whether to stop.
    fn obey(&mut self, commands: &Receiver<Command>) -> bool {
        self.shared.silence();
        for command in commands.try_iter() {
            match command {
                Command::Stop => return true,
                Command::Change { start, changes } => self.change(start, &changes),
                Command::ChangeAfterFirstPacket(changes) => self.awaiting = Some(changes),
            }
        }
        false
    }

    fn change(&mut self, start: Timestamp, changes: &ChangePair) {
        let [up, down] = &mut self.directions;
        up.lines.schedule(start, &changes.up);
        down.lines.schedule(start, &changes.down);
    }

    /// Moves frames from an interface into its links.
    fn take_in(&mut self, direction: usize) -> io::Result<()> {
        let from = self.directions[direction].from;
        for _ in 0..FRAMES_PER_TURN {
            let Some(frame) = from.read(&mut self.buffer)? else {
                break;
            };
            let Ok(frame) = SuperPacket::parse(frame) else {
                self.faults += 1;
                continue;
            };
            // After the read: a time before it would deliver the packet early.
            let at = timestamp(clock(ClockId::Monotonic));
            // Packets of the kernel itself, such as MLD reports, have no ports.
            if direction == UP
                && self.awaiting.is_some()
                && ip::flow(frame.packet()).1.is_some()
                && let Some(changes) = self.awaiting.take()
            {
                self.change(at, &changes);
            }
            let Direction { name, lines, .. } = &mut self.directions[direction];
            // The client is the source of packets up and the destination of packets down.
            let client = ip::addresses(frame.packet()).map(|ends| ends[direction]);
            let line = lines.of(client);
            let info = frame.describe();
            let packet = Rc::new(Arrived { frame, at });
            for index in 0..packet.frame.segments() {
                // An IP packet has at most 64 KiB.
                let len = packet.frame.segment_len(index) as u32;
                let packet = Rc::clone(&packet);
                lines.enqueue(
                    line,
                    at,
                    PacketInfo { len, ..info },
                    Segment { packet, index },
                );
            }
            lines.plan(line);
            self.journal.all_discarded(name, lines.link_mut(line));
        }
        Ok(())
    }

    /// Writes due packets, with neighbours of a super-packet as one frame.
    fn hand_over(&mut self, direction: usize) {
        let now = timestamp(clock(ClockId::Monotonic));
        for line in self.directions[direction].lines.take_due(now) {
            self.hand_over_line(direction, line, now);
        }
    }

    fn hand_over_line(&mut self, direction: usize, line: usize, now: Timestamp) {
        let Direction {
            name, to, lines, ..
        } = &mut self.directions[direction];
        let link = lines.link_mut(line);
        let journal = &mut self.journal;
        let mut next = link.poll(now);
        while let Some(first) = next {
            journal.delivered(now, name, &first);
            let Segment { packet, index } = &first.payload;
            let mut end = index + 1;
            next = link.poll(now);
            while let Some(neighbour) = next.take_if(|next| {
                let Segment { packet: of, index } = &next.payload;
                Rc::ptr_eq(of, packet) && *index == end && next.mark_ce == first.mark_ce
            }) {
                journal.delivered(now, name, &neighbour);
                end += 1;
                next = link.poll(now);
            }
            let payload = packet
                .frame
                .run(*index..end, first.mark_ce, &mut self.headers);
            if to.write(&self.headers, payload).is_err() {
                self.faults += 1;
            }
        }
        journal.all_discarded(name, link);
        lines.plan(line);
    }
}

/// Returns the first end of a sampling interval after `now`.
fn next_sample_after(started: Duration, now: Duration) -> Duration {
    let passed = (now - started).div_duration_f64(Sample::INTERVAL) as u32;
    started + Sample::INTERVAL * (passed + 1)
}
