//! From a transport's counters to what `core` learns from.

use std::time::{Duration, Instant};

use hikyaku_core::arm::Arm;
use hikyaku_core::sample::{Observation, Outcome, PathSample};

use super::{Exchange, Snapshot};

/// Fewest packets in a sample before the connection's end: less says little of loss.
const MIN_PACKETS: u64 = 10;
/// Shortest time between two samples of one connection.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// Makes observations of one connection.
#[derive(Debug)]
pub(crate) struct Reporter {
    arm: Arm,
    sampled: Snapshot,
    sampled_at: Instant,
    busy: Option<Busy>,
}

/// A time in which the connection always had a response under way: its responses share
/// the path, so only all of them together tell what the path does.
#[derive(Debug)]
struct Busy {
    since: Instant,
    until: Instant,
    bytes: u64,
    whole: bool,
}

impl Reporter {
    pub(crate) fn new(arm: Arm, now: Instant) -> Self {
        Self {
            arm,
            sampled: Snapshot::default(),
            sampled_at: now,
            busy: None,
        }
    }

    /// Takes note of an exchange that ended at `end`: acknowledged, or given up.
    pub(crate) fn on_exchange(&mut self, exchange: &Exchange, end: Instant, acknowledged: bool) {
        let busy = self.busy.get_or_insert(Busy {
            since: exchange.started,
            until: end,
            bytes: 0,
            whole: true,
        });
        busy.since = busy.since.min(exchange.started);
        busy.until = busy.until.max(end);
        busy.bytes += exchange.bytes;
        busy.whole &= acknowledged;
    }

    /// What there is to observe now; `idle` when no response is under way, `over` at the
    /// connection's end.
    pub(crate) fn observations(
        &mut self,
        now: Instant,
        snapshot: &Snapshot,
        idle: bool,
        over: bool,
    ) -> impl Iterator<Item = Observation> + use<> {
        let sample = self.sample(now, snapshot, idle || over);
        let outcome = if idle { self.outcome() } else { None };
        let sample = sample.map(Observation::Path);
        sample.into_iter().chain(outcome.map(Observation::Outcome))
    }

    fn sample(&mut self, now: Instant, snapshot: &Snapshot, last: bool) -> Option<PathSample> {
        let sent = snapshot.packets_sent - self.sampled.packets_sent.min(snapshot.packets_sent);
        let enough = sent >= MIN_PACKETS && now >= self.sampled_at + MIN_INTERVAL;
        if sent == 0 || !(enough || last && self.sampled == Snapshot::default()) {
            return None;
        }
        // Losses found to be spurious are taken back, perhaps in a later interval.
        let lost = snapshot
            .packets_lost
            .saturating_sub(self.sampled.packets_lost);
        let count = |packets: u64| u32::try_from(packets).unwrap_or(u32::MAX);
        self.sampled = *snapshot;
        self.sampled_at = now;
        Some(PathSample {
            version: self.arm.version,
            congestion: self.arm.congestion,
            packets_sent: count(sent),
            packets_lost: count(lost.min(sent)),
            min_rtt: snapshot.min_rtt,
            srtt: snapshot.srtt,
            delivery_rate: snapshot.delivery_rate,
            app_limited: snapshot.app_limited,
        })
    }

    fn outcome(&mut self) -> Option<Outcome> {
        let busy = self.busy.take()?;
        let duration = busy.until.saturating_duration_since(busy.since);
        (busy.whole && busy.bytes > 0 && !duration.is_zero()).then_some(Outcome {
            arm: self.arm,
            size: busy.bytes,
            duration,
            shared: false,
        })
    }
}
