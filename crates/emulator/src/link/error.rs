//! Errors of emulated links.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::topology::SpecProblem;

/// The reason why a namespace or a link could not be set up, used or removed.
///
/// Most operations need privileges: look for [`io::ErrorKind::PermissionDenied`] in the chain of
/// sources.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The machine or the user lacks a requirement of every emulated network.
    #[error("emulating a network: this needs {0}")]
    Missing(String),
    /// The register of lab processes cannot be used.
    #[error("using `{}`, where running labs are registered", path.display())]
    Register {
        /// File or directory of the register.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A temporary directory of a lab cannot be made or removed.
    #[error("using the temporary directory `{}`", path.display())]
    Scratch {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Another process has this process's entry.
    #[error(
        "registering this lab: `{}` belongs to a running lab of another PID namespace; \
         start this one again, or give it a /run of its own", path.display()
    )]
    Owned {
        /// The entry.
        path: PathBuf,
    },
    /// One part of a network could not be built.
    #[error("building {what} `{name}`")]
    Part {
        /// Kind of the part: node, link, wire or LAN.
        what: &'static str,
        /// Name of the part in the topology.
        name: String,
        /// The cause.
        #[source]
        source: Box<Self>,
    },
    /// The description of a network is inconsistent.
    #[error("building a network")]
    Topology(#[from] SpecProblem),
    /// The calling process is inside a namespace that is to be removed.
    #[error("removing {0}: this process runs inside; leave the namespace first")]
    Inside(String),
    /// Processes outlived even SIGKILL.
    #[error("ending processes inside namespaces: {0} will not end")]
    Processes(String),
    /// iproute2 could not be started: it may not be installed.
    #[error("running `ip {arguments}`")]
    StartIp {
        /// Arguments after `ip`.
        arguments: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// iproute2 refused.
    #[error("running `ip {arguments}`: {status}: {stderr}")]
    Ip {
        /// Arguments after `ip`.
        arguments: String,
        /// Exit status of `ip`.
        status: ExitStatus,
        /// The standard error of `ip`.
        stderr: String,
    },
    /// The namespace exists, but a thread could not move into it.
    #[error("entering network namespace `{name}`")]
    Enter {
        /// Name of the namespace.
        name: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The kernel refused a setting.
    #[error("setting sysctl `{key}` to `{value}`")]
    Sysctl {
        /// Path below `/proc/sys`.
        key: String,
        /// Value written.
        value: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The TUN interface could not be created.
    #[error("creating TUN interface `{name}` through /dev/net/tun")]
    Tun {
        /// Name of the interface.
        name: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The pump could not be started.
    #[error("starting the pump of an emulated link")]
    StartPump(#[source] io::Error),
    /// The file for the packet log could not be created.
    #[error("creating the packet log `{}`", path.display())]
    PacketLog {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// `tc` of iproute2 could not be run, or refused.
    #[error("running `tc {arguments}`: {problem}")]
    Tc {
        /// Arguments after `tc`.
        arguments: String,
        /// The message of `tc` or of the system.
        problem: String,
    },
    /// The netem back end lacks a property of the link.
    #[error("emulating {0} with netem; use the back end `tun` for this link")]
    NotForNetem(&'static str),
    /// The pump stopped by itself: the link carries nothing any more.
    #[error("carrying packets over an emulated link")]
    Pump(#[source] io::Error),
}
