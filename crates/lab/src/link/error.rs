//! What can go wrong with an emulated link.

use std::io;
use std::process::ExitStatus;

/// Why a namespace or a link could not be set up, used or removed.
///
/// Most need privileges: look for [`io::ErrorKind::PermissionDenied`] in the
/// chain of sources.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
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
    /// The pump stopped by itself: the link carries nothing any more.
    #[error("carrying packets over an emulated link")]
    Pump(#[source] io::Error),
}
