//! A TCP connection whose socket can be asked for its state while it is served.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hikyaku_core::explain::SubflowState;
use hikyaku_units::Rate;
use hikyaku_units::arm::Congestion;
use parking_lot::Mutex;
use socket2::{Protocol, SockRef};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::unsent::{self, Unsent};
use super::{SubflowFlight, info};
use crate::clock;
use crate::listen::UNSENT;
use crate::sys;
use crate::tcp_cc::{Control, Controls};
use crate::transport::{Flight, Snapshot, Window};

/// A socket shared by the connection, which reads and writes it, and its meter.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    mptcp: bool,
    peer: IpAddr,
    controls: Arc<Controls>,
    /// The congestion control that was asked for last.
    control: Mutex<Option<Control>>,
    /// The largest rate that was asked for last.
    max_pacing_rate: Mutex<Option<Rate>>,
    /// Of its packets.
    mark: AtomicU32,
    /// Bytes that had been acknowledged before anything was written.
    base: u64,
    written: AtomicU64,
    blocked: AtomicBool,
    /// Where the kernel is to hold few bytes unsent.
    unsent: Mutex<Option<Unsent>>,
    /// Nothing reads or writes it any more.
    released: AtomicBool,
    /// Once the sending side is closed: whether the connection was still there.
    shut: OnceLock<bool>,
}

impl Socket {
    /// Takes a socket that a listener of `listens` has just accepted from `peer`. Its congestion control is
    /// set by `controls`.
    ///
    /// # Errors
    /// When the socket can't report its protocol or state, or takes no options.
    pub(crate) fn new(
        stream: TcpStream,
        peer: IpAddr,
        controls: Arc<Controls>,
        listens: Protocol,
    ) -> io::Result<Arc<Self>> {
        let mut mptcp = listens == Protocol::MPTCP;
        let mut base = 0;
        if mptcp {
            let socket = SockRef::from(&stream);
            mptcp = socket.protocol()? == Some(Protocol::MPTCP);
            match mptcp {
                // Data sequence numbers begin anywhere; those of TCP are counted by the kernel.
                true => base = info::read(&stream, true)?.acked,
                // A connection that falls back to TCP does not inherit it.
                false => socket.set_tcp_notsent_lowat(UNSENT)?,
            }
        }
        Ok(Arc::new(Self {
            base,
            stream,
            mptcp,
            peer,
            controls,
            control: Mutex::new(None),
            max_pacing_rate: Mutex::new(None),
            mark: AtomicU32::new(0),
            written: AtomicU64::new(0),
            blocked: AtomicBool::new(false),
            unsent: Mutex::new(None),
            released: AtomicBool::new(false),
            shut: OnceLock::new(),
        }))
    }

    /// Has the kernel hold few bytes unsent, by the rate of the socket: they go before all that is more urgent.
    pub(crate) fn hold_few_unsent(&self) {
        *self.unsent.lock() = Some(Unsent::new());
        self.set_unsent(unsent::FIRST);
    }

    fn set_unsent(&self, bytes: u32) {
        // A kernel without it for MPTCP holds more.
        let _ = SockRef::from(&self.stream).set_tcp_notsent_lowat(bytes);
    }

    /// Takes note that the socket takes no more now.
    fn on_full(&self) {
        self.blocked.store(true, Ordering::Relaxed);
        let Some(unsent) = &mut *self.unsent.lock() else {
            return;
        };
        let written = self.written.load(Ordering::Relaxed);
        if let Some(bytes) = unsent.on_full(clock::now(), written) {
            self.set_unsent(bytes);
        }
    }

    /// The connection's state; `acked` counts from the first byte written.
    ///
    /// # Errors
    /// Those of getsockopt(2).
    pub(crate) fn look(&self) -> io::Result<Snapshot> {
        let mut snapshot = info::read(&self.stream, self.mptcp)?;
        snapshot.acked = snapshot.acked.saturating_sub(self.base);
        Ok(snapshot)
    }

    /// Controls that set its congestion control.
    pub(super) fn controls(&self) -> &Controls {
        &self.controls
    }

    /// The token that names its connection to the kernel's MPTCP path managers; `None` of plain TCP, and
    /// of what fell back to it.
    pub(crate) fn mptcp_token(&self) -> Option<u32> {
        let info = self.mptcp.then(|| sys::mptcp_info(&self.stream))?;
        info.ok().map(|(info, _)| info.token)
    }

