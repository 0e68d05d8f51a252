//! Sending datagrams with what UDP sockets of safe libraries cannot say: their mark.

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use socket2::SockAddr;

/// One datagram, or several of one size that the kernel cuts out of `contents`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagrams<'a> {
    /// On an IPv6 socket that takes IPv4, too, an IPv4-mapped address for IPv4.
    pub(crate) destination: SocketAddr,
    /// Address to send from, if it must be that; mapped if the destination is.
    pub(crate) source: Option<IpAddr>,
    /// The ECN field: two bits (RFC 3168 §5).
    pub(crate) ecn: u8,
    /// Mark that routing goes by (`SO_MARK`, socket(7)); 0 is none.
    pub(crate) mark: u32,
    /// Bytes of each but the last, which may be smaller; `None` for one datagram.
    pub(crate) segment_size: Option<u16>,
    pub(crate) contents: &'a [u8],
}

/// Sends from an unconnected UDP socket.
///
/// # Errors
/// Those of sendmsg(2): `EPERM` where the process may not mark packets, and for segments `EIO`,
/// `EINVAL` or `ENOMEM` where the route or its interface cannot cut them.
pub(crate) fn send(socket: impl AsFd, datagrams: &Datagrams<'_>) -> io::Result<()> {
    let destination = SockAddr::from(datagrams.destination);
    let mut control = Control::default();
    control.describe(datagrams);
    let mut contents = libc::iovec {
        iov_base: datagrams.contents.as_ptr().cast_mut().cast(),
        iov_len: datagrams.contents.len(),
    };
    // SAFETY: zeros are a valid `msghdr`: null pointers and lengths of nothing.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = destination.as_ptr().cast_mut().cast();
    message.msg_namelen = destination.len();
    message.msg_iov = &raw mut contents;
    message.msg_iovlen = 1;
    message.msg_control = control.buffer.as_mut_ptr().cast();
    message.msg_controllen = control.length as _;
    loop {
        // SAFETY: every address in `message` is that of a value that lives for the call, with its
        // length; sendmsg(2) writes to none of them.
        let sent = unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, 0) };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Control messages, aligned for their headers (cmsg(3)).
#[derive(Default)]
struct Control {
    buffer: [u64; CONTROL_WORDS],
    /// Bytes in use.
    length: usize,
}

/// Room for a mark, a traffic class, a segment size and an IPv6 source address: 24 + 24 + 24 + 40
/// bytes on 64-bit machines.
const CONTROL_WORDS: usize = 16;

impl Control {
    fn describe(&mut self, datagrams: &Datagrams<'_>) {
        self.push(libc::SOL_SOCKET, libc::SO_MARK, datagrams.mark);
        let ecn = libc::c_int::from(datagrams.ecn);
        // A datagram to a mapped address leaves as IPv4.
        if datagrams.destination.ip().to_canonical().is_ipv4() {
            self.push(libc::IPPROTO_IP, libc::IP_TOS, ecn);
        } else {
            self.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, ecn);
        }
        if let Some(size) = datagrams.segment_size {
            self.push(libc::SOL_UDP, libc::UDP_SEGMENT, size);
        }
        match datagrams.source {
            Some(IpAddr::V4(source)) => {
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: libc::in_addr {
                        s_addr: u32::from_ne_bytes(source.octets()),
                    },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, info);
            }
            Some(IpAddr::V6(source)) => {
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr {
                        s6_addr: source.octets(),
                    },
                    ipi6_ifindex: 0,
                };
                self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
            }
            None => {}
        }
    }

    fn push<T: Copy>(&mut self, level: libc::c_int, kind: libc::c_int, value: T) {
        let size = mem::size_of::<T>() as libc::c_uint;
        // SAFETY: both only calculate.
        let (space, length) = unsafe { (libc::CMSG_SPACE(size), libc::CMSG_LEN(size)) };
        let begin = self.length;
        self.length += space as usize;
        assert!(
            self.length <= mem::size_of_val(&self.buffer),
            "{CONTROL_WORDS} words hold all control messages"
        );
        // SAFETY: `begin` is a multiple of the alignment of headers, as CMSG_SPACE rounds to it. The
        // `space` bytes from there are within the buffer, and nothing else refers to them.
        unsafe {
            let header = self
                .buffer
                .as_mut_ptr()
                .byte_add(begin)
                .cast::<libc::cmsghdr>();
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            (*header).cmsg_len = length as _;
            ptr::write_unaligned(libc::CMSG_DATA(header).cast::<T>(), value);
        }
    }
}
