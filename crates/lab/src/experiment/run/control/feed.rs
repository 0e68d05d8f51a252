//! `hikyaku-bgp-feed`: a neighbour that executes commands.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv6Addr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::super::error::{Attempt, RunError};
use super::super::programs;
use hikyaku_emulator::link::Netns;

/// The two ends of a feed's session.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) local: Ipv6Addr,
    pub(super) asn: u32,
    pub(super) router_id: String,
    pub(super) neighbour: Ipv6Addr,
    pub(super) neighbour_asn: u32,
}

/// The speaker of a feed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Speaker {
    /// A speaker that keeps no routes.
    Lean,
    /// `GoBGP`, as a real router.
    GoBgp,
}

/// A running feed; killed on drop.
#[derive(Debug)]
pub(super) struct Feed {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Begin and end of a command, on the clock of [`super::clock`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) began: Duration,
    pub(super) ended: Duration,
}

impl Feed {
    /// Starts it in a namespace. Its messages go to the file `log`.
    pub(super) fn start(
        netns: &Netns,
        session: &Session,
        speaker: Speaker,
        log: &Path,
    ) -> Result<Self, RunError> {
        let mut command = Command::new(programs::of_egress(programs::FEED)?);
        let speaker = match speaker {
            Speaker::Lean => "lean",
            Speaker::GoBgp => "gobgp",
        };
        let arguments = [
            ("--local", session.local.to_string()),
            ("--as", session.asn.to_string()),
            ("--router-id", session.router_id.clone()),
            ("--neighbor", session.neighbour.to_string()),
            ("--neighbor-as", session.neighbour_asn.to_string()),
            ("--speaker", speaker.to_owned()),
        ];
        for (name, value) in arguments {
            command.arg(name).arg(value);
        }
        let log = File::create(log).attempt(|| format!("creating {}", log.display()))?;
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log);
        let starting = || "starting `hikyaku-bgp-feed`".to_owned();
        let mut child = netns.spawn(&mut command)?.attempt(starting)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Self {
                child,
                input,
                output: BufReader::new(output),
            }),
            _ => Err(report("its pipes are missing")),
        }
    }

    /// Executes a command, and waits for its end.
    pub(super) fn execute(&mut self, command: &str) -> Result<Done, RunError> {
        self.begin(command)?;
        self.done()
    }

    /// Begins a command; [`Self::done`] must follow.
    pub(super) fn begin(&mut self, command: &str) -> Result<(), RunError> {
        writeln!(self.input, "{command}")
            .attempt(|| format!("notifying `hikyaku-bgp-feed` to {}", first_word(command)))
    }

    /// Waits for the end of the begun command.
    pub(super) fn done(&mut self) -> Result<Done, RunError> {
        let mut line = String::new();
        self.output
            .read_line(&mut line)
            .attempt(|| "reading from `hikyaku-bgp-feed`".to_owned())?;
        parse(line.trim()).ok_or_else(|| report(line.trim()))
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn first_word(command: &str) -> &str {
    command.split_whitespace().next().unwrap_or_default()
}

fn parse(line: &str) -> Option<Done> {
    let (began, ended) = line.split_once(' ')?;
    Some(Done {
        began: Duration::from_nanos(began.parse().ok()?),
        ended: Duration::from_nanos(ended.parse().ok()?),
    })
}

fn report(why: &str) -> RunError {
    RunError::Report {
        program: "`hikyaku-bgp-feed`",
        why: match why.is_empty() {
            true => "it has ended".to_owned(),
            false => why.to_owned(),
        },
    }
}