    /// The congestion window.
    ///
    /// # Errors
    /// Those of getsockopt(2).
    pub(crate) fn window(&self) -> io::Result<Window> {
        info::window(&self.stream, self.mptcp)
    }

    /// Changes the congestion control, if it is another. Returns whether it was.
    ///
    /// # Errors
    /// Those of [`Controls::set_congestion`]; the socket keeps what it had, and is not asked for
    /// the same again.
    pub(super) fn try_set_congestion(&self, control: Control) -> io::Result<bool> {
        let mut current = self.control.lock();
        // The former knowledge of the client path is for the connection's beginning alone.
        if current.is_some_and(|current| current.is_like(control)) {
            return Ok(false);
        }
        *current = Some(control);
        self.controls
            .set_congestion(&self.stream, self.peer, self.mptcp, control)?;
        Ok(true)
    }

    /// Has the connection begin with the present knowledge of its path, though it has the congestion control
    /// perhaps. To be called before it sends anything but its handshake. Returns the congestion control.
    pub(crate) fn begin_with(&self, control: Control) -> Option<Congestion> {
        *self.control.lock() = Some(control);
        let begun = self
            .controls
            .begin(&self.stream, self.peer, self.mptcp, control);
        begun
            .inspect_err(|error| self.controls.warn_once(control, error))
            .ok()
            .map(|()| control.congestion())
    }

    /// Whether the kernel holds it to a rate. It does not do so for MPTCP, whose rate the subflows
    /// would have to share.
    pub(crate) const fn is_paced(&self) -> bool {
        !self.mptcp
    }

    /// Bounds the rate at which the kernel sends, if that is another.
    ///
    /// # Errors
    /// Those of setsockopt(2); the socket keeps what it had, and is not asked for the same again.
    pub(super) fn try_set_max_pacing_rate(&self, rate: Option<Rate>) -> io::Result<()> {
        let former = std::mem::replace(&mut *self.max_pacing_rate.lock(), rate);
        if former == rate || !self.is_paced() {
            return Ok(());
        }
        sys::set_max_pacing_rate(&self.stream, rate)
    }

    /// Marks its packets from now on (`SO_MARK`, socket(7)), if that is another mark; 0 is none.
    /// Returns whether it is.
    ///
    /// # Errors
    /// Those of setsockopt(2): `EPERM` without CAP_NET_ADMIN and CAP_NET_RAW. The socket keeps what it
    /// had, and is not asked for the same again.
    pub(super) fn try_set_mark(&self, mark: u32) -> io::Result<bool> {
        if self.mark.swap(mark, Ordering::Relaxed) == mark {
            return Ok(false);
        }
        SockRef::from(&self.stream).set_mark(mark).map(|()| true)
    }

    /// Has its congestion control learn the path anew. That of MPTCP has one for each subflow, whose path
    /// does not change.
    ///
    /// # Errors
    /// As [`Controls::begin_anew`].
    pub(super) fn begin_anew(&self) -> io::Result<()> {
        match *self.control.lock() {
            Some(control) if !self.mptcp => {
                self.controls.begin_anew(&self.stream, self.peer, control)
            }
            _ => Ok(()),
        }
    }

    /// Whether all of it takes one path at a time; MPTCP may have several.
    pub(crate) const fn has_one_path(&self) -> bool {
        !self.mptcp
    }

    /// The packets under way on the path of TCP; `None` before there is a round-trip time.
    pub(crate) fn flight(&self) -> Option<Flight> {
        info::flight(&self.stream)
    }

    /// The packets under way on each subflow of MPTCP.
    pub(crate) fn subflows(&self) -> Vec<SubflowFlight> {
        info::subflows(&self.stream)
    }

    /// State of each subflow of MPTCP; empty for TCP.
    pub(crate) fn subflow_states(&self) -> Vec<SubflowState> {
        match self.mptcp {
            true => info::subflow_states(&self.stream),
            false => Vec::new(),
        }
    }

