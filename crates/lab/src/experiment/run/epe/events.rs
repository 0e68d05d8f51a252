//! Events of the path by transit A in mid-transfer, besides changes of its link.

use std::cell::RefCell;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::super::error::{Attempt, RunError};
use super::super::measured::Measured;
use super::api::Agent;
use super::border::DeadBorder;
use super::config::GOBGP_API;
use super::{Side, TestBed};
use crate::experiment::spec::Event;

/// An event of a session, which is undone at the session's end, and the bytes that transit A
/// carried.
#[derive(Debug)]
pub(super) struct RunningEvent {
    event: Event,
    /// Dropped at the end of the session.
    over: Sender<()>,
    /// Times of the event's begin and of its completion.
    thread: JoinHandle<Result<Option<[Instant; 2]>, RunError>>,
    /// Bytes that the links had delivered to the client, by time.
    carried: RefCell<Vec<(Instant, [u64; 2])>>,
}

/// Time between two flaps.
const FLAP: Duration = Duration::from_millis(200);

/// Largest time from a border to the client, with queues. So long after a peer's loss, all packets
/// sent to it before have arrived.
const GRACE: Duration = Duration::from_millis(500);

/// Bytes that exceed a probe.
const SOME_CONTENT: u64 = 10_000;

/// Path of the policy that an experiment sets.
const POLICY: &str = "/v1/policies/experiment";

impl RunningEvent {
    /// Begins the event `at` after now.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(super) fn begin(event: Event, at: Duration, bed: &TestBed) -> Result<Self, RunError> {
        let mut action = Action::new(event, bed);
        let (over, ended) = channel();
        let work = move || {
            if ended.recv_timeout(at) != Err(RecvTimeoutError::Timeout) {
                return Ok(None);
            }
            let begun = Instant::now();
            action.set(true)?;
            let noticed = action.await_notice(&ended);
            let done = Instant::now();
            let gone_on = action.go_on(&ended);
            // The test bed belongs to another job next.
            action.set(false)?;
            gone_on?;
            noticed?;
            Ok(Some([begun, done]))
        };
        let thread = thread::Builder::new()
            .name("event".to_owned())
            .spawn(work)
            .attempt(|| "starting a thread".to_owned())?;
        Ok(Self {
            event,
            over,
            thread,
            carried: RefCell::default(),
        })
    }

    /// Notes the bytes that the links have delivered so far.
    pub(super) fn saw(&self, bytes: [u64; 2]) {
        self.carried.borrow_mut().push((Instant::now(), bytes));
    }

    /// Undoes the event and records its effect. After a peer's loss it counts the bytes that still
    /// came by that peer. After a policy it measures the time until content came by the other path.
    /// After a border's death it measures the time until the content server's agent noticed.
    ///
    /// # Errors
    /// If the event could not be done or undone.
    pub(super) fn end(self, measured: &mut Measured) -> Result<(), RunError> {
        drop(self.over);
        let ended = self
            .thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let Some([begun, done]) = ended? else {
            return Ok(());
        };
        let carried = self.carried.into_inner();
        match self.event {
            Event::PeerDown => {
                if let Some(bytes) = after(&carried, done + GRACE) {
                    measured.metric("wrong_peer_bytes", bytes as f64);
                }
            }
            Event::Policy => {
                let took = followed(&carried, begun).unwrap_or_else(|| begun.elapsed());
                measured.metric("moved_ms", took.as_secs_f64() * 1e3);
            }
            Event::DeadBorder | Event::UnpluggedBorder => {
                measured.metric("detected_ms", (done - begun).as_secs_f64() * 1e3);
            }
            Event::Blackhole | Event::Drain | Event::Flap | Event::Pause | Event::PauseAll => {}
        }
        Ok(())
    }
}

/// Returns the bytes that link a carried after a time; `None` without two samples after it.
fn after(carried: &[(Instant, [u64; 2])], from: Instant) -> Option<u64> {
    let mut later = carried.iter().filter(|(at, _)| *at >= from);
    let (_, [first, _]) = later.next()?;
    let (_, [last, _]) = later.next_back()?;
    Some(last - first)
}

/// Returns the time after `from` at which content first came by link b; `None` if never.
fn followed(carried: &[(Instant, [u64; 2])], from: Instant) -> Option<Duration> {
    let earlier = carried.iter().take_while(|(at, _)| *at <= from);
    let before = earlier.last().map_or(0, |(_, [_, b])| *b);
    let came = |(at, [_, b]): &&(Instant, [u64; 2])| *at > from && *b >= before + SOME_CONTENT;
    let (at, _) = carried.iter().find(came)?;
    Some(*at - from)
}

