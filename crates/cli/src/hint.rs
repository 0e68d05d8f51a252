//! Advice on errors.

use std::io;

use hikyaku_edge::{ConfigError, ListenError, ServerError, tls::TlsError};
use hikyaku_emulator::link::LinkError;

/// Returns one sentence of advice, if the error itself does not give it.
pub(crate) fn hint(error: &anyhow::Error) -> Option<&'static str> {
    error.chain().find_map(|cause| {
        if let Some(error) = cause.downcast_ref::<ListenError>() {
            return listen_hint(error);
        }
        if let Some(TlsError::Read { source, .. }) = cause.downcast_ref::<TlsError>() {
            return tls_hint(source);
        }
        if let Some(error) = cause.downcast_ref::<LinkError>() {
            return link_hint(error);
        }
        match cause.downcast_ref::<ServerError>() {
            Some(ServerError::Congestion { .. }) => {
                return Some(
                    "see `sysctl net.ipv4.tcp_available_congestion_control` and \
                     `net.ipv4.tcp_allowed_congestion_control`, or set policy.congestion=cubic",
                );
            }
            Some(ServerError::Listen(error)) => return listen_hint(error),
            _ => {}
        }
        match cause.downcast_ref::<ConfigError>() {
            Some(ConfigError::Set { .. } | ConfigError::Parse { .. }) => {
                Some("`hikyaku config` prints every key with its default")
            }
            _ => None,
        }
    })
}

fn listen_hint(error: &ListenError) -> Option<&'static str> {
    match error.source.kind() {
        io::ErrorKind::AddrInUse => Some(
            "another program has this port (see `ss -tulpn`); stop it or choose another with \
             --listen",
        ),
        io::ErrorKind::PermissionDenied => Some(
            "ports below 1024 need the capability CAP_NET_BIND_SERVICE: run as root or by \
             systemd with AmbientCapabilities (conf/hikyaku.service)",
        ),
        io::ErrorKind::AddrNotAvailable => {
            Some("this machine does not have that address; `ip address` shows the ones it has")
        }
        _ => None,
    }
}

fn link_hint(error: &LinkError) -> Option<&'static str> {
    match error {
        LinkError::Missing(_) => Some(PRIVILEGES),
        LinkError::Register { source, .. } | LinkError::Tun { source, .. }
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            Some(PRIVILEGES)
        }
        _ => None,
    }
}

const PRIVILEGES: &str = "run it as root, in a container with --privileged or with CAP_NET_ADMIN, \
                          CAP_SYS_ADMIN and /dev/net/tun; `hikyaku lab sim` needs none of it";

fn tls_hint(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            Some("the user that hikyaku runs as must be able to read the file")
        }
        io::ErrorKind::NotFound => {
            Some("check the path, or leave --cert and --key out for a self-signed certificate")
        }
        _ => None,
    }
}
