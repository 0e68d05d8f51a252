//! Facts on MPTCP's subflows that the kernel reports by socket diagnostics alone (sock_diag(7)).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

/// A socket of `NETLINK_SOCK_DIAG`.
#[derive(Debug)]
pub(super) struct Diagnostics(OwnedFd);

impl Diagnostics {
    /// # Errors
    /// Those of socket(2).
    pub(super) fn open() -> io::Result<Self> {
        let family = AddressFamily::NETLINK;
        let protocol = Some(netlink::SOCK_DIAG);
        let socket = socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        Ok(Self(socket))
    }

    /// Whether a subflow is backup, as this host or the client has asked (RFC 8684 §3.3.8).
    ///
    /// `None` where the kernel has no such subflow any more, or does not report it, as without
    /// `CAP_NET_ADMIN`.
    pub(super) fn is_backup(&self, local: SocketAddr, remote: SocketAddr) -> Option<bool> {
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(
            &self.0,
            &request(local, remote),
            SendFlags::empty(),
            &kernel,
        )
        .ok()?;
        let mut answer = [0; 4096];
        let (_, length) = recv(&self.0, &mut answer, RecvFlags::DONTWAIT).ok()?;
        let flags = subflow_flags(answer.get(..length)?)?;
        Some(flags & (BACKUP_REMOTE | BACKUP_LOCAL) != 0)
    }
}

/// A `struct nlmsghdr` and a `struct inet_diag_req_v2` for one connection.
fn request(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&ip.octets());
            octets
        }
        IpAddr::V6(ip) => ip.octets(),
    };
    let family = match local.ip() {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    };
    let mut message = Vec::with_capacity(REQUEST_LEN);
    message.extend((REQUEST_LEN as u32).to_ne_bytes());
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message.extend([0; 8]); // number and port, which one request at a time needs not
    message.extend([family as u8, libc::IPPROTO_TCP as u8, WANTED, 0]);
    message.extend(u32::MAX.to_ne_bytes()); // all states
    message.extend(local.port().to_be_bytes());
    message.extend(remote.port().to_be_bytes());
    message.extend(octets(local.ip()));
    message.extend(octets(remote.ip()));
    message.extend(0_u32.to_ne_bytes()); // any interface
    message.extend([0xff; 8]); // any cookie
    message
}

/// The flags of a subflow in the kernel's answer.
fn subflow_flags(message: &[u8]) -> Option<u32> {
    let kind = message.get(4..6)?;
    if kind != SOCK_DIAG_BY_FAMILY.to_ne_bytes() {
        return None;
    }
    let protocol = attribute(message.get(ANSWER_LEN..)?, INET_DIAG_ULP_INFO)?;
    let mptcp = attribute(protocol, INET_ULP_INFO_MPTCP)?;
    let flags = attribute(mptcp, MPTCP_SUBFLOW_ATTR_FLAGS)?;
    Some(u32::from_ne_bytes(*flags.first_chunk()?))
}

/// The content of the first attribute of a type (`struct nlattr`).
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = u16::from_ne_bytes(*attributes.first_chunk()?).into();
        let kind = u16::from_ne_bytes(*attributes.get(2..)?.first_chunk()?) & NLA_TYPE_MASK;
        let content = attributes.get(4..length)?;
        if kind == wanted {
            return Some(content);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

const NLA_TYPE_MASK: u16 = 0x3fff;
/// Headers of `linux/netlink.h` with what follows of `linux/inet_diag.h`.
const REQUEST_LEN: usize = 16 + 56;
const ANSWER_LEN: usize = 16 + 72;
/// Of `linux/sock_diag.h`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Of `linux/inet_diag.h`.
const INET_DIAG_ULP_INFO: u16 = 19;
const INET_ULP_INFO_MPTCP: u16 = 3;
/// `INET_DIAG_INFO`, without which the kernel does not report protocols above TCP either.
const WANTED: u8 = 1 << 1;
/// Of `linux/mptcp.h`.
const MPTCP_SUBFLOW_ATTR_FLAGS: u16 = 8;
const BACKUP_REMOTE: u32 = 1 << 4;
const BACKUP_LOCAL: u32 = 1 << 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(kind: u16, content: &[u8]) -> Vec<u8> {
        let mut bytes = (4 + content.len() as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn flags_are_found_and_damage_is_not_followed() {
        let flags = nested(MPTCP_SUBFLOW_ATTR_FLAGS, &BACKUP_LOCAL.to_ne_bytes());
        let mptcp = [nested(1, &[7; 5]), flags].concat();
        let mptcp = nested(INET_ULP_INFO_MPTCP | 0x8000, &mptcp);
        let protocol = [nested(1, b"mptcp\0"), mptcp].concat();
        let mut answer = vec![0; ANSWER_LEN];
        answer[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        answer.extend(nested(9, &[1]));
        answer.extend(nested(INET_DIAG_ULP_INFO, &protocol));
        assert_eq!(subflow_flags(&answer), Some(BACKUP_LOCAL));
        for end in 0..answer.len() {
            assert_eq!(subflow_flags(&answer[..end]), None, "{end} bytes");
        }
        answer[4..6].copy_from_slice(&2_u16.to_ne_bytes());
        assert_eq!(subflow_flags(&answer), None, "an error");
        let empty = [0_u8; 8];
        assert_eq!(attribute(&empty, 1), None, "an attribute without a length");
    }
}
