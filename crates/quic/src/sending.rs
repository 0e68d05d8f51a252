//! The way of datagrams from a connection to the socket.

use std::io;
use std::time::{Duration, Instant};

use quinn_proto as proto;
use quinn_udp::Transmit;

use crate::socket::Socket;

/// A train of datagrams is sent in one call, and lasts this long at most at the rate of the connection's
/// pacer.
const TRAIN: Duration = Duration::from_millis(1);
/// Datagrams of a train that is not bounded by the rate: what a connection may begin with at once
/// (RFC 9002 §7.2).
const MIN_TRAIN: u64 = 10;
/// Bytes of a train: what UDP can carry, less the headers of IPv6.
const MAX_TRAIN_LEN: usize = 65_535 - 48;
/// Datagrams that a connection sends before others have their turn.
const TURN: usize = 128;

/// Whether a connection has sent all that it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    All,
    /// Its turn is over.
    More,
    /// The socket takes no more.
    Blocked,
}

/// The buffer for datagrams, which all connections of a worker share.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    buffer: Vec<u8>,
    /// Datagrams of `buffer` that the socket did not take.
    blocked: Option<proto::Transmit>,
    /// For responses of the endpoint, while `buffer` is in use.
    response: Vec<u8>,
}

impl Outbox {
    /// An empty buffer for a response of the endpoint.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        self.response.clear();
        &mut self.response
    }

    /// Sends a response of the endpoint that is in the buffer. Without room it is dropped: who wants it
    /// asks again.
    pub(crate) fn respond(&self, transmit: &proto::Transmit, socket: &dyn Socket) {
        if let Err(error) = send(transmit, &self.response, socket) {
            tracing::debug!("sending a response: {error}");
        }
    }

    /// Whether the socket did not take datagrams.
    pub(crate) const fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Sends the datagrams that the socket did not take. Returns false if it still takes none.
    pub(crate) fn retry(&mut self, socket: &dyn Socket) -> bool {
        let Some(transmit) = self.blocked.take() else {
            return true;
        };
        self.send(transmit, socket)
    }

    /// Sends what `connection` may send in its turn.
    pub(crate) fn transmit(
        &mut self,
        connection: &mut proto::Connection,
        socket: &dyn Socket,
        now: Instant,
    ) -> Sent {
        if self.is_blocked() {
            return Sent::Blocked;
        }
        let train = train(connection).min(socket.max_transmit_segments());
        let mut left = TURN;
        loop {
            self.buffer.clear();
            let Some(transmit) = connection.poll_transmit(now, train, &mut self.buffer) else {
                return Sent::All;
            };
            let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
            let count = transmit.size.div_ceil(segment);
            if !self.send(transmit, socket) {
                return Sent::Blocked;
            }
            if count >= left {
                return Sent::More;
            }
            left -= count;
        }
    }

    fn send(&mut self, transmit: proto::Transmit, socket: &dyn Socket) -> bool {
        match send(&transmit, &self.buffer, socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.blocked = Some(transmit);
                return false;
            }
            // As if the network had lost them.
            Err(error) => tracing::debug!("sending to {}: {error}", transmit.destination),
            Ok(()) => {}
        }
        true
    }
}

fn send(transmit: &proto::Transmit, buffer: &[u8], socket: &dyn Socket) -> io::Result<()> {
    socket.try_send(&Transmit {
        destination: transmit.destination,
        ecn: transmit
            .ecn
            .and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
        contents: &buffer[..transmit.size],
        segment_size: transmit.segment_size,
        src_ip: transmit.src_ip,
    })
}

/// Datagrams of a train: as many as the pacer lets go in [`TRAIN`].
fn train(connection: &proto::Connection) -> usize {
    let mtu = usize::from(connection.current_mtu()).max(1);
    let bytes = paced(connection.congestion_state().window(), connection.rtt());
    let datagrams = (bytes / mtu as u64).max(MIN_TRAIN);
    usize::try_from(datagrams)
        .unwrap_or(usize::MAX)
        .min(MAX_TRAIN_LEN / mtu)
        .max(1)
}

/// Bytes that a pacer at 1.25 times `window` a round trip sends in [`TRAIN`] (RFC 9002 §7.7).
fn paced(window: u64, rtt: Duration) -> u64 {
    let rtt = rtt.as_micros().max(1);
    let bytes = u128::from(window) * TRAIN.as_micros() * 5 / 4 / rtt;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trains_last_a_millisecond() {
        let cases = [
            ("10 Mbit/s", 50_000, 40, 1_562),
            ("1 Gbit/s", 1_250_000, 10, 156_250),
            ("no round trip", 1_200, 0, 1_500_000),
        ];
        for (name, window, rtt, expected) in cases {
            assert_eq!(
                paced(window, Duration::from_millis(rtt)),
                expected,
                "{name}"
            );
        }
    }
}
