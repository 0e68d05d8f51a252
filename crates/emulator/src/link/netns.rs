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

/// Where iproute2 keeps the names of namespaces.
pub(super) const DIRECTORY: &str = "/run/netns";

/// A named network namespace. On drop it is removed, and processes that still run
/// in it are ended, by SIGTERM and then by SIGKILL.
#[derive(Debug)]
pub struct Netns {
    name: String,
    handle: File,
    // Dropped last: as long as it lives, the namespace is known to have an owner.
    _claim: Arc<Claim>,
}

impl Netns {
    /// Creates a namespace, `hkyk-PID-N-ROLE` with the number of this process and
    /// a number of its own, and brings its loopback interface up. It can be
    /// reached by hand with `ip netns exec NAME`.
    ///
    /// In the calling process's own namespace, CUBIC and BBR are put on the list
    /// of allowed congestion controls where the kernel has them: the list is the
    /// same for all namespaces, and can be changed in the initial one only. The
    /// last process that has namespaces takes back what was added.
    ///
    /// # Errors
    /// Without privileges or without iproute2.
    pub fn create(role: &str) -> Result<Self, LinkError> {
        Self::create_with(&Claim::take()?, role)
    }

    /// As [`Self::create`], for one of the several namespaces of a network.
    pub(crate) fn create_with(claim: &Arc<Claim>, role: &str) -> Result<Self, LinkError> {
        let name = claim.name(role);
        let handle = {
            let _present = owner::stay();
            run_ip(&["netns", "add", &name], "")?;
            File::open(Path::new(DIRECTORY).join(&name))
        };
        let handle = handle.map_err(|source| {
            // The first error is the one to tell.
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

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `work` on a thread inside the namespace and waits for it. Sockets
    /// opened and processes started by `work` stay in the namespace.
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
    /// The outer one as for [`Self::enter`]; the inner one is that of
    /// [`Command::spawn`].
    pub fn spawn(&self, command: &mut Command) -> Result<io::Result<Child>, LinkError> {
        self.enter(|| {
            let _present = owner::stay();
            command.spawn()
        })
    }

    /// Runs a process inside the namespace to its end, without input, and
    /// collects its output.
    ///
    /// # Errors
    /// The outer one as for [`Self::enter`]; the inner one is that of
    /// [`Command::output`].
    pub fn output(&self, command: &mut Command) -> Result<io::Result<Output>, LinkError> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Ok(self.spawn(command)?.and_then(Child::wait_with_output))
    }

    /// A command that runs `program` by `ip netns exec`: unlike one of
    /// [`Self::spawn`] it also sees the namespace's interfaces in `/sys`.
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
    /// If iproute2 is missing or refuses one of them; those before it are done.
    pub fn ip(&self, commands: &str) -> Result<(), LinkError> {
        run_ip(&["-netns", &self.name, "-batch", "-"], commands)
    }

    /// Runs one `ip` command inside the namespace, given without the `ip`. Unlike
    /// those of [`Self::ip`] it may begin with options such as `-6`, and an error
    /// tells the command.
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
        // As far as that goes: there is nobody left to tell.
        let _ = processes::end_inside(std::slice::from_ref(&self.name));
        let _ = remove(&self.name);
    }
}

/// Names of the namespaces that begin with `prefix`, in order.
pub(super) fn existing(prefix: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(DIRECTORY) else {
        // iproute2 makes it with the first namespace.
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort_unstable();
    names
}

/// Removes a namespace, of whichever process, if it is still there.
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
            // It may have ended already; then its status tells why.
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
