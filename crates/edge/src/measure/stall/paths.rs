//! The round-trip times of the paths that a connection has had.

use std::time::Duration;

use super::{AT_ONCE, Flight};

/// Packets after whose acknowledgement srtt is that of the path in use. A receiver acknowledges ten at
/// once at most, and srtt moves by an eighth each time (RFC 6298 §2.3, RFC 9002 §5.3). So less than a
/// fifth is of the former path.
const SETTLED: u64 = 128;

/// Shortest round-trip times, path by path. A transport's own min_rtt is over whatever path, by which a longer
/// one would pass for queued.
#[derive(Debug, Default)]
pub(super) struct Paths {
    /// By mark.
    least: Vec<(u32, Duration)>,
    now: Option<Now>,
}

/// The path in use.
#[derive(Clone, Copy, Debug)]
struct Now {
    mark: u32,
    /// The counter of acknowledgements when a packet of this path is acknowledged,
    begun: u64,
    /// and when srtt is its own.
    settled: u64,
}

impl Paths {
    pub(super) fn look(&mut self, flight: &Flight) {
        let before = flight.acked + flight.in_flight;
        let now = match self.now {
            Some(now) if now.mark == flight.mark => now,
            former => Now {
                mark: flight.mark,
                begun: former.map_or(0, |_| before + AT_ONCE * flight.packet),
                settled: before + SETTLED * flight.packet,
            },
        };
        self.now = Some(now);
        let rtt = match flight.min_rtt {
            Duration::ZERO if flight.acked < now.settled => return,
            Duration::ZERO => flight.srtt,
            min_rtt => min_rtt,
        };
        let known = self.least.iter_mut().find(|(mark, _)| *mark == now.mark);
        match known {
            Some((_, least)) => *least = rtt.min(*least),
            None => self.least.push((now.mark, rtt)),
        }
    }

    /// For how long packets wait in queues, as far as is known.
    pub(super) fn queueing(&self, flight: &Flight) -> Duration {
        let least = self.least(flight).unwrap_or(flight.srtt);
        flight.srtt.saturating_sub(least)
    }

    /// When packets are acknowledged that are sent now; `None` where nothing of the path is known.
    pub(super) fn rtt(&self, flight: &Flight) -> Option<Duration> {
        if self.now.is_none_or(|now| flight.acked >= now.begun) {
            return Some(flight.srtt);
        }
        Some(flight.srtt.max(self.least(flight)?))
    }

    fn least(&self, flight: &Flight) -> Option<Duration> {
        let of_path = |(mark, _): &&(u32, Duration)| *mark == flight.mark;
        self.least.iter().find(of_path).map(|(_, rtt)| *rtt)
    }
}
