//! Datagrams of connections that another process of this server has.
//!
//! Two processes share a socket while one takes over from the other. Whichever receives gets the
//! datagrams of both. It knows those of the other by their connection ids, and sends them on over a Unix
//! socket, each with its addresses. The other answers by its own copy of the socket.

use std::collections::HashSet;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use hikyaku_quic::proto::ConnectionId;
use hikyaku_quic::udp::{EcnCodepoint, RecvMeta};
use parking_lot::Mutex;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags};
use rustix::net::{recvmsg, sendmsg};
use tokio::io::Interest;

use crate::connection_ids::Giver;
use crate::unvalidated::header;

/// Bytes that wait for the other process. The kernel grants at most `net.core.wmem_max`.
const BUFFER: usize = 4 << 20;

/// The process that has had a socket before, and still has connections.
pub(crate) struct Former {
    giver: Giver,
    generation: u8,
    /// Ids that its clients have drawn whose handshakes are under way.
    handshakes: Arc<HashSet<ConnectionId>>,
    link: UnixDatagram,
    /// It takes no more datagrams.
    is_gone: AtomicBool,
}

impl Former {
    pub(crate) fn new(
        giver: Giver,
        generation: u8,
        handshakes: Arc<HashSet<ConnectionId>>,
        link: UnixDatagram,
    ) -> Self {
        let _ = socket2::SockRef::from(&link).set_send_buffer_size(BUFFER);
        Self {
            giver,
            generation,
            handshakes,
            link,
            is_gone: AtomicBool::new(false),
        }
    }

    /// Sends its datagrams on, and leaves the others in `bytes`, as `meta` describes them.
    pub(super) fn sift(&self, bytes: &mut [u8], meta: &mut RecvMeta) {
        if self.is_gone.load(Ordering::Relaxed) {
            return;
        }
        let (stride, mut kept, mut at) = (meta.stride.max(1), 0, 0);
        while at < meta.len {
            let end = meta.len.min(at + stride);
            if !self.has(&bytes[at..end]) || !self.send(&bytes[at..end], meta) {
                bytes.copy_within(at..end, kept);
                kept += end - at;
            }
            at = end;
        }
        meta.len = kept;
    }

    /// Whether a datagram is of one of its connections.
    fn has(&self, datagram: &[u8]) -> bool {
        let is_of_it = |id| self.giver.generation_of(id) == Some(self.generation);
        match header::ids(datagram) {
            Some((id, _)) if id.len() == self.giver.id_len() && is_of_it(id) => true,
            Some((id, _)) => id.len() <= 20 && self.handshakes.contains(&ConnectionId::new(id)),
            None => datagram.get(1..=self.giver.id_len()).is_some_and(is_of_it),
        }
    }

    /// Sends a datagram on; false if it has ended. One that finds no room is lost, as in a full socket.
    fn send(&self, datagram: &[u8], meta: &RecvMeta) -> bool {
        let head = encode(meta);
        let parts = [IoSlice::new(&head), IoSlice::new(datagram)];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut control = SendAncillaryBuffer::default();
        match sendmsg(&self.link, &parts, &mut control, flags) {
            Ok(_) => true,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::NOBUFS) => {
                tracing::debug!(client = %meta.addr, "the former process takes datagrams too slowly");
                true
            }
            Err(error) => {
                tracing::debug!("the former process takes no more datagrams: {error}");
                self.is_gone.store(true, Ordering::Relaxed);
                false
            }
        }
    }
}

impl fmt::Debug for Former {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Former")
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

/// The way in which a socket's datagrams come while another process receives them.
#[derive(Debug, Default)]
pub(super) struct Diversion {
    is_on: AtomicBool,
    link: Mutex<Option<tokio::net::UnixDatagram>>,
}

impl Diversion {
    /// Receives by `link` from now on, or by the socket again. In the worker's runtime.
    pub(super) fn set(&self, link: Option<UnixDatagram>) -> io::Result<()> {
        let link = link.map(|link| {
            link.set_nonblocking(true)?;
            tokio::net::UnixDatagram::from_std(link)
        });
        let link = link.transpose()?;
        self.is_on.store(link.is_some(), Ordering::Release);
        *self.link.lock() = link;
        Ok(())
    }

