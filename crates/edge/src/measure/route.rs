//! From a transport's counters to what `core` learns of egress routes.

use std::ops::Range;
use std::time::{Duration, Instant};

use hikyaku_core::egress::{Phase, RouteObservation};

use super::{Ledger, Snapshot};
use crate::conn::Conn;

/// A response that takes longer is observed in parts of at least this.
const PART: Duration = Duration::from_secs(1);
/// The share of the time of open requests without content to send, one in so many. Above it the goodput
/// is not the route's.
const STARVED: u32 = 20;

/// State of a connection as its meter sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RouteSample<'a> {
    pub(super) now: Instant,
    /// When the last acknowledgement came.
    pub(super) acked_at: Instant,
    pub(super) snapshot: &'a Snapshot,
    /// Nothing is under way.
    pub(super) idle: bool,
    /// When the oldest response was asked for that is written and not acknowledged.
    pub(super) awaited: Option<Instant>,
}

impl RouteSample<'_> {
    /// Nothing that is sent since then can be acknowledged yet.
    fn is_first_flight(&self, since: Instant) -> bool {
        self.now.saturating_duration_since(since) < self.snapshot.min_rtt
    }

    /// Whether the content requested since `begun` begins a part: all former content had arrived.
    fn begins_anew(&self, begun: Instant) -> bool {
        let delivered = self.awaited.is_none_or(|asked| asked >= begun);
        !self.idle && delivered && self.is_first_flight(begun)
    }

    /// The end of a part that the one since `next` follows, if there is one.
    fn end(&self, next: Option<Instant>) -> Instant {
        match next {
            Some(next) => self.acked_at.min(next),
            None if self.idle => self.acked_at,
            None => self.now,
        }
    }
}

/// Makes observations of the route that a connection's packets take. A busy time in which the route
/// changes says nothing, unless it has only just begun. The next begins a round trip later.
#[derive(Debug)]
pub(super) struct RouteReporter {
    /// Of the connection, when the part began.
    changes: u64,
    /// When all packets of the former route have been acknowledged.
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
    /// Of a connection that has sent no response yet, with its route's number of `changes` and its counters.
    pub(super) fn new(changes: u64, snapshot: &Snapshot) -> Self {
        Self {
            changes,
            settled: None,
            busy: None,
            part: Some(Part::begin(None, snapshot, Duration::ZERO)),
        }
    }

    /// Whether the connection's route is another one than at the last look.
    pub(super) fn is_moved(&self, conn: &Conn) -> bool {
        conn.route_changes() != self.changes
    }

    /// Takes what the meter sees.
    pub(super) fn look(&mut self, conn: &Conn, look: &RouteSample<'_>) {
        if conn.route().is_none() {
            return;
        }
        if let Some((seen, during)) = self.observe(conn.route_changes(), &conn.ledger, look) {
            conn.observe_route(&seen, &during);
        }
    }

    fn observe(
        &mut self,
        changes: u64,
        ledger: &Ledger,
        look: &RouteSample<'_>,
    ) -> Option<(RouteObservation, Range<Instant>)> {
        let begun = ledger.busy_since();
        if changes != self.changes {
            self.changes = changes;
            self.moved(begun, ledger.starved(), look);
            return None;
        }
        if self.settled.is_some_and(|settled| look.now < settled) {
            return None;
        }
        let busy = self.busy.or(begun);
        let begins = |since| Part::begin(since, look.snapshot, ledger.starved());
        let Some(part) = &mut self.part else {
            // Not of a busy time that began by another route.
            self.busy = busy.filter(|_| !look.idle);
            self.part = Some(begins((!look.idle).then_some(look.now)));
            return None;
        };
        let since = *part.since.get_or_insert(begun?);
        let part = *part;
        // A request that came when all former content had arrived begins anew.
        let next = begun.filter(|begun| *begun > since && look.begins_anew(*begun));
        let until = look.end(next);
        let duration = until.saturating_duration_since(since);
        if !look.idle && next.is_none() {
            self.busy = busy;
            if duration < PART {
                return None;
            }
        } else {
            self.busy = next;
        }
        self.part = Some(begins(next.or((!look.idle).then_some(look.now))));
        let phase = phase(since.saturating_duration_since(busy?))?;
        let starved = ledger.starved().saturating_sub(part.starved);
        let seen = part.observed(look.snapshot, (duration, starved), phase)?;
        Some((seen, since..until))
    }

    /// The connection takes another route. The content requested since `begun` counts whole if nothing
    /// of it can have been acknowledged.
    fn moved(&mut self, begun: Option<Instant>, starved: Duration, look: &RouteSample<'_>) {
        let begins = |since| Some(Part::begin(since, look.snapshot, starved));
        let since = self.part.and_then(|part| part.since);
        let from_begin = begun.filter(|begun| {
            let was_idle = self.busy.is_none() && since.is_none() || since == Some(*begun);
            was_idle && look.is_first_flight(*begun)
        });
        (self.part, self.busy, self.settled) = if look.idle {
            (begins(None), None, None)
        } else if from_begin.is_some() {
            (begins(from_begin), from_begin, None)
        } else {
            (
                None,
                self.busy.or(begun),
                Some(look.now + look.snapshot.srtt),
            )
        };
    }
}

/// The phase of a part that begins so long after its content was requested. `None` where the part has
/// missed the beginning of the first phase.
fn phase(into: Duration) -> Option<Phase> {
    match into {
        Duration::ZERO => Some(Phase::Startup),
        into if into >= PART => Some(Phase::Sustained),
        _ => None,
    }
}

impl Part {
    fn observed(
        &self,
        now: &Snapshot,
        (duration, starved): (Duration, Duration),
        phase: Phase,
    ) -> Option<RouteObservation> {
        let sent = now.packets_sent.saturating_sub(self.sent);
        let lost = now.packets_lost.saturating_sub(self.lost).min(sent);
        let count = |packets: u64| u32::try_from(packets).unwrap_or(u32::MAX);
        let bytes = now.acked.saturating_sub(self.acked);
        (bytes > 0 && !duration.is_zero()).then(|| RouteObservation {
            bytes,
            duration,
            phase,
            app_limited: starved > duration / STARVED,
            rtt: (!now.srtt.is_zero()).then_some(now.srtt),
            packets_sent: count(sent),
            packets_lost: count(lost),
            stalled: Duration::ZERO,
        })
    }
}

#[cfg(test)]
mod tests;
