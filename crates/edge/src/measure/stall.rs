//! Noticing that a path carries nothing any more.
//!
//! A sender's own timers wait for long. A retransmission timeout waits for 200 ms at least, and a tail
//! loss probe for two round trips (RFC 8985 §7.2). QUIC's probe timeout counts from its *last* packet
//! on, and adds the longest delay of an acknowledgement (RFC 9002 §6.2.1). They have to wait, since
//! their action is costly when they are wrong, and since they know one packet only. Here packets are
//! looked at together. A silence is a stall when both of these hold:
//!
//! - Nothing was acknowledged for a third of srtt within [`MIN_PATIENCE`] and [`PAUSE`], or for half of
//!   the time that packets wait in queues. Where an alarm costs more, the silence has to be longer.
//! - Several packets are overdue, each counted from its own sending: by srtt + max(4 rttvar, patience).
//!   One packet lost at the end of a response is no stall.
//!
//! Two cases need more overdue packets, or later ones:
//!
//! - Receivers acknowledge every second packet at once (RFC 9000 §13.2.2, RFC 5681 §4.2), or every
//!   tenth, which shows in srtt and rttvar here. Where fewer than [`AT_ONCE`] packets are overdue, the
//!   longest delay of an acknowledgement is waited for, too.
//! - While losses are repaired, half of the packets in flight have to be overdue. A queue that
//!   overflowed took the last packets, too. Nobody notices that before the retransmissions are
//!   acknowledged, a round trip later: until then all is silent.
//!
//! A sender without data is never stalled, as none of its packets is overdue. Packets under way at an
//! alarm are given up. A further alarm takes packets that were sent after it: the next path was tried
//! with them, and they are given [`MAX_PATIENCE`]. So are the first packets over any path that is new to
//! the connection.
//!
//! A silence that ends by itself was a false alarm. It raises the patience for a while: links that pause
//! now and then have one alarm in ten seconds. On TCP a false alarm may show later. More is acknowledged
//! than was sent since the alarm. Or the other path's acknowledgements came first, and the sender takes
//! packets that are still on the former path for lost. When it has sent them again, the receiver reports
//! that they had come (RFC 2883).

mod alarm;
mod log;
mod paths;
mod signal;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use crate::transport::{Flight, Stall};
use alarm::Alarm;
use log::Log;
use paths::Paths;
pub(crate) use signal::Signal;

/// Silence that is nothing at first: schedulers, aggregation on radio links.
const MIN_PATIENCE: Duration = Duration::from_millis(7);
/// A third of srtt is nothing, either, up to this. A path that is left for a moment only gets its
/// packets late and out of order. That cost transfers 4 to 17 % of their goodput. With more than this the
/// gap of a black hole would exceed two round trips and 20 ms.
const PAUSE: Duration = Duration::from_millis(14);
/// Part of the time for which packets wait in queues, one in so many, that is nothing. A path that is
/// left has its whole queue sent again. The packets that the other path delivers first make the queue
/// pass for lost (RFC 9002 §6.1.1). Waiting for so long costs half of that.
const QUEUE_DIVISOR: u32 = 2;
/// Silence that is never nothing; other timers have acted by then.
const MAX_PATIENCE: Duration = Duration::from_millis(200);
/// For how long a false alarm counts.
const PATIENCE_LIFE: Duration = Duration::from_secs(10);
/// Overdue packets that were to be acknowledged at once,
const AT_ONCE: u64 = 4;
/// and those that may have waited for more.
const DELAYED: u64 = 2;
/// Part of a round-trip time without queues, one in so many, that is too short for a round trip over
/// another path. It is so unless that path is four times shorter. For two round trips it is so unless
/// the path is eight times shorter.
const SOON_DIVISOR: u32 = 4;
/// For so long after an alarm senders are busy with what it took.
const RECOVERY: Duration = Duration::from_secs(1);
/// The time between two alarms of one silence doubles so often.
const MAX_DOUBLINGS: u32 = 4;
/// Between looks in a silence that is longer than that.
const SILENT_INTERVAL: Duration = Duration::from_millis(1);
/// A look that comes so much later than the last one shows that this machine is busy, and that
/// acknowledgements may wait to be read.
const TARDY: Duration = Duration::from_millis(12);
/// Between looks: a quarter of a round trip within these. It is the shorter one for [`MAX_PATIENCE`]
/// after an alarm, and while acknowledgements show whether the alarm was a false one. For longer it
/// would cost much where many paths fail at once.
const INTERVAL: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(5)];
/// The same when nothing was in flight for a while:
const IDLE_INTERVAL: Duration = Duration::from_millis(50);
/// longer than media wait for their next frames.
const IDLE: Duration = Duration::from_millis(250);