    /// Receives as a socket does; `None` where the datagrams come to the socket itself.
    pub(super) fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Option<Poll<io::Result<usize>>> {
        if !self.is_on.load(Ordering::Acquire) {
            return None;
        }
        let link = self.link.lock();
        Some(poll_link(link.as_ref()?, cx, bufs, meta))
    }
}

fn poll_link(
    link: &tokio::net::UnixDatagram,
    cx: &mut Context<'_>,
    bufs: &mut [IoSliceMut<'_>],
    meta: &mut [RecvMeta],
) -> Poll<io::Result<usize>> {
    loop {
        ready!(link.poll_recv_ready(cx))?;
        let mut count = 0;
        let result = link.try_io(Interest::READABLE, || {
            for (buf, meta) in bufs.iter_mut().zip(meta.iter_mut()) {
                *meta = receive(link, buf)?;
                count += 1;
            }
            Ok(())
        });
        match result {
            _ if count > 0 => return Poll::Ready(Ok(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The other process is gone, which somebody else will notice.
            Err(_) | Ok(()) => {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
        }
    }
}

/// Receives one datagram.
fn receive(link: &tokio::net::UnixDatagram, buf: &mut [u8]) -> io::Result<RecvMeta> {
    let mut head = [0; HEAD];
    let mut parts = [IoSliceMut::new(&mut head), IoSliceMut::new(buf)];
    let mut control = RecvAncillaryBuffer::default();
    let received = recvmsg(link, &mut parts, &mut control, RecvFlags::DONTWAIT)?;
    let len = received.bytes.saturating_sub(HEAD);
    Ok(decode(&head, len))
}

/// Bytes before a datagram: flags, ECN, the client's port, address and scope, and our address.
const HEAD: usize = 1 + 1 + 2 + 16 + 4 + 16;
const REMOTE_V4: u8 = 1;
const HAS_LOCAL: u8 = 2;
const LOCAL_V4: u8 = 4;

fn encode(meta: &RecvMeta) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let mut flags = 0;
    head[1] = meta.ecn.map_or(0, |ecn| ecn as u8);
    head[2..4].copy_from_slice(&meta.addr.port().to_be_bytes());
    if meta.addr.is_ipv4() {
        flags |= REMOTE_V4;
    }
    head[4..20].copy_from_slice(&wide(meta.addr.ip()).octets());
    if let SocketAddr::V6(remote) = meta.addr {
        head[20..24].copy_from_slice(&remote.scope_id().to_be_bytes());
    }
    if let Some(local) = meta.dst_ip {
        flags |= HAS_LOCAL | if local.is_ipv4() { LOCAL_V4 } else { 0 };
        head[24..].copy_from_slice(&wide(local).octets());
    }
    head[0] = flags;
    head
}

fn decode(head: &[u8; HEAD], len: usize) -> RecvMeta {
    let array = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&head[at..at + 16]);
        Ipv6Addr::from(octets)
    };
    let ip = |address: Ipv6Addr, is_v4: u8| match address.to_ipv4_mapped() {
        Some(v4) if head[0] & is_v4 != 0 => IpAddr::V4(v4),
        _ => IpAddr::V6(address),
    };
    let port = u16::from_be_bytes([head[2], head[3]]);
    let scope = u32::from_be_bytes([head[20], head[21], head[22], head[23]]);
    RecvMeta {
        addr: match ip(array(4), REMOTE_V4) {
            IpAddr::V4(remote) => (remote, port).into(),
            IpAddr::V6(remote) => SocketAddrV6::new(remote, port, 0, scope).into(),
        },
        len,
        stride: len,
        ecn: EcnCodepoint::from_bits(head[1]),
        dst_ip: (head[0] & HAS_LOCAL != 0).then(|| ip(array(24), LOCAL_V4)),
    }
}

fn wide(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

#[cfg(test)]
mod tests;
