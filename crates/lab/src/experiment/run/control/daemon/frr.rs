//! FRR's `bgpd` and `zebra`.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::super::super::error::{Attempt, RunError};
use super::super::super::process::Process;
use super::super::super::programs::{BGPD, ZEBRA};
use super::super::clock;
use super::{Family, Neighbour, Router, place, write};
use hikyaku_emulator::link::Netns;

/// Starts `bgpd`. Without `zebra` it tracks no next hop, and puts no routes into the kernel.
pub(super) fn start(
    router: &Router,
    zebra: Option<&Zebra>,
    netns: &Netns,
    directory: &Path,
) -> Result<Process, RunError> {
    start_with_config(&config(router), zebra, netns, directory)
}

/// Starts `bgpd` with the text of a configuration.
pub(in super::super::super) fn start_with_config(
    config: &str,
    zebra: Option<&Zebra>,
    netns: &Netns,
    directory: &Path,
) -> Result<Process, RunError> {
    let directory = place(directory)?;
    let file = directory.join("bgpd.conf");
    write(&file, config)?;
    let mut command = Command::new(BGPD);
    // As root (-S), since it has nothing but this namespace.
    command
        .args(["-S", "-P", "0", "--log", "stdout", "-f"])
        .arg(&file);
    command.arg("-i").arg(directory.join("bgpd.pid"));
    command.arg("--vty_socket").arg(&directory);
    match zebra {
        Some(zebra) => command.arg("-z").arg(zebra.socket()),
        None => command.arg("-Z"),
    };
    command.stdout(Stdio::null());
    Process::start(netns, &mut command, &directory.join("bgpd.log"))
}

/// The configuration. Timers that only delay others are off.
fn config(router: &Router) -> String {
    let Router { asn, router_id, .. } = router;
    let mut text = format!(
        "router bgp {asn}\n bgp router-id {router_id}\n no bgp default ipv4-unicast\n \
         no bgp ebgp-requires-policy\n no bgp network import-check\n"
    );
    for neighbour in &router.neighbours {
        let address = neighbour.address;
        let _ = write!(
            text,
            " neighbor {address} remote-as {}\n neighbor {address} update-source {}\n \
             neighbor {address} advertisement-interval 0\n neighbor {address} timers connect 1\n",
            neighbour.asn, neighbour.local
        );
        if neighbour.passive {
            let _ = writeln!(text, " neighbor {address} passive");
        }
    }
    for family in [Family::Unicast, Family::Vpn] {
        for name in names(family) {
            family_config(router, family, name, &mut text);
        }
    }
    text
}

fn family_config(router: &Router, family: Family, name: &str, text: &mut String) {
    let carries = |neighbour: &&Neighbour| neighbour.families.contains(&family);
    if !router
        .neighbours
        .iter()
        .any(|neighbour| carries(&neighbour))
    {
        return;
    }
    let _ = writeln!(text, " address-family {name}");
    for network in router.networks.iter().filter(|_| family == Family::Unicast) {
        let _ = writeln!(text, "  network {network}");
    }
    for neighbour in router.neighbours.iter().filter(carries) {
        let address = neighbour.address;
        let _ = writeln!(text, "  neighbor {address} activate");
        if router.reflects(neighbour) {
            let _ = writeln!(text, "  neighbor {address} route-reflector-client");
        }
    }
    let _ = writeln!(text, " exit-address-family");
}

fn names(family: Family) -> &'static [&'static str] {
    match family {
        Family::Unicast => &["ipv6 unicast"],
        Family::Vpn => &["ipv6 vpn", "ipv4 vpn"],
    }
}

/// `zebra`, which runs as FRR's own user, and so needs a directory that this user may enter.
#[derive(Debug)]
pub(in super::super::super) struct Zebra {
    directory: TempDir,
    // Ends before its directory is removed.
    _process: Process,
}