/// The action that does or undoes an event.
enum Action {
    /// None: the links' changes do everything.
    Nothing,
    /// Commands that take the peer's session down, and bring it up again.
    Peer {
        down: Box<Command>,
        up: Box<Command>,
    },
    /// The border drains the path, once or repeatedly.
    Drain { border: Agent, flaps: bool },
    /// A policy at the content server's agent moves all clients to the path by transit B.
    Policy { server: Agent },
    /// A border loses the packets of the content AS.
    Border(DeadBorder),
}

impl Action {
    fn new(event: Event, bed: &TestBed) -> Self {
        let drain = |flaps| Self::Drain {
            border: bed.agent(Side::A.border()),
            flaps,
        };
        match event {
            Event::Blackhole | Event::Pause | Event::PauseAll => Self::Nothing,
            Event::PeerDown => Self::Peer {
                down: Box::new(neighbor(bed, "disable")),
                up: Box::new(neighbor(bed, "enable")),
            },
            Event::Drain => drain(false),
            Event::Flap => drain(true),
            Event::Policy => Self::Policy {
                server: bed.agent("server"),
            },
            Event::DeadBorder => Self::Border(DeadBorder::forwarding(bed)),
            Event::UnpluggedBorder => Self::Border(DeadBorder::unplugged(bed)),
        }
    }

    /// Waits until the content server's agent has noticed a dead border.
    fn await_notice(&self, ended: &Receiver<()>) -> Result<(), RunError> {
        match self {
            Self::Border(border) => border.await_notice(ended),
            _ => Ok(()),
        }
    }

    fn set(&mut self, on: bool) -> Result<(), RunError> {
        match self {
            Self::Nothing => Ok(()),
            Self::Peer { down, up } => {
                let command = if on { down } else { up };
                let output = command.output().attempt(|| "starting `gobgp`".to_owned())?;
                if output.status.success() {
                    return Ok(());
                }
                Err(RunError::TestBed {
                    what: "`gobgp` cannot change transit A's session".to_owned(),
                    said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
                })
            }
            Self::Drain { border, .. } => {
                let path = format!("/v1/paths/{}/drain", Side::A.path());
                let done = match on {
                    true => border.request("PUT", &path, "{\"reason\": \"an experiment\"}"),
                    false => border.request("DELETE", &path, ""),
                };
                done.map(drop)
            }
            Self::Policy { server } => {
                let path = Side::B.path();
                let steered = format!("{{\"mode\": \"steered\", \"paths\": [\"{path}\"]}}");
                let done = match on {
                    true => server.request("PUT", POLICY, &steered),
                    false => server.request("DELETE", POLICY, ""),
                };
                done.map(drop)
            }
            Self::Border(border) => border.set(on),
        }
    }

    /// Repeats the event until the session is over.
    fn go_on(&mut self, ended: &Receiver<()>) -> Result<(), RunError> {
        if !matches!(self, Self::Drain { flaps: true, .. }) {
            // Nobody sends; it waits until the sender is dropped.
            let _ = ended.recv();
            return Ok(());
        }
        let mut on = true;
        while ended.recv_timeout(FLAP) == Err(RecvTimeoutError::Timeout) {
            on = !on;
            self.set(on)?;
        }
        Ok(())
    }
}

/// A `gobgp` command in transit A, for its session with the border.
fn neighbor(bed: &TestBed, what: &str) -> Command {
    let transit = bed.node(Side::A.path());
    let mut command = transit.command("gobgp".as_ref());
    let (host, port) = GOBGP_API.rsplit_once(':').unwrap_or((GOBGP_API, "50051"));
    command.args(["-u", host, "-p", port, "neighbor", "2001:db8:a1::2", what]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_within_the_grace_are_not_wrong() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let carried = [(0, 100), (10, 200), (20, 230), (30, 230)].map(|(ms, a)| (at(ms), [a, 7]));
        assert_eq!(after(&carried, at(5)), Some(30));
        assert_eq!(after(&carried, at(15)), Some(0));
        assert_eq!(after(&carried, at(25)), None);
    }

    #[test]
    fn packets_have_followed_when_content_comes_by_the_other_link() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let carried = [(0, 500), (10, 500), (20, 600), (30, 90_000), (40, 95_000)];
        let carried = carried.map(|(ms, b)| (at(ms), [0, b]));
        let ms = |took: Option<Duration>| took.map(|took| took.as_millis());
        assert_eq!(ms(followed(&carried, at(5))), Some(25));
        assert_eq!(ms(followed(&carried, at(35))), None);
        assert_eq!(ms(followed(&[], at(0))), None);
    }
}