    /// Makes it send at once over the path that it was just given, though its window is full (see
    /// [`Controls::failover`]).
    ///
    /// # Errors
    /// Those of [`Controls::failover`].
    pub(super) fn try_failover(&self) -> io::Result<()> {
        let control = self.control.lock();
        self.controls.failover(&self.stream, self.peer, *control)
    }

    /// Closes the sending side, then reads and discards the bytes that the client still sends (RFC 9112
    /// §9.6), for at most `time`. A socket that is closed with unread data, or that data meets
    /// afterwards, resets the connection, and the client loses the response. Does nothing while
    /// something else uses the socket.
    pub(crate) async fn linger(&self, time: Duration, srtt: Duration) {
        if !self.released.load(Ordering::Acquire) || !self.shut() {
            return;
        }
        let [shortest, longest] = LINGER_SILENCE;
        let silence = (3 * srtt).clamp(shortest, longest);
        let discard = async {
            let mut left = LINGER_BYTES;
            while let Ok(read) = tokio::time::timeout(silence, self.discard()).await {
                match left.checked_sub(read.unwrap_or(0)) {
                    Some(rest) if rest < left => left = rest,
                    _ => return,
                }
            }
        };
        let _ = tokio::time::timeout(time, discard).await;
    }

    /// Closes the sending side, once. The kernel sends the FIN after what it still holds. Returns whether
    /// the connection was there.
    fn shut(&self) -> bool {
        let shut = || rustix::net::shutdown(&self.stream, rustix::net::Shutdown::Write);
        *self.shut.get_or_init(|| shut().is_ok())
    }

    /// Has the connection reset when the socket is closed, and its unsent bytes discarded. The kernel
    /// would else keep them for minutes, for a client that takes nothing.
    pub(crate) fn discard_unsent(&self) {
        // Fails only where the connection is gone.
        let _ = rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
    }

    /// Waits for data, and discards some. Returns how much; 0 at the end.
    async fn discard(&self) -> io::Result<usize> {
        loop {
            self.stream.readable().await?;
            // Not before the wait, through which each connection would keep it from its beginning.
            let mut buffer = [0; 16 * 1024];
            match self.stream.try_read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }

    /// Bytes that the socket has taken so far, and whether it took no more at the last
    /// write, so that some may wait above it.
    pub(crate) fn written(&self) -> (u64, bool) {
        (
            self.written.load(Ordering::Relaxed),
            self.blocked.load(Ordering::Relaxed),
        )
    }
}

/// Bounds of the silence after which a closed connection is left: three round trips within
/// these.
const LINGER_SILENCE: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(2)];
/// Most that is discarded of a closed connection.
const LINGER_BYTES: usize = 16 << 20;

/// The reading and writing end of a [`Socket`].
#[derive(Debug)]
pub(crate) struct MeteredIo(pub(crate) Arc<Socket>);

impl MeteredIo {
    fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            if self.0.stream.poll_write_ready(cx)?.is_pending() {
                self.0.on_full();
                return Poll::Pending;
            }
            match write(&self.0.stream) {
                Ok(n) => {
                    self.0.blocked.store(false, Ordering::Relaxed);
                    self.0.written.fetch_add(n as u64, Ordering::Relaxed);
                    return Poll::Ready(Ok(n));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl Drop for MeteredIo {
    fn drop(&mut self) {
        self.0.released.store(true, Ordering::Release);
    }
}

impl AsyncRead for MeteredIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = &self.0.stream;
        loop {
            ready!(stream.poll_read_ready(cx))?;
            let into = buf.initialize_unfilled();
            let (size, mut read) = (into.len(), 0);
            // A read that brings less than there is room for has emptied the socket. The runtime hears
            // so here, and waits for more, without another read that brings nothing.
            let emptied = stream.try_io(Interest::READABLE, || {
                read = rustix::io::read(stream, &mut *into)?;
                match read {
                    read if read > 0 && read < size => Err(io::ErrorKind::WouldBlock.into()),
                    _ => Ok(()),
                }
            });
            match emptied {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && read == 0 => {}
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Poll::Ready(Err(error));
                }
                _ => {
                    buf.advance(read);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for MeteredIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |stream| stream.try_write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |stream| stream.try_write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match self.0.shut() {
            true => Ok(()),
            false => Err(io::ErrorKind::NotConnected.into()),
        })
    }
}

#[cfg(test)]
mod tests;