impl Zebra {
    pub(in super::super::super) fn start(netns: &Netns) -> Result<Self, RunError> {
        let directory = TempDir::with_prefix("hkyk-zebra-")
            .attempt(|| "creating a directory for `zebra`".to_owned())?;
        let path = directory.path();
        let (user, group) = owner().attempt(|| "looking for the user `frr`".to_owned())?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
            .and_then(|()| chown(path, Some(user), Some(group)))
            .attempt(|| format!("giving {} to the user `frr`", path.display()))?;
        let file = path.join("zebra.conf");
        // So that routes show their gateways.
        write(&file, "no zebra nexthop kernel enable\n")?;
        let mut command = Command::new(ZEBRA);
        command
            .args(["-P", "0", "--log", "stdout", "-f"])
            .arg(&file);
        command.arg("-i").arg(path.join("zebra.pid"));
        command.arg("--vty_socket").arg(path);
        command.arg("-z").arg(path.join("zserv.api"));
        command.stdout(Stdio::null());
        let mut process = Process::start(netns, &mut command, &path.join("zebra.log"))?;
        let socket = path.join("zserv.api");
        let deadline = Instant::now() + START_LIMIT;
        while !socket.exists() {
            let ended = process
                .ended()
                .attempt(|| "waiting for `zebra`".to_owned())?;
            if ended.is_some() || Instant::now() > deadline {
                return Err(RunError::TestBed {
                    what: "`zebra` did not start".to_owned(),
                    said: process.said(),
                });
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(Self {
            directory,
            _process: process,
        })
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("zserv.api")
    }
}

/// Time that a daemon may take to open its socket.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Returns the numbers of FRR's user and of its group.
fn owner() -> io::Result<(u32, u32)> {
    let text = fs::read_to_string("/etc/passwd")?;
    let fields = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = fields.into_iter().find_map(|fields| match *fields {
        ["frr", _, user, group, ..] => Some((user.parse().ok()?, group.parse().ok()?)),
        _ => None,
    });
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The socket that `vtysh` uses, without the time of its start.
#[derive(Debug)]
pub(in super::super) struct Vty(UnixStream);

impl Vty {
    /// Connects to the `bgpd` of a directory, and enters the configuration of its AS.
    pub(in super::super) fn open(directory: &Path, asn: u32) -> Result<Self, RunError> {
        let path = directory.join("bgpd.vty");
        let deadline = Instant::now() + START_LIMIT;
        let stream = loop {
            match UnixStream::connect(&path) {
                Err(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(20)),
                result => break result.attempt(|| format!("connecting to {}", path.display()))?,
            }
        };
        stream
            .set_read_timeout(Some(START_LIMIT))
            .attempt(|| "setting a time limit".to_owned())?;
        let mut vty = Self(stream);
        for command in [
            "enable",
            "configure terminal",
            "ipv6 prefix-list NONE deny any",
            "ipv6 prefix-list ALL permit any",
            &format!("router bgp {asn}"),
            "address-family ipv6 unicast",
        ] {
            vty.command(command)?;
        }
        Ok(vty)
    }

    /// Executes a command, and returns the time at which it was sent.
    pub(in super::super) fn command(&mut self, command: &str) -> Result<Duration, RunError> {
        let doing = || format!("notifying `bgpd`: {command}");
        let began = clock::now();
        self.0
            .write_all(format!("{command}\0").as_bytes())
            .attempt(doing)?;
        // An answer ends with three zeros and the status.
        let mut answer = Vec::new();
        let mut part = [0; 4096];
        while answer.len() < 4 || answer[answer.len() - 4..][..3] != [0; 3] {
            match self.0.read(&mut part).attempt(doing)? {
                0 => break,
                length => answer.extend(&part[..length]),
            }
        }
        match answer.last() {
            Some(0) => Ok(began),
            _ => Err(RunError::Report {
                program: "`bgpd`",
                why: format!(
                    "{command}: {}",
                    String::from_utf8_lossy(&answer).trim_matches(['\0', '\n'])
                ),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::run::control::net::{OWN_AS, REFLECTOR, SERVER};

    #[test]
    fn a_reflector_reflects_both_families() {
        let neighbour = |families| Neighbour {
            address: SERVER,
            local: REFLECTOR,
            asn: OWN_AS,
            families,
            passive: true,
        };
        let router = Router {
            asn: OWN_AS,
            router_id: "192.0.2.53".to_owned(),
            listen: vec![REFLECTOR],
            neighbours: vec![
                neighbour(&[Family::Vpn]),
                neighbour(&[Family::Vpn, Family::Unicast]),
            ],
            networks: Vec::new(),
        };
        let text = config(&router);
        for (line, count) in [
            ("address-family ipv6 vpn", 1),
            ("address-family ipv4 vpn", 1),
            ("address-family ipv6 unicast", 1),
            ("route-reflector-client", 5),
            ("passive", 2),
        ] {
            assert_eq!(text.matches(line).count(), count, "{line}\n{text}");
        }
    }
}
