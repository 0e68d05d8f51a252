//! Network namespaces.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::error::LinkError;
use super::owner::{self, Claim};
use super::processes;

/// iproute2's directory of namespaces by name.
pub(super) const DIRECTORY: &str = "/run/netns";

/// A named network namespace. On drop it is removed, and processes inside are ended, by SIGTERM and
/// then by SIGKILL.
#[derive(Debug)]
pub struct Netns {
    name: String,
    handle: File,
    // Dropped last: as long as the claim lives, the namespace has an owner.
    _claim: Arc<Claim>,
}

impl Netns {
    /// Creates a namespace, `hkyk-PID-N-ROLE` with the number of this process and a number of its
    /// own, and brings its loopback interface up. `ip netns exec NAME` enters it by hand.
    ///
    /// From the initial namespace, CUBIC and BBR are put on the list of allowed congestion controls
    /// if the kernel has them. That list is the same for all namespaces, and only the initial one
    /// can change it. The last process with namespaces removes the additions.
    ///
    /// # Errors
    /// Without privileges or without iproute2.
    pub fn create(role: &str) -> Result<Self, LinkError> {
        Self::create_with(&Claim::take()?, role)
    }

    /// Creates one of the several namespaces of a network, under a claim that they share.
    pub(crate) fn create_with(claim: &Arc<Claim>, role: &str) -> Result<Self, LinkError> {
        let name = claim.name(role);
        let handle = {
            let _present = owner::hold();
            run_ip(&["netns", "add", &name], "")?;
            File::open(Path::new(DIRECTORY).join(&name))
        };
        let handle = handle.map_err(|source| {
            // The first error is the one to report.
            let _ = remove(&name);
            LinkError::Enter {
                name: name.clone(),
                source,
            }
        })?;
        let netns = Self {
            name,
            handle,
            _claim: Arc::clone(claim),
        };
        netns.ip("link set dev lo up")?;
        Ok(netns)
    }

    /// Name of the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `work` on a thread inside the namespace and waits for it. Sockets and processes of
    /// `work` stay in the namespace.
    ///
    /// # Errors
    /// If the thread cannot be started or moved into the namespace.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LinkError> {
        let entered = thread::scope(|scope| {
            let moved = thread::Builder::new()
                .name(self.name.clone())
                .spawn_scoped(scope, || {
                    let network = Some(LinkNameSpaceType::Network);
                    move_into_link_name_space(self.handle.as_fd(), network)?;
                    Ok(work())
                })?;
            moved
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        entered.map_err(|source| LinkError::Enter {
            name: self.name.clone(),
            source,
        })
    }

    /// Starts a process inside the namespace.
    ///
    /// # Errors
    /// The outer error is that of [`Self::enter`]; the inner one is that of [`Command::spawn`].
    pub fn spawn(&self, command: &mut Command) -> Result<io::Result<Child>, LinkError> {
        self.enter(|| {
            let _present = owner::hold();
            command.spawn()
        })
    }

    /// Runs a process inside the namespace to its end, without input, and collects its output.
    ///
    /// # Errors
    /// The outer error is that of [`Self::enter`]; the inner one is that of [`Command::output`].
    pub fn output(&self, command: &mut Command) -> Result<io::Result<Output>, LinkError> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Ok(self.spawn(command)?.and_then(Child::wait_with_output))
    }

    /// Returns a command that runs `program` by `ip netns exec`. Unlike one of [`Self::spawn`] it
    /// also sees the namespace's interfaces in `/sys`.
    pub fn command(&self, program: &OsStr) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Sets a kernel parameter of the namespace, such as
    /// `net/ipv4/tcp_no_metrics_save` (the path below `/proc/sys`).
    ///
    /// # Errors
    /// If the kernel does not know the key or refuses the value.
    pub fn set_sysctl(&self, key: &str, value: &str) -> Result<(), LinkError> {
        self.enter(|| fs::write(Path::new("/proc/sys").join(key), value))?
            .map_err(|source| LinkError::Sysctl {
                key: key.to_owned(),
                value: value.to_owned(),
                source,
            })
    }

    /// Runs `ip` commands inside the namespace, one a line, without the `ip`.
    ///
    /// # Errors
    /// If iproute2 is missing or refuses a command; the commands before it took effect.
    pub fn ip(&self, commands: &str) -> Result<(), LinkError> {
        run_ip(&["-netns", &self.name, "-batch", "-"], commands)
    }

    /// Runs one `ip` command inside the namespace, given without the `ip`. Unlike those of
    /// [`Self::ip`] it may begin with options such as `-6`, and an error contains the command.
    ///
    /// # Errors
    /// If iproute2 is missing or refuses it.
    pub fn ip_command(&self, command: &str) -> Result<(), LinkError> {
        let mut arguments = vec!["-netns", self.name.as_str()];
        arguments.extend(command.split_whitespace());
        run_ip(&arguments, "")
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        // Best effort, since a drop returns no error.
        let _ = processes::end_inside(std::slice::from_ref(&self.name));
        let _ = remove(&self.name);
    }
}

/// Names of the namespaces that begin with `prefix`, in order.
pub(super) fn existing(prefix: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(DIRECTORY) else {
        // iproute2 makes the directory with the first namespace.
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort_unstable();
    names
}

/// Removes a namespace of any process, if it exists.
pub(super) fn remove(name: &str) -> Result<(), LinkError> {
    let removed = run_ip(&["netns", "delete", name], "");
    match Path::new(DIRECTORY).join(name).exists() {
        true => removed,
        false => Ok(()),
    }
}

fn run_ip(arguments: &[&str], input: &str) -> Result<(), LinkError> {
    let run = || -> io::Result<Output> {
        let mut ip = Command::new("ip")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = ip.stdin.take() {
            // It may have ended already; then its status has the reason.
            let _ = stdin.write_all(input.as_bytes());
        }
        ip.wait_with_output()
    };
    let arguments = arguments.join(" ");
    let output = run().map_err(|source| LinkError::StartIp {
        arguments: arguments.clone(),
        source,
    })?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr)
        .trim()
        .replace('\n', "; ");
    Err(LinkError::Ip {
        arguments,
        status: output.status,
        stderr,
    })
}
