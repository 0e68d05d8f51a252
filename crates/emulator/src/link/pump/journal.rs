//! The pump's record of each packet.

use hikyaku_netsim::{Delivery, Discard, Discarded, Link};
use hikyaku_units::Timestamp;

use super::worker::Segment;
use crate::link::ip;
use crate::link::lateness::Lateness;
use crate::link::packet_log::{Line, PacketLog};

/// Lateness of all packets, and a log line for each if requested.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) lateness: Lateness,
    pub(super) log: Option<PacketLog>,
    /// Zero of the log's times.
    pub(super) started: Timestamp,
}

impl Journal {
    pub(super) fn delivered(
        &mut self,
        now: Timestamp,
        direction: &'static str,
        delivery: &Delivery<Segment>,
    ) {
        let late = now.since(delivery.due);
        self.lateness
            .record(u64::try_from(late.as_micros()).unwrap_or(u64::MAX));
        if let Some(log) = &self.log {
            let fate = if delivery.mark_ce {
                "marked"
            } else {
                "delivered"
            };
            log.write(self.line(delivery.due, direction, &delivery.payload, fate));
        }
    }

    /// Takes the packets that a link has discarded since the last call, if it keeps them.
    pub(super) fn all_discarded(&self, direction: &'static str, link: &mut Link<Segment>) {
        while let Some(discarded) = link.next_discarded() {
            self.discarded(direction, &discarded);
        }
    }

    fn discarded(&self, direction: &'static str, discarded: &Discarded<Segment>) {
        if let Some(log) = &self.log {
            let fate = match discarded.cause {
                Discard::Lost => "lost",
                Discard::Dropped => "dropped",
                Discard::Policed => "policed",
            };
            log.write(self.line(discarded.at, direction, &discarded.payload, fate));
        }
    }

    fn line(
        &self,
        at: Timestamp,
        direction: &'static str,
        segment: &Segment,
        fate: &'static str,
    ) -> Line {
        let Segment { packet, index } = segment;
        let since_start = |at: Timestamp| at.as_micros().saturating_sub(self.started.as_micros());
        Line {
            at_us: since_start(at),
            arrived_us: since_start(packet.at),
            direction,
            len: packet.frame.segment_len(*index),
            flow: ip::flow(packet.frame.packet()),
            fate,
        }
    }
}
