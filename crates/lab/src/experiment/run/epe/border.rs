//! Borders that lose packets while BGP knows nothing of it.

use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use serde::Deserialize;

use super::super::error::{Attempt, RunError};
use super::api::{Agent, EgressState};
use super::{Side, TestBed};

/// The commands that make a border lose packets, and those that undo it.
pub(super) struct DeadBorder {
    side: Side,
    die: Vec<Command>,
    live: Vec<Command>,
    server: Agent,
}

/// The part of a path that shows whether its border's death was noticed.
#[derive(Deserialize)]
struct Path {
    state: EgressState,
}

/// Time between two looks at the agent.
const LOOK: Duration = Duration::from_millis(2);

impl DeadBorder {
    /// Returns border 1 that forwards nothing of the content AS. Its own addresses answer still, so
    /// that its BGP sessions stay up.
    pub(super) fn forwarding(bed: &TestBed) -> Self {
        let rule = "pref 1 iif csp blackhole";
        let ip = |what: &str| ip(bed, Side::A, &format!("-6 rule {what} {rule}"));
        Self::new(bed, Side::A, vec![ip("add")], vec![ip("del")])
    }

    /// Returns border 2 without its cable to the content AS.
    pub(super) fn unplugged(bed: &TestBed) -> Self {
        let side = Side::B;
        let mut keep = bed.node(side.border()).command("sysctl".as_ref());
        keep.args(["-qw", "net.ipv6.conf.csp.keep_addr_on_down=1"]);
        let link = |state: &str| ip(bed, side, &format!("link set csp {state}"));
        Self::new(bed, side, vec![keep, link("down")], vec![link("up")])
    }

    fn new(bed: &TestBed, side: Side, die: Vec<Command>, live: Vec<Command>) -> Self {
        let server = bed.agent("server");
        Self {
            side,
            die,
            live,
            server,
        }
    }

    /// Kills the border, or undoes that.
    ///
    /// # Errors
    /// If a command fails.
    pub(super) fn set(&mut self, dead: bool) -> Result<(), RunError> {
        let commands = if dead { &mut self.die } else { &mut self.live };
        for command in commands {
            let output = command.output().attempt(|| "starting `ip`".to_owned())?;
            if !output.status.success() {
                return Err(RunError::TestBed {
                    what: format!("a command on {} failed", self.side.border()),
                    said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Waits until the content server's agent has taken the path out of use, or until the session
    /// is over.
    ///
    /// # Errors
    /// If the agent does not answer.
    pub(super) fn await_notice(&self, ended: &Receiver<()>) -> Result<(), RunError> {
        let path = format!("/v1/paths/{}", self.side.path());
        while self.server.get::<Path>(&path)?.state != EgressState::Down {
            if ended.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn ip(bed: &TestBed, side: Side, arguments: &str) -> Command {
    let mut command = bed.node(side.border()).command("ip".as_ref());
    command.args(arguments.split(' '));
    command
}
