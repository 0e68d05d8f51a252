//! Sockets that systemd has bound before it started this process (sd_listen_fds(3)).

use std::env;
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;

use socket2::{Socket, Type};

use super::HandoverError;
use super::pool::{Given, Role};
use crate::sys;

/// The first descriptor that systemd gives.
const FIRST: RawFd = 3;
/// Variables that are for the process alone that systemd starts.
pub(super) const VARIABLES: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// Takes systemd's sockets, if there are any.
///
/// # Errors
/// When a variable is no number, or a descriptor no socket of TCP or UDP.
pub(super) fn take() -> Result<Vec<Given>, HandoverError> {
    // They may be for a process that has started this one.
    if number("LISTEN_PID")? != i32::try_from(std::process::id()).ok() {
        return Ok(Vec::new());
    }
    let count = number("LISTEN_FDS")?.unwrap_or_default();
    let mut given = Vec::new();
    for number in FIRST..FIRST.saturating_add(count) {
        let failed = |source| HandoverError::Activated { number, source };
        let socket = sys::take_inherited(number).map_err(failed)?;
        given.push(describe(socket.into(), &given).map_err(failed)?);
    }
    Ok(given)
}

/// A variable's number; `None` where it isn't set.
fn number(variable: &'static str) -> Result<Option<i32>, HandoverError> {
    let Some(value) = env::var_os(variable) else {
        return Ok(None);
    };
    let number = value.to_str().and_then(|value| value.parse().ok());
    let wrong = || HandoverError::Variable {
        variable,
        value: value.display().to_string(),
    };
    number.map(Some).ok_or_else(wrong)
}

/// The use that a socket can have. Those of UDP that share an address are of one listener.
fn describe(socket: Socket, before: &[Given]) -> io::Result<Given> {
    let address = socket.local_addr()?.as_socket();
    let asked = address.ok_or_else(|| io::Error::other("it is no socket of TCP or UDP"))?;
    let role = match socket.r#type()? {
        Type::STREAM => Role::Stream,
        Type::DGRAM => Role::Udp,
        _ => return Err(io::Error::other("it is no socket of TCP or UDP")),
    };
    let same = |one: &&Given| role == Role::Udp && one.role == role && one.asked == asked;
    let group = before.iter().find(same).map(|one| one.group);
    Ok(Given {
        role,
        group: group.unwrap_or(before.len()),
        asked: unscoped(asked),
        socket,
        refused: false,
        only_sends: false,
        link: None,
        is_foreign: true,
    })
}

/// An address as a configuration has it.
fn unscoped(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn sockets_are_known_by_their_kind_and_address() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (tcp_at, udp_at) = (tcp.local_addr().unwrap(), udp.local_addr().unwrap());
        let again = udp.try_clone().unwrap();
        let mut given = Vec::new();
        for socket in [Socket::from(tcp), udp.into(), again.into()] {
            given.push(describe(socket, &given).unwrap());
        }
        let got = given.iter().map(|one| (one.role, one.group, one.asked));
        let got: Vec<_> = got.collect();
        let want = [
            (Role::Stream, 0, tcp_at),
            (Role::Udp, 1, udp_at),
            (Role::Udp, 1, udp_at),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn a_unix_socket_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let unix = UnixListener::bind(dir.path().join("socket")).unwrap();
        let fd = std::os::fd::OwnedFd::from(unix);
        let error = describe(fd.into(), &[]).unwrap_err();
        assert_eq!(error.to_string(), "it is no socket of TCP or UDP");
    }
}
