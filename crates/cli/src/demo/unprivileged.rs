//! The demo without root: in a user namespace, where the user may make networks (user_namespaces(7)).

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::Context;

/// A user, mount and network namespace of their own, in which this user is root. They go with their processes.
const UNSHARE: [&str; 5] = ["--user", "--map-root-user", "--mount", "--net", "--"];
/// Names of namespaces are kept in /run, which belongs to root.
const IN_OWN_RUN: &str = "mount -t tmpfs none /run && exec \"$0\" \"$@\"";

/// Whether this machine lets its users do that.
pub(super) fn is_possible() -> bool {
    let tried = unshare()
        .args([
            "sh",
            "-c",
            "mount -t tmpfs none /run && test -w /dev/net/tun && ip -V",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}

/// Becomes the same demo within such namespaces. The socket of the dashboard stays that of this machine. Returns
/// only an error.
pub(super) fn again(listener: TcpListener) -> anyhow::Error {
    let become_it = || -> io::Result<io::Error> {
        let error = unshare()
            .args(["sh", "-c", IN_OWN_RUN])
            .arg(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .arg("--listener-on-stdin")
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .exec();
        Ok(error)
    };
    let error = become_it().unwrap_or_else(|error| error);
    anyhow::Error::new(error).context("starting the demo in a user namespace")
}

/// The socket that the process outside has bound.
pub(super) fn listener() -> anyhow::Result<TcpListener> {
    let own = io::stdin().as_fd().try_clone_to_owned();
    own.map(TcpListener::from)
        .context("taking the dashboard's socket")
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(UNSHARE);
    command
}
