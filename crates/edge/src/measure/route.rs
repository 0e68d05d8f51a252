//! From a transport's counters to what `core` learns of egress paths.

use std::time::{Duration, Instant};

use hikyaku_core::path::{PathObservation, Phase};

use super::{Ledger, Snapshot};
use crate::conn::Conn;

/// A response that takes longer is observed in parts of at least this.
const PART: Duration = Duration::from_secs(1);
/// Of the time in which something was asked for, the share without content to send (one in so many)
/// above which the goodput is not the path's.
const STARVED: u32 = 20;

/// Makes observations of the way that a connection's packets take. Where that changes, what is under way
/// says nothing: the next begins a round trip later. If nothing of a response has been acknowledged yet, it
/// counts whole.
#[derive(Debug)]
pub(super) struct RouteReporter {
    /// Of the connection, when the part began.
    changes: u64,
    /// When what was sent by the former way has been acknowledged.
    settled: Option<Instant>,
    /// Since when something has been under way, while it is.
    busy: Option<Instant>,
    part: Option<Part>,
}

/// The counters at the beginning of a part.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// `None` while nothing has been asked for since.
    since: Option<Instant>,
    acked: u64,
    sent: u64,
    lost: u64,
    starved: Duration,
}

impl Part {
    fn begin(since: Option<Instant>, snapshot: &Snapshot, starved: Duration) -> Self {
        Self {
            since,
            acked: snapshot.acked,
            sent: snapshot.packets_sent,
            lost: snapshot.packets_lost,
            starved,
        }
    }
}

impl RouteReporter {
    /// Of a connection that has sent no response yet, with its way's number of `changes` and its counters.
    pub(super) fn new(changes: u64, snapshot: &Snapshot) -> Self {
        Self {
            changes,
            settled: None,
            busy: None,
            part: Some(Part::begin(None, snapshot, Duration::ZERO)),
        }
    }

    /// Looks at the counters at `now`, `idle` when nothing is under way; then the last acknowledgement came
    /// at `acked_at`.
    pub(super) fn look(
        &mut self,
        conn: &Conn,
        now: Instant,
        acked_at: Instant,
        snapshot: &Snapshot,
        idle: bool,
    ) {
        if conn.route().is_none() {
            return;
        }
        let seen = self.observe(
            conn.route_changes(),
            &conn.ledger,
            (now, acked_at),
            snapshot,
            idle,
        );
        if let Some(seen) = seen {
            conn.observe_route(&seen);
        }
    }

