//! The agents: `hikyaku-egress border` and `hikyaku-egress server`.

use std::fmt::Write as _;
use std::fs;
use std::net::Ipv6Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::super::epe::Agent as Api;
use super::super::error::{Attempt, RunError};
use super::super::process::Process;
use super::super::programs;
use super::net::{Border, OWN_AS, REFLECTOR, SERVER, Shape};
use hikyaku_emulator::link::Netns;

/// A running agent.
#[derive(Debug)]
pub(super) struct Agent {
    process: Process,
    api: Api,
}

/// An agent's report of a path.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PathReport {
    pub(super) name: String,
    pub(super) state: String,
    pub(super) routes: Routes,
}

/// Number of prefixes that a path reaches.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Routes {
    pub(super) ipv6: u64,
}

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// Largest resident memory so far.
    pub(super) peak: u64,
    /// Present resident memory.
    pub(super) now: u64,
}

impl Agent {
    /// Starts a border's agent. With `best_paths` it is the AS's ordinary border router, too.
    pub(super) fn border(
        shape: Shape,
        border: Border,
        best_paths: bool,
        netns: &Netns,
        directory: &Path,
    ) -> Result<Self, RunError> {
        let mut text = common("border", &border.router_id(), border.address(), directory);
        let _ = write!(
            text,
            "[router]\nbest_paths = {best_paths}\n[import]\nmartians = true\n\
             [srv6]\nlocator = \"{}\"\ninterfaces = [\"csp\"]\n",
            border.locator()
        );
        for peer in shape.peers_of(border) {
            let _ = write!(
                text,
                "[[peer]]\nname = \"{}\"\nnumber = {}\naddress = \"{}\"\nasn = {}\n",
                peer.node(),
                peer.local,
                peer.address(),
                peer.asn()
            );
        }
        Self::start("border", &text, netns, directory)
    }

    /// Starts the content server's agent.
    pub(super) fn server(shape: Shape, netns: &Netns, directory: &Path) -> Result<Self, RunError> {
        let mut text = common("server", "192.0.2.100", SERVER, directory);
        let locators: Vec<String> = shape
            .borders()
            .map(|border| format!("\"{}\"", border.locator()))
            .collect();
        let _ = write!(
            text,
            "[srv6]\ninterface = \"csp\"\ntunnel_source = \"{SERVER}\"\nlocators = [{}]\n",
            locators.join(", ")
        );
        for peer in shape.peers() {
            let _ = write!(
                text,
                "[[path]]\nname = \"{}\"\nnumber = {}\nborder = \"{}\"\npeer = {}\naddresses = [\"{}\"]\n",
                peer.path(),
                peer.number,
                peer.border.router_id(),
                peer.local,
                peer.epe()
            );
        }
        Self::start("server", &text, netns, directory)
    }

    fn start(role: &str, config: &str, netns: &Netns, directory: &Path) -> Result<Self, RunError> {
        let file = directory.join("egress.toml");
        fs::create_dir_all(directory)
            .and_then(|()| fs::write(&file, config))
            .attempt(|| format!("writing {}", file.display()))?;
        let mut command = Command::new(programs::of_egress(programs::EGRESS)?);
        command.arg(role).arg("--config").arg(&file);
        command.stdout(Stdio::null());
        Ok(Self {
            process: Process::start(netns, &mut command, &directory.join("egress.log"))?,
            api: Api::new(directory.join("api.sock")),
        })
    }

    /// Fails if the agent has ended.
    pub(super) fn check(&mut self) -> Result<(), RunError> {
        match self
            .process
            .ended()
            .attempt(|| "waiting for `hikyaku-egress`".to_owned())?
        {
            Some(status) => Err(RunError::TestBed {
                what: format!("an agent ended with {status}"),
                said: self.process.said(),
            }),
            None => Ok(()),
        }
    }

    /// Returns its paths; none as long as it does not answer.
    pub(super) fn paths(&mut self) -> Result<Vec<PathReport>, RunError> {
        #[derive(Default, Deserialize)]
        struct Answer {
            paths: Vec<PathReport>,
        }
        Ok(self.ask::<Answer>("/v1/paths")?.paths)
    }

    /// Whether the reflector has sent all its routes, and so reads new ones.
    pub(super) fn is_reflected(&mut self) -> Result<bool, RunError> {
        #[derive(Default, Deserialize)]
        struct Answer {
            sessions: Vec<Session>,
        }
        #[derive(Deserialize)]
        struct Session {
            kind: String,
            end_of_rib: bool,
        }
        let answer: Answer = self.ask("/v1/sessions")?;
        let mut sessions = answer.sessions.iter();
        Ok(sessions.any(|session| session.kind == "reflector" && session.end_of_rib))
    }

    /// Returns the answer to a request; the default value as long as the agent does not answer.
    fn ask<T: Default + DeserializeOwned>(&mut self, path: &str) -> Result<T, RunError> {
        self.check()?;
        match self.api.get(path) {
            Err(RunError::Io { .. }) => Ok(T::default()),
            answer => answer,
        }
    }

    /// Returns its present and its largest memory.
    pub(super) fn memory(&mut self) -> Memory {
        let status = format!("/proc/{}/status", self.process.child().id());
        memory(&fs::read_to_string(status).unwrap_or_default())
    }

    /// CPU time that it has used.
    pub(super) fn used(&self) -> Duration {
        self.process.used()
    }
}

/// Returns the common beginning of both roles' files.
fn common(role: &str, router_id: &str, local: Ipv6Addr, directory: &Path) -> String {
    let directory = directory.display();
    format!(
        "role = \"{role}\"\nasn = {OWN_AS}\nrouter_id = \"{router_id}\"\n\
         api.socket = \"{directory}/api.sock\"\nstate.dir = \"{directory}/state\"\n\
         [bgp]\nconnect_retry = \"1s\"\n\
         [[reflector]]\nname = \"reflector\"\naddress = \"{REFLECTOR}\"\nlocal_address = \"{local}\"\n"
    )
}

/// Reads the memory from `/proc/PID/status`.
fn memory(status: &str) -> Memory {
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    };
    Memory {
        peak: of("VmHWM:").unwrap_or_default(),
        now: of("VmRSS:").unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_kernel() {
        let status = "Name:\thikyaku\nVmHWM:\t  300 kB\nVmRSS:\t  200 kB\n";
        let want = Memory {
            peak: 300 * 1024,
            now: 200 * 1024,
        };
        assert_eq!(memory(status), want);
        assert_eq!(memory(""), Memory::default());
    }
}
