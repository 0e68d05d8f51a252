//! Noticing that one of the paths of an MPTCP connection carries nothing any more.

use std::net::IpAddr;
use std::task::Context;
use std::time::{Duration, Instant};

use hikyaku_core::egress::SubflowRtt;

use super::Flight;
use super::next_look::NextLook;
use super::stall::{Signal, Watch};
use crate::clock;
use crate::egress::SubflowEnds;

/// Between looks while there is no subflow.
const LONELY_INTERVAL: Duration = Duration::from_millis(50);

/// Silence of a subflow that is nothing at first. Leaving a path ends the subflow for as long as the
/// path is avoided, while the others go on. So false alarms cost more here than a late one.
const PATIENCE: Duration = Duration::from_millis(60);

/// A subflow, and the packets under way on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SubflowFlight {
    /// Unique in the connection.
    pub(crate) id: u32,
    /// Packets take their path by our address.
    pub(crate) ends: SubflowEnds,
    pub(crate) flight: Flight,
    /// Since data were sent on it.
    pub(crate) idle: Duration,
}

impl SubflowFlight {
    /// The part by which the subflows are chosen that carry data.
    pub(super) const fn rtt(&self) -> (SubflowRtt, SubflowEnds) {
        let rtt = SubflowRtt {
            id: self.id,
            srtt: self.flight.srtt,
            min_rtt: self.flight.min_rtt,
            idle: self.idle,
        };
        (rtt, self.ends)
    }
}

/// A [`Watch`] for each subflow, and their timer.
#[derive(Debug)]
pub(super) struct SubflowWatcher {
    ack_delay: Duration,
    watches: Vec<(u32, Watch)>,
    /// Seen at the last look, and pending.
    signals: Vec<(IpAddr, Signal)>,
    next: NextLook,
}

impl SubflowWatcher {
    pub(super) fn new(ack_delay: Duration) -> Self {
        Self {
            ack_delay,
            watches: Vec::new(),
            signals: Vec::new(),
            next: NextLook::new(clock::now()),
        }
    }

    /// Looks at the packets under way when it is time, and returns the first signal with the subflow's
    /// local address. To be called again until there is none; the task is woken for the next look.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut flights: impl FnMut() -> Vec<SubflowFlight>,
    ) -> Option<(IpAddr, Signal)> {
        loop {
            if let Some(signal) = self.signals.pop() {
                return Some(signal);
            }
            let now = clock::now();
            if self.next.is_due(now) {
                self.look(now, &flights());
                continue;
            }
            if self.next.poll(cx).is_pending() {
                return None;
            }
        }
    }

    fn look(&mut self, now: Instant, flights: &[SubflowFlight]) {
        let is_there = |id: u32| flights.iter().any(|subflow| subflow.id == id);
        self.watches.retain(|(id, _)| is_there(*id));
        let mut next = now + LONELY_INTERVAL;
        for subflow in flights {
            let known = self.watches.iter().position(|(id, _)| *id == subflow.id);
            let place = known.unwrap_or_else(|| {
                let watch = Watch::new(now, self.ack_delay).with_patience(PATIENCE);
                self.watches.push((subflow.id, watch));
                self.watches.len() - 1
            });
            let watch = &mut self.watches[place].1;
            let signal = watch.look(now, &subflow.flight);
            self.signals
                .extend(signal.map(|signal| (subflow.ends.local.ip(), signal)));
            next = next.min(watch.next(&subflow.flight));
        }
        self.next.set(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(local: IpAddr) -> SubflowEnds {
        SubflowEnds {
            local: (local, 443).into(),
            remote: ([198, 51, 100, 7], 50_000).into(),
        }
    }

    fn flight(sent: u64, acked: u64) -> Flight {
        Flight {
            sent,
            in_flight: sent - acked,
            acked,
            acked_at: None,
            srtt: Duration::from_millis(20),
            rttvar: Duration::from_millis(1),
            min_rtt: Duration::from_millis(20),
            mark: 0,
            packet: 1,
            repairing: false,
            former: acked,
            former_packet: 1,
            resent: 0,
            duplicates: 0,
        }
    }

    #[test]
    fn a_connection_that_waits_for_content_is_looked_at_seldom() {
        let start = Instant::now();
        let mut watcher = SubflowWatcher::new(Duration::from_millis(40));
        let idle = SubflowFlight {
            id: 1,
            ends: ends([192, 0, 2, 1].into()),
            flight: flight(100, 100),
            idle: Duration::ZERO,
        };
        let mut looks = 0;
        let mut now = start;
        while now < start + Duration::from_secs(2) {
            watcher.look(now, &[idle]);
            looks += 1;
            now = watcher.next.at();
        }
        // Each 5 ms in the first quarter of a second, each 50 ms then.
        assert!((60..100).contains(&looks), "{looks}");
    }

    #[test]
    fn the_silent_one_is_reported() {
        let start = Instant::now();
        let mut watcher = SubflowWatcher::new(Duration::from_millis(40));
        let locals: [IpAddr; 2] = ["2001:db8::1", "2001:db8::a1"].map(|ip| ip.parse().unwrap());
        let mut signals = Vec::new();
        for ms in (0..400_u64).step_by(2) {
            let sent = ms + 20;
            // The second acknowledges nothing from 200 ms on.
            let acked = [ms, ms.min(200)];
            let subflows = [0, 1].map(|which| SubflowFlight {
                id: which as u32,
                ends: ends(locals[which]),
                flight: flight(sent, acked[which]),
                idle: Duration::ZERO,
            });
            watcher.look(start + Duration::from_millis(ms), &subflows);
            signals.extend(watcher.signals.drain(..).map(|signal| (ms, signal)));
        }
        let (at, (local, signal)) = signals.first().unwrap();
        assert_eq!(*local, locals[1]);
        assert!(matches!(signal, Signal::Stalled(_)));
        assert!((260..340).contains(at), "{at} ms");
        assert!(signals.iter().all(|(_, (local, _))| *local == locals[1]));
        watcher.look(start + Duration::from_secs(1), &[]);
        assert!(watcher.watches.is_empty(), "ended subflows are forgotten");
    }
}