    fn observe(
        &mut self,
        changes: u64,
        ledger: &Ledger,
        (now, acked_at): (Instant, Instant),
        snapshot: &Snapshot,
        idle: bool,
    ) -> Option<PathObservation> {
        let busy = self.busy.or(ledger.busy_since());
        self.busy = busy.filter(|_| !idle);
        if changes != self.changes {
            self.changes = changes;
            let begins = |part: &Part| {
                let just_now = |busy| now.saturating_duration_since(busy) < snapshot.srtt;
                part.acked == snapshot.acked && busy.is_none_or(just_now)
            };
            if !self.part.as_ref().is_some_and(begins) {
                self.part = None;
                self.settled = Some(now + snapshot.srtt);
            }
        }
        if self.settled.is_some_and(|settled| now < settled) {
            return None;
        }
        let begins = |since| Part::begin(since, snapshot, ledger.starved());
        let Some(mut part) = self.part else {
            // Not of a busy time that began by another way.
            self.part = Some(begins((!idle).then_some(now)));
            return None;
        };
        if part.since.is_none() {
            part.since = ledger.busy_since();
            self.part = Some(part);
        }
        let since = part.since?;
        let until = if idle { acked_at } else { now };
        let duration = until.saturating_duration_since(since);
        if !idle && duration < PART {
            return None;
        }
        self.part = Some(begins((!idle).then_some(now)));
        let into = busy.map(|busy| since.saturating_duration_since(busy));
        let sent = snapshot.packets_sent.saturating_sub(part.sent);
        let lost = snapshot.packets_lost.saturating_sub(part.lost).min(sent);
        let count = |packets: u64| u32::try_from(packets).unwrap_or(u32::MAX);
        let bytes = snapshot.acked.saturating_sub(part.acked);
        let starved = ledger.starved().saturating_sub(part.starved);
        (bytes > 0 && !duration.is_zero()).then(|| PathObservation {
            bytes,
            duration,
            phase: match into {
                Some(into) if into >= PART => Phase::Sustained,
                _ => Phase::Startup,
            },
            app_limited: starved > duration / STARVED,
            rtt: (!snapshot.srtt.is_zero()).then_some(snapshot.srtt),
            packets_sent: count(sent),
            packets_lost: count(lost),
            stalled: Duration::ZERO,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Request;

    use super::*;

    #[test]
    fn parts_of_one_way_are_observed() {
        let ledger = Arc::new(Ledger::watched());
        let ticket = ledger.open(&Request::get("https://a.example/").body(()).unwrap());
        let start = ledger.busy_since().unwrap();
        // name, (at ms, way, acked, idle), (bytes, ms, phase)
        type Case = (
            &'static str,
            (u64, u64, u64, bool),
            Option<(u64, u64, Phase)>,
        );
        let (startup, sustained) = (Phase::Startup, Phase::Sustained);
        let cases: &[Case] = &[
            ("before anything", (0, 0, 0, true), None),
            ("too soon", (400, 0, 3000, false), None),
            (
                "a part",
                (1500, 0, 9000, false),
                Some((9000, 1500, startup)),
            ),
            ("too soon again", (2000, 0, 10_000, false), None),
            ("another way", (2600, 1, 12_000, false), None),
            ("not settled", (2610, 1, 12_500, false), None),
            ("settled", (2700, 1, 13_000, false), None),
            (
                "a part of it",
                (3700, 1, 23_000, false),
                Some((10_000, 1000, sustained)),
            ),
            (
                "the end",
                (3900, 1, 25_000, true),
                Some((2000, 200, sustained)),
            ),
            ("idle", (9000, 1, 25_000, true), None),
        ];
        let mut reporter = RouteReporter::new(0, &Snapshot::default());
        for (name, (ms, way, acked, idle), want) in cases {
            let snapshot = Snapshot {
                acked: *acked,
                srtt: Duration::from_millis(50),
                ..Snapshot::default()
            };
            let at = start + Duration::from_millis(*ms);
            let seen = reporter.observe(*way, &ledger, (at, at), &snapshot, *idle);
            let got = seen.map(|seen| (seen.bytes, seen.duration.as_millis() as u64, seen.phase));
            assert_eq!(got, *want, "{name}");
        }
        drop(ticket);
    }

    #[test]
    fn a_response_begins_anew_although_the_former_is_not_acknowledged() {
        let ledger = Arc::new(Ledger::watched());
        let mut reporter = RouteReporter::new(0, &Snapshot::default());
        let mut look = |at: Instant, acked, idle| {
            let snapshot = Snapshot {
                acked,
                srtt: Duration::from_millis(50),
                ..Snapshot::default()
            };
            let seen = reporter.observe(0, &ledger, (at, at), &snapshot, idle);
            seen.map(|seen| (seen.bytes, seen.phase))
        };
        let open = || ledger.open(&Request::get("https://a.example/").body(()).unwrap());
        let first = open();
        let start = ledger.busy_since().unwrap();
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(look(at(1000), 9000, false), Some((9000, Phase::Startup)));
        // Written, and being sent still.
        drop(first);
        let second = open();
        assert_eq!(
            look(at(2000), 19_000, false),
            Some((10_000, Phase::Sustained))
        );
        drop(second);
        assert_eq!(look(at(2500), 24_000, true), Some((5000, Phase::Sustained)));
        let third = open();
        let later = ledger.busy_since().unwrap() + Duration::from_millis(300);
        drop(third);
        assert_eq!(look(later, 25_000, true), Some((1000, Phase::Startup)));
    }

    #[test]
    fn what_changes_its_way_at_its_begin_counts_whole() {
        // name, ms into the response, bytes of it that are acknowledged, counted
        let cases = [
            ("at once", 2, 0, true),
            ("something has come", 2, 1000, false),
            ("nothing came for long", 80, 0, false),
        ];
        for (name, ms, acked, counted) in cases {
            let ledger = Arc::new(Ledger::watched());
            let snapshot = |acked: u64| Snapshot {
                acked: 3000 + acked,
                srtt: Duration::from_millis(50),
                ..Snapshot::default()
            };
            let mut reporter = RouteReporter::new(0, &snapshot(0));
            let ticket = ledger.open(&Request::get("https://a.example/").body(()).unwrap());
            let start = ledger.busy_since().unwrap();
            let mut look = |ms, acked, idle| {
                let at = start + Duration::from_millis(ms);
                let seen = reporter.observe(1, &ledger, (at, at), &snapshot(acked), idle);
                seen.map(|seen| (seen.bytes, seen.duration.as_millis()))
            };
            assert_eq!(look(ms, acked, false), None, "{name}");
            drop(ticket);
            let seen = look(500, 1_000_000, true);
            assert_eq!(seen == Some((1_000_000, 500)), counted, "{name}: {seen:?}");
        }
    }

    #[test]
    fn a_short_response_is_observed_whole() {
        let ledger = Arc::new(Ledger::watched());
        let snapshot = |acked| Snapshot {
            acked,
            srtt: Duration::from_millis(50),
            ..Snapshot::default()
        };
        // By another way than plain from the first packet on, after a handshake of 3 kB.
        let mut reporter = RouteReporter::new(1, &snapshot(3000));
        let ticket = ledger.open(&Request::get("https://a.example/").body(()).unwrap());
        let start = ledger.busy_since().unwrap();
        drop(ticket);
        let end = start + Duration::from_millis(300);
        let seen = reporter.observe(1, &ledger, (end, end), &snapshot(1_003_000), true);
        let got = seen.map(|seen| (seen.bytes, seen.duration.as_millis(), seen.app_limited));
        assert_eq!(got, Some((1_000_000, 300, false)));
    }

    #[test]
    fn waiting_for_content_is_told() {
        let ledger = Arc::new(Ledger::watched());
        let mut reporter = RouteReporter::new(0, &Snapshot::default());
        let now = Instant::now();
        let mut look = |at: Instant, acked| {
            let snapshot = Snapshot {
                acked,
                ..Snapshot::default()
            };
            reporter.observe(0, &ledger, (at, at), &snapshot, true)
        };
        assert_eq!(look(now, 0), None);
        let mut ticket = ledger.open(&Request::get("https://a.example/").body(()).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        ticket.waits(false);
        drop(ticket);
        let seen = look(Instant::now(), 1000).unwrap();
        assert!(seen.app_limited, "{seen:?}");
    }
}