/// Watches the acknowledgements of one connection.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Longest delay of an acknowledgement that waits for a further packet.
    ack_delay: Duration,
    /// Silence that is nothing where there was no false alarm.
    least: Duration,
    log: Log,
    paths: Paths,
    acked: u64,
    /// When something was last acknowledged, or there was nothing to acknowledge.
    progress: Instant,
    looked: Instant,
    /// When something was last in flight.
    active: Instant,
    /// Silence that is nothing over a short path, and since when it is longer than at first.
    patience: (Duration, Instant),
    given_up: Option<GivenUp>,
    alarm: Option<Alarm>,
    /// The last alarm, while it may turn out that it was a false one; and how long the silence was.
    doubtful: Option<(Alarm, Duration)>,
}

/// The counters at the last alarm. Packets that were under way then are lost. They are sent again, which
/// counts as sent since, or never acknowledged.
#[derive(Clone, Copy, Debug)]
struct GivenUp {
    at: Instant,
    sent: u64,
    acked: u64,
}

impl Watch {
    /// Of a connection whose receiver delays acknowledgements by `ack_delay` at most.
    pub(crate) fn new(now: Instant, ack_delay: Duration) -> Self {
        Self {
            ack_delay,
            least: MIN_PATIENCE,
            log: Log::default(),
            paths: Paths::default(),
            acked: 0,
            progress: now,
            looked: now,
            active: now,
            patience: (MIN_PATIENCE, now),
            given_up: None,
            alarm: None,
            doubtful: None,
        }
    }

    /// Nothing is under way for a while. The round-trip times of paths and the patience after false
    /// alarms stay: the next response may take another path.
    pub(crate) fn rest(&mut self, now: Instant) {
        *self = Self {
            least: self.least,
            paths: std::mem::take(&mut self.paths),
            patience: self.patience,
            ..Self::new(now, self.ack_delay)
        };
    }

    /// The same with more patience at first.
    pub(crate) fn with_patience(mut self, least: Duration) -> Self {
        self.least = least;
        self.patience.0 = least;
        self
    }

    /// Takes note of the packets under way at `now`.
    pub(crate) fn look(&mut self, now: Instant, flight: &Flight) -> Option<Signal> {
        if now.saturating_duration_since(self.patience.1) > PATIENCE_LIFE {
            self.patience.0 = self.least;
        }
        self.paths.look(flight);
        // By then lost packets were sent again, and counters may have drifted apart.
        let is_over = |given_up: &GivenUp| {
            self.alarm.is_none() && now.saturating_duration_since(given_up.at) > RECOVERY
        };
        if self.given_up.as_ref().is_some_and(is_over) {
            self.given_up = None;
        }
        let signal = if flight.acked != self.acked {
            self.acked = flight.acked;
            self.resume(now, flight)
        } else if flight.in_flight == 0 {
            self.progress = now;
            self.given_up = None;
            None
        } else {
            self.judge(now, flight)
        };
        if let Some(alarm) = &mut self.alarm {
            alarm.silent = (now, flight.sent);
        }
        let signal = signal.or_else(|| self.reconsider(now, flight));
        let back = self.late(flight) + self.ack_delay;
        self.log.remember(now, flight, back);
        self.looked = now;
        if flight.in_flight > 0 {
            self.active = now;
        }
        signal
    }

    /// When to look again.
    pub(crate) fn next(&self, flight: &Flight) -> Instant {
        if self.looked.saturating_duration_since(self.active) > IDLE {
            return self.looked + IDLE_INTERVAL;
        }
        let [shortest, longest] = INTERVAL;
        let regular = self.looked + (flight.srtt / 4).clamp(shortest, longest);
        let is_new = |alarm: Alarm| self.looked < alarm.raised + MAX_PATIENCE;
        let shows = |(alarm, _): (Alarm, Duration)| self.looked < alarm.silent.0 + alarm.soon;
        if self.alarm.is_some_and(is_new) || self.doubtful.is_some_and(shows) {
            return self.looked + shortest;
        }
        let due = self.progress + self.patience(flight);
        match self.alarm {
            None if flight.in_flight > 0 => regular.min(due.max(self.looked + SILENT_INTERVAL)),
            _ => regular,
        }
    }

