//! Network namespaces.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::error::LinkError;

/// A named network namespace, removed on drop. It lives on while a process runs
/// in it: end those first.
#[derive(Debug)]
pub struct Netns {
    name: String,
    handle: File,
}

impl Netns {
    /// Creates the namespace `name` and brings its loopback interface up. It can
    /// be reached by hand with `ip netns exec NAME`.
    ///
    /// # Errors
    /// Without privileges, without iproute2, or if the name is taken.
    pub fn create(name: &str) -> Result<Self, LinkError> {
        run_ip(&["netns", "add", name], "")?;
        let handle = File::open(Path::new("/run/netns").join(name)).inspect_err(|_| {
            remove(name);
        });
        let handle = handle.map_err(|source| LinkError::Enter {
            name: name.to_owned(),
            source,
        })?;
        let netns = Self {
            name: name.to_owned(),
            handle,
        };
        netns.ip("link set lo up")?;
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
        self.enter(|| command.spawn())
    }

    /// Runs a process inside the namespace to its end and collects its output.
    ///
    /// # Errors
    /// The outer one as for [`Self::enter`]; the inner one is that of
    /// [`Command::output`].
    pub fn output(&self, command: &mut Command) -> Result<io::Result<Output>, LinkError> {
        self.enter(|| command.output())
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
}

impl Drop for Netns {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Removes a namespace as far as that goes: there is nobody left to tell.
fn remove(name: &str) {
    let _ = run_ip(&["netns", "delete", name], "");
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
