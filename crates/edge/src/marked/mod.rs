//! QUIC's sockets, whose packets can take the egress route that was chosen for their destination.
//!
//! quinn-udp sends and receives, and has no say in control messages. So packets whose destination has a
//! mark are sent here, with the control messages that quinn-udp would set, and their mark.

mod link;
mod marks;
mod packets;
#[cfg(test)]
mod tests;
mod unsegmented;

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use hikyaku_quic::udp::{RecvMeta, Transmit};
use hikyaku_quic::{Socket, UdpSocket, refuses_segments};

use self::link::Diversion;
pub(crate) use self::link::Former;
pub(crate) use self::marks::Marks;
pub(crate) use self::packets::{Packets, QuicPackets};
use self::unsegmented::Unsegmented;
use crate::clock;
use crate::sys::{self, Datagrams};
use crate::unvalidated::Unvalidated;

/// A UDP socket for QUIC that obeys [`Marks`], and sends no more to an address than [`Unvalidated`]
/// lets it.
///
/// A packet that cannot be sent with its mark goes without: a mark is never a reason to lose packets.
#[derive(Debug)]
pub(crate) struct MarkedSocket {
    socket: UdpSocket,
    marks: Arc<Marks>,
    unvalidated: Arc<Unvalidated>,
    unsegmented: Unsegmented,
    /// Transmits that went without their mark.
    unmarked: AtomicU64,
    /// The datagrams come to another socket.
    only_sends: bool,
    former: Option<Former>,
    diversion: Diversion,
}

impl MarkedSocket {
    /// Takes a socket that is bound and not connected: connected IPv6 sockets ignore marks of single
    /// packets.
    ///
    /// # Errors
    /// When its options can't be set, or outside of a tokio runtime.
    pub(crate) fn new(
        socket: std::net::UdpSocket,
        marks: Arc<Marks>,
        unvalidated: Arc<Unvalidated>,
    ) -> io::Result<Self> {
        Ok(Self {
            socket: UdpSocket::new(socket)?,
            marks,
            unvalidated,
            unsegmented: Unsegmented::default(),
            unmarked: AtomicU64::new(0),
            only_sends: false,
            former: None,
            diversion: Diversion::default(),
        })
    }

    /// Receives nothing by itself.
    pub(crate) fn only_sending(mut self, only_sends: bool) -> Self {
        self.only_sends = only_sends;
        self
    }

    /// Sends the datagrams of a `former` process on to it.
    pub(crate) fn with_former(mut self, former: Option<Former>) -> Self {
        self.former = former;
        self
    }

    /// Leaves receiving to another process, which sends our datagrams by `link`, or takes it back. In the
    /// worker's thread; its driver has to look again.
    ///
    /// # Errors
    /// When the runtime can't watch the link.
    pub(crate) fn divert(&self, link: Option<UnixDatagram>) -> io::Result<()> {
        self.diversion.set(link)
    }

    /// Transmits that went without their mark so far.
    #[cfg(test)]
    fn unmarked(&self) -> u64 {
        self.unmarked.load(Ordering::Relaxed)
    }

    /// Sends the part that the address may receive now; the rest counts as sent, too.
    fn send_within(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let Some(part) = self.unvalidated.within(transmit) else {
            return Ok(());
        };
        self.send(&part)
            .inspect_err(|_| self.unvalidated.unsent(&part))
    }

    /// Counts the bytes received, and sends the packets that waited for them.
    fn count(&self, bytes: &[u8], meta: &RecvMeta) {
        if meta.len == 0 {
            return;
        }
        let bytes = bytes.get(..meta.len).unwrap_or_default();
        if let Some(withheld) = self.unvalidated.received(meta.addr, bytes, meta.stride) {
            let sent = self.socket.try_send_by(|| self.send(&withheld.transmit()));
            if let Err(error) = sent {
                // As if the network had lost it.
                tracing::debug!(client = %meta.addr, "sending what has waited: {error}");
            }
        }
    }

    fn send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let Some(mark) = self.marks.of(transmit.destination) else {
            return self.socket.send(transmit);
        };
        match self.send_marked(transmit, mark) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
            // As quinn-udp has it: a search for the path's MTU ends by this, and a path whose MTU has
            // shrunk is found by QUIC. Without the mark it would be another path's.
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => Ok(()),
            Err(error) => {
                self.warn(transmit, mark, &error);
                self.socket.send(transmit)
            }
        }
    }

    /// Sends all datagrams of `transmit`. They may arrive twice when the socket's buffer fills up
    /// in the midst of them, since all are sent again then: QUIC drops duplicates.
    fn send_marked(&self, transmit: &Transmit<'_>, mark: u32) -> io::Result<()> {
        let mut datagrams = Datagrams {
            destination: transmit.destination,
            source: transmit.src_ip,
            ecn: transmit.ecn.map_or(0, |ecn| ecn as u8),
            mark,
            segment_size: None,
            contents: transmit.contents,
        };
        let size = transmit.segment_size.unwrap_or(transmit.contents.len());
        if size >= transmit.contents.len() {
            return sys::send(&self.socket, &datagrams);
        }
        let now = clock::now();
        if let Ok(segment) = u16::try_from(size)
            && !self.unsegmented.contains(mark, now)
        {
            datagrams.segment_size = Some(segment);
            match sys::send(&self.socket, &datagrams) {
                Err(error) if refuses_segments(&error) => {
                    tracing::debug!(
                        "sending segments with mark {mark:#x}: {error}; one by one now"
                    );
                    self.unsegmented.insert(mark, now);
                }
                result => return result,
            }
        }
        datagrams.segment_size = None;
        for contents in transmit.contents.chunks(size) {
            sys::send(
                &self.socket,
                &Datagrams {
                    contents,
                    ..datagrams
                },
            )?;
        }
        Ok(())
    }

    /// Warns of the first packets that went without their mark, and then more and more seldom.
    fn warn(&self, transmit: &Transmit<'_>, mark: u32, error: &io::Error) {
        let count = self.unmarked.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            tracing::warn!(
                "sending to {} with the mark {mark:#x} of its path: {error}; sent without \
                 ({count} times by now)",
                transmit.destination
            );
        }
    }
}

impl Socket for MarkedSocket {
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.socket.try_send_by(|| self.send_within(transmit))
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_writable(cx)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let received = match self.diversion.poll_recv(cx, bufs, meta) {
            Some(received) => received,
            None if self.only_sends => Poll::Pending,
            None => self.socket.poll_recv(cx, bufs, meta),
        };
        if let Poll::Ready(Ok(count)) = received {
            for (bytes, meta) in bufs.iter_mut().zip(meta.iter_mut()).take(count) {
                if let Some(former) = &self.former {
                    former.sift(bytes, meta);
                }
                self.count(bytes, meta);
            }
        }
        received
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.socket.max_transmit_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}
