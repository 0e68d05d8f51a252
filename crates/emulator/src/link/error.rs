//! What can go wrong with an emulated link.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::topology::SpecProblem;

/// Why a namespace or a link could not be set up, used or removed.
///
/// Most need privileges: look for [`io::ErrorKind::PermissionDenied`] in the
/// chain of sources.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The machine or the user lacks what every emulated network needs.
    #[error("emulating a network: this needs {0}")]
    Missing(String),
    /// The register of lab processes cannot be used.
    #[error("using `{}`, where running labs are registered", path.display())]
    Register {
        /// File or directory of the register.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A temporary directory of a lab cannot be made or removed.
    #[error("using the temporary directory `{}`", path.display())]
    Scratch {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Another process has this one's entry.
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
        /// Node, link, wire or LAN.
        what: &'static str,
        /// Its name in the topology.
        name: String,
        /// Why not.
        #[source]
        source: Box<Self>,
    },
    /// The description of a network does not fit together.
    #[error("building a network")]
    Topology(#[from] SpecProblem),
    /// The calling process is inside what is to be removed.
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
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// iproute2 refused.
    #[error("running `ip {arguments}`: {status}: {stderr}")]
    Ip {
        /// Arguments after `ip`.
        arguments: String,
        /// How it ended.
        status: ExitStatus,
        /// What it wrote to standard error.
        stderr: String,
    },
    /// The namespace exists, but a thread could not move into it.
    #[error("entering network namespace `{name}`")]
    Enter {
        /// Name of the namespace.
        name: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A kernel setting was refused.
    #[error("setting sysctl `{key}` to `{value}`")]
    Sysctl {
        /// Path below `/proc/sys`.
        key: String,
        /// Value written.
        value: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The TUN interface could not be made.
    #[error("creating TUN interface `{name}` through /dev/net/tun")]
    Tun {
        /// Name of the interface.
        name: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The pump could not be started.
    #[error("starting the pump of an emulated link")]
    StartPump(#[source] io::Error),
    /// The file for the packet log could not be created.
    #[error("creating the packet log `{}`", path.display())]
    PacketLog {
        /// Where.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// `tc` of iproute2 could not be run, or refused.
    #[error("running `tc {arguments}`: {problem}")]
    Tc {
        /// Arguments after `tc`.
        arguments: String,
        /// What it or the system said.
        problem: String,
    },
    /// The netem back end cannot do what a link asks for.
    #[error("emulating {0} with netem; use the back end `tun` for this link")]
    NotForNetem(&'static str),
    /// The pump stopped by itself: the link carries nothing any more.
    #[error("carrying packets over an emulated link")]
    Pump(#[source] io::Error),
}