    fn resume(&mut self, now: Instant, flight: &Flight) -> Option<Signal> {
        // It was not before the last look.
        let at = flight.acked_at.unwrap_or(now).clamp(self.looked, now);
        // Too soon for packets that were sent because of an alarm, unless by a far shorter path.
        let of_former = |alarm: &Alarm| at < alarm.raised + 3 * alarm.soon;
        if let Some(alarm) = self.alarm.filter(of_former) {
            let acked = flight.acked.saturating_sub(alarm.acked);
            if acked < AT_ONCE * flight.packet && flight.in_flight > 0 {
                // The receiver had held it back until more would come.
                return None;
            }
        }
        let since = std::mem::replace(&mut self.progress, at);
        let alarm = self.alarm.take()?;
        let silent = at.saturating_duration_since(since);
        let false_alarm = alarm.was_false(at, flight);
        if of_former(&alarm) {
            self.given_up = None;
        }
        if of_former(&alarm) || false_alarm {
            self.be_patient(now, silent);
        }
        self.doubtful = (!false_alarm).then_some((alarm, silent));
        Some(Signal::Resumed {
            silent,
            false_alarm,
        })
    }

    /// Looks whether the last alarm was a false one after all.
    fn reconsider(&mut self, now: Instant, flight: &Flight) -> Option<Signal> {
        let (alarm, silent) = self.doubtful?;
        if self.alarm.is_some() || now.saturating_duration_since(alarm.raised) > RECOVERY {
            self.doubtful = None;
            return None;
        }
        if !alarm.was_needless(flight) && !alarm.is_outrun(now, flight) {
            return None;
        }
        self.doubtful = None;
        self.be_patient(now, silent);
        Some(Signal::Delivered)
    }

    /// After a false alarm. A first short one hardly cost anything, and a black hole that follows should
    /// not be noticed much later for it.
    fn be_patient(&mut self, now: Instant, silent: Duration) {
        let first = self.patience.0 == self.least;
        let factor = if first && silent <= PAUSE { 1 } else { 2 };
        self.patience = ((factor * silent).clamp(self.least, MAX_PATIENCE), now);
    }

    fn judge(&mut self, now: Instant, flight: &Flight) -> Option<Signal> {
        let silent = now.saturating_duration_since(self.progress);
        let tardy = now.saturating_duration_since(self.looked) > TARDY;
        if silent < self.patience(flight)
            || tardy
            || self.alarm.is_some_and(|alarm| now < alarm.again)
        {
            return None;
        }
        let late = self.late(flight);
        let unrepaired = self.unrepaired(flight);
        let mut overdue = self.overdue(now, late, flight);
        if overdue < AT_ONCE.max(unrepaired) {
            overdue = self.overdue(now, late + self.ack_delay, flight);
            if overdue < DELAYED.max(unrepaired) {
                return None;
            }
        }
        let alarm = self.alarm.unwrap_or_else(|| {
            let soon = (flight.srtt - self.paths.queueing(flight)) / SOON_DIVISOR;
            Alarm::raise(now, soon, self.acked, flight)
        });
        self.given_up = Some(GivenUp {
            at: now,
            sent: flight.sent,
            acked: flight.acked,
        });
        self.alarm = Some(Alarm {
            again: now + late * 2_u32.pow(alarm.times.min(MAX_DOUBLINGS)),
            times: alarm.times + 1,
            ..alarm
        });
        Some(Signal::Stalled(Stall {
            since: self.progress,
            in_flight: flight.packets_in_flight(),
            overdue,
            srtt: flight.srtt,
        }))
    }

    /// Packets that may be overdue since losses are not repaired yet. After an alarm the packets in
    /// flight show nothing: most of them are given up.
    fn unrepaired(&self, flight: &Flight) -> u64 {
        match self.given_up {
            None if flight.repairing => flight.packets_in_flight() / 2,
            _ => 0,
        }
    }

    /// Silence that is nothing now.
    fn patience(&self, flight: &Flight) -> Duration {
        let of_path = (flight.srtt / 3).min(PAUSE);
        let of_queue = (self.paths.queueing(flight) / QUEUE_DIVISOR).min(MAX_PATIENCE);
        self.patience.0.max(of_path).max(of_queue)
    }

    /// Time after which a packet that was sent so long ago is overdue.
    fn late(&self, flight: &Flight) -> Duration {
        match self.paths.rtt(flight) {
            Some(rtt) if self.alarm.is_none() => rtt + self.patience(flight).max(4 * flight.rttvar),
            // Over a path that may be longer, and may have been taken late.
            _ => 2 * flight.srtt + MAX_PATIENCE,
        }
    }

    /// Packets in flight that were sent `late` ago or before, and not given up.
    fn overdue(&self, now: Instant, late: Duration, flight: &Flight) -> u64 {
        let until = now
            .checked_sub(late)
            .map_or(0, |then| self.log.sent_until(then));
        let recent = flight.sent.saturating_sub(until);
        let old = flight.in_flight.saturating_sub(recent);
        let since = |given_up: GivenUp| {
            let acked = flight.acked.saturating_sub(given_up.acked);
            until.saturating_sub(given_up.sent).saturating_sub(acked)
        };
        self.given_up
            .map_or(old, |given_up| old.min(since(given_up)))
            / flight.packet.max(1)
    }
}
