//! Acknowledgements that receivers hold back.

use std::time::Instant;

use super::Snapshot;

/// Bounds the time at which the last bytes of a response arrived.
///
/// A receiver may hold the acknowledgement of less than two full segments back, in the hope of something
/// to send. RFC 1122 §4.2.3.2 allows less than 500 ms; Linux takes 40 to 200 ms. A segment that is alone
/// on its way, and not sent again, arrives about one round trip after it became so. Its acknowledgement
/// adds nothing to that.
#[derive(Debug, Default)]
pub(super) struct HeldAck(Option<Alone>);

/// No more than a segment is on its way.
#[derive(Debug)]
struct Alone {
    since: Instant,
    acked: u64,
    packets_sent: u64,
}

impl HeldAck {
    /// Takes note of the bytes under way, of `written` ones. `since` is when a byte was last
    /// acknowledged, or sent.
    pub(super) fn look(&mut self, since: Instant, written: u64, snapshot: &Snapshot) {
        if written.saturating_sub(snapshot.acked) > SEGMENT {
            self.0 = None;
        } else if !self.0.as_ref().is_some_and(|alone| alone.is_of(snapshot)) {
            self.0 = Some(Alone {
                since,
                acked: snapshot.acked,
                packets_sent: snapshot.packets_sent,
            });
        }
    }

    /// By when the segment that was alone had arrived, as it is acknowledged now. `None` where no
    /// segment was alone, or it may have been sent again.
    pub(super) fn arrived_by(&mut self, snapshot: &Snapshot) -> Option<Instant> {
        let acknowledged = |alone: &mut Alone| snapshot.acked > alone.acked;
        let alone = self.0.take_if(acknowledged)?;
        let only = alone.packets_sent == snapshot.packets_sent && !snapshot.min_rtt.is_zero();
        only.then(|| alone.since + snapshot.min_rtt)
    }
}

impl Alone {
    fn is_of(&self, snapshot: &Snapshot) -> bool {
        (self.acked, self.packets_sent) == (snapshot.acked, snapshot.packets_sent)
    }
}

/// Bytes of which a receiver need not acknowledge the end at once: what a segment carries.
const SEGMENT: u64 = 1400;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_segment_that_is_alone_arrives_within_a_round_trip() {
        let start = Instant::now();
        let ms = |ms| start + Duration::from_millis(ms);
        // name, looks (since ms, written, acked, sent), final (acked, sent), arrived by ms
        type Case = (
            &'static str,
            &'static [(u64, u64, u64, u64)],
            (u64, u64),
            Option<u64>,
        );
        let cases: &[Case] = &[
            ("nothing was under way", &[], (45, 1), None),
            (
                "alone from the beginning",
                &[(3, 45, 0, 1)],
                (45, 1),
                Some(23),
            ),
            ("two small ones", &[(3, 900, 0, 2)], (900, 2), Some(23)),
            (
                "alone at several looks",
                &[(3, 45, 0, 1), (13, 45, 0, 1), (23, 45, 0, 1)],
                (45, 1),
                Some(23),
            ),
            (
                "the last of many",
                &[(3, 14_000, 0, 10), (25, 14_000, 13_000, 10)],
                (14_000, 10),
                Some(45),
            ),
            ("many at once", &[(3, 14_000, 0, 10)], (14_000, 10), None),
            ("sent again", &[(3, 45, 0, 1)], (45, 2), None),
            (
                "sent again, and alone since",
                &[(3, 45, 0, 1), (240, 45, 0, 2)],
                (45, 2),
                Some(260),
            ),
            ("not acknowledged yet", &[(3, 45, 0, 1)], (0, 1), None),
        ];
        let snapshot = |acked, packets_sent| Snapshot {
            acked,
            packets_sent,
            min_rtt: Duration::from_millis(20),
            ..Snapshot::default()
        };
        for (name, looks, (acked, sent), want) in cases {
            let mut held = HeldAck::default();
            for &(since, written, acked, sent) in *looks {
                held.look(ms(since), written, &snapshot(acked, sent));
            }
            let got = held.arrived_by(&snapshot(*acked, *sent));
            assert_eq!(got, want.map(ms), "{name}");
        }
    }
}
