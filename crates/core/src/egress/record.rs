//! The record that is kept for a client, a prefix or an AS.

use std::sync::LazyLock;
use std::time::Duration;

use super::decline::Decline;
use super::{Candidates, Carrier, EgressId, Phase, RouteObservation, Wants};
use crate::client::estimate::LossCount;
use crate::stat::{Stat, faded};
use hikyaku_units::Secs;

/// The knowledge of one carrier for a client, a prefix or an AS, in 104 bytes.
///
/// For a client goodput and RTT are as they are (natural logarithms of bit/s and of seconds). For
/// prefixes and ASes they are differences between carriers, since clients have access lines of all
/// sorts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CarrierStats {
    pub(super) carrier: Carrier,
    /// Stalls in a row, of which each doubled the time that it is avoided.
    pub(super) strikes: u8,
    /// Whose stall it is avoided for. For a client it is its own.
    pub(super) stalled_by: StalledBy,
    /// Time that the counts are faded to: that of the last observation.
    pub(super) at: Secs,
    /// By [`Phase`].
    pub(super) goodput: [Stat; Phase::ALL.len()],
    /// Of a client's own goodput; not stored.
    pub(super) decline: Decline,
    /// When the client's goodput was last seen to have fallen; not stored.
    pub(super) declined_at: Secs,
    pub(super) rtt: Stat,
    pub(super) loss: LossCount,
    pub(super) stalls: StallCount,
    pub(super) avoided_until: Secs,
    /// When the last one of those stalled that it is avoided for; not stored.
    pub(super) stalled_at: Secs,
}

/// Stalls and the time in which they were seen, faded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct StallCount {
    pub(super) stalls: f32,
    /// Seconds of them.
    pub(super) stalled: f32,
    /// Seconds of sending.
    pub(super) observed: f32,
}

impl StallCount {
    fn fade(&mut self, share: f32) {
        self.stalls *= share;
        self.stalled *= share;
        self.observed *= share;
    }

    /// The stalls of both counts together; the time of `other` counts as at most `max_secs`.
    pub(super) fn joined(&self, other: &Self, max_secs: f32) -> Self {
        let share = if other.observed > max_secs {
            max_secs / other.observed
        } else {
            1.0
        };
        Self {
            stalls: self.stalls + share * other.stalls,
            stalled: self.stalled + share * other.stalled,
            observed: self.observed + share * other.observed,
        }
    }
}

/// The client whose stall a carrier is avoided for: by itself alone, since it may be its own trouble, until
/// a second one stalls, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StalledBy(pub(super) u16);

impl StalledBy {
    pub(super) const SEVERAL: Self = Self(u16::MAX);

    /// `client` is its number.
    pub(super) const fn client(client: u64) -> Self {
        Self((client % u16::MAX as u64) as u16)
    }
}

impl CarrierStats {
    pub(super) fn none(carrier: Carrier) -> Self {
        Self {
            carrier,
            strikes: 0,
            stalled_by: StalledBy::default(),
            at: Secs::default(),
            goodput: Default::default(),
            decline: Decline::default(),
            declined_at: Secs::default(),
            rtt: Stat::default(),
            loss: LossCount::default(),
            stalls: StallCount::default(),
            avoided_until: Secs::default(),
            stalled_at: Secs::default(),
        }
    }

    /// Time of the last observation; `None` before the first.
    pub(super) fn last_seen(&self) -> Option<Secs> {
        (self.at != Secs::default()).then_some(self.at)
    }

    /// For how long the client's goodput has been seen to be less than before.
    pub(super) fn declined(&self, now: Secs) -> Option<Duration> {
        (self.declined_at != Secs::default()).then(|| now.since(self.declined_at))
    }

    /// Whether the client's goodput fell so short a time ago that the next step of a decay may follow.
    pub(super) fn is_unsteady(&self, now: Secs) -> bool {
        self.declined(now).is_some_and(|since| since <= UNSTEADY)
    }

    /// Until when it says anything that is not faded.
    pub(super) fn last(&self) -> Secs {
        self.at.max(self.avoided_until)
    }

    /// Brings all counts to `now`.
    pub(super) fn fade_to(&mut self, now: Secs, half_life: Duration) {
        let elapsed = now.since(self.at);
        if !elapsed.is_zero() {
            let share = faded(elapsed.as_secs_f32(), half_life.as_secs_f32());
            for goodput in &mut self.goodput {
                goodput.fade(share);
            }
            self.rtt.fade(share);
            self.loss.fade(share);
            self.stalls.fade(share);
        }
        self.at = self.at.max(now);
    }

    /// Counts the quantities that need no comparison between carriers.
    pub(super) fn count(&mut self, seen: &RouteObservation) {
        self.loss.add(seen.packets_sent, seen.packets_lost);
        self.stalls.stalled += seen.stalled.as_secs_f32();
        self.stalls.observed += seen.duration.as_secs_f32();
    }

    /// For how much longer it is avoided for stalls of `who`; `None` where it is not.
    pub(super) fn avoided_for(&self, who: StalledBy, now: Secs) -> Option<Duration> {
        let avoided = self.avoided_until > now && self.stalled_by == who;
        avoided.then(|| self.avoided_until.since(now))
    }

    /// Avoids it, at first for `least`. Each stall that comes before the route has gone well for as
    /// long as it was avoided doubles that time, up to `most`. Returns whether it was not avoided
    /// before.
    pub(super) fn avoid(
        &mut self,
        client: StalledBy,
        now: Secs,
        [least, most]: [Duration; 2],
    ) -> bool {
        if self.avoided_until > now {
            // The same failure, as another connection or another client has met it.
            if self.stalled_by != client {
                self.stalled_by = StalledBy::SEVERAL;
                self.stalled_at = now;
            }
            return false;
        }
        let hold = |strikes: u8| {
            let doubled = 1u32.checked_shl(u32::from(strikes).saturating_sub(1));
            least.saturating_mul(doubled.unwrap_or(u32::MAX)).min(most)
        };
        let again = now <= self.avoided_until.saturating_add(hold(self.strikes));
        self.strikes = if again {
            self.strikes.saturating_add(1)
        } else {
            1
        };
        self.avoided_until = now.saturating_add(hold(self.strikes));
        (self.stalled_by, self.stalled_at) = (client, now);
        true
    }

    /// Takes it back that it is avoided for a stall of `client`'s alone.
    pub(super) fn absolve(&mut self, client: StalledBy) {
        if self.stalled_by == client {
            self.avoided_until = Secs::default();
            self.strikes = 0;
        }
    }

    /// Takes it back that it is avoided for stalls of several clients, since it has delivered to one of
    /// them or to another. Acknowledgements that come soon after a stall may be older.
    pub(super) fn delivered(&mut self, now: Secs) {
        if now.since(self.stalled_at) > UNDER_WAY {
            self.absolve(StalledBy::SEVERAL);
        }
    }
}

/// For how long acknowledgements may be under way. Times are kept in seconds.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// For how long after a fall of goodput the next one may follow.
const UNSTEADY: Duration = Duration::from_secs(600);

/// The routes that a client is kept on by a criterion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// The egress route that it is steered onto.
    pub(super) egress: Option<EgressId>,
    /// Whether several are used together by those who can.
    pub(super) aggregated: bool,
}

/// The knowledge of a client, a prefix or an AS.
///
/// Avoided routes are kept for clients, and for prefixes where several stall. For clients, the routes
/// that they keep to are kept, too, and whether stalls are their own.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// The carriers, in no order.
    carriers: Vec<CarrierStats>,
    pub(super) kept: [Kept; Wants::KEPT],
    /// Until then stalls are the client's own.
    pub(super) blameless_until: Secs,
}

impl Record {
    /// The knowledge of a carrier, faded to `now`; made if need be.
    pub(super) fn carrier(
        &mut self,
        carrier: Carrier,
        now: Secs,
        half_life: Duration,
    ) -> &mut CarrierStats {
        let known = self
            .carriers
            .iter()
            .position(|stats| stats.carrier == carrier);
        let place = known.unwrap_or_else(|| {
            // Most prefixes see two or three: no room for those that never come.
            self.carriers.reserve_exact(1);
            self.carriers.push(CarrierStats::none(carrier));
            self.carriers.len() - 1
        });
        let stats = &mut self.carriers[place];
        stats.fade_to(now, half_life);
        stats
    }

    /// Counts the goodputs of the other carriers as one sample at most: they are older than a change.
    pub(super) fn doubt_others(&mut self, carrier: Carrier) {
        let others = self.carriers.iter_mut();
        for stats in others.filter(|stats| stats.carrier != carrier) {
            for goodput in &mut stats.goodput {
                goodput.weight = goodput.weight.min(1.0);
            }
        }
    }

    /// Takes it back that these routes are avoided for a stall of `client`'s alone.
    pub(super) fn absolve(&mut self, candidates: &Candidates, client: StalledBy) {
        for stats in self.singles_mut(candidates) {
            stats.absolve(client);
        }
    }

    /// Takes the last stall of each of these routes back.
    pub(super) fn uncount_stalls(
        &mut self,
        candidates: &Candidates,
        now: Secs,
        half_life: Duration,
    ) {
        for stats in self.singles_mut(candidates) {
            stats.fade_to(now, half_life);
            stats.stalls.stalls = (stats.stalls.stalls - 1.0).max(0.0);
        }
    }

    fn singles_mut(&mut self, candidates: &Candidates) -> impl Iterator<Item = &mut CarrierStats> {
        let candidates = *candidates;
        self.carriers.iter_mut().filter(move |stats| {
            let mut singles = candidates.singles().iter();
            singles.any(|route| route.carrier(candidates.plain_is) == stats.carrier)
        })
    }

    /// Forgets a carrier, and that it is kept. Returns whether anything was.
    pub(super) fn forget(&mut self, egress: EgressId) -> bool {
        let known = self.egresses().any(|other| other == egress);
        self.carriers
            .retain(|stats| stats.carrier != Carrier::egress(egress));
        for kept in &mut self.kept {
            kept.egress = kept.egress.filter(|kept| *kept != egress);
        }
        known
    }

    /// The carriers of which something is known.
    pub(super) fn carriers(&self) -> &[CarrierStats] {
        &self.carriers
    }

    /// The egress routes of which something is known or which are kept to.
    pub(super) fn egresses(&self) -> impl Iterator<Item = EgressId> {
        let carriers = self.carriers.iter();
        let known = carriers.filter_map(|stats| stats.carrier.as_egress());
        known.chain(self.kept.iter().filter_map(|kept| kept.egress))
    }

    /// Takes knowledge of a carrier, unless there is some already.
    pub(super) fn put(&mut self, stats: CarrierStats) {
        let mut known = self.carriers.iter();
        if !known.any(|known| known.carrier == stats.carrier) {
            self.carriers.reserve_exact(1);
            self.carriers.push(stats);
        }
    }

    /// Time of the last observation.
    pub(super) fn newest(&self) -> Option<Secs> {
        self.carriers.iter().map(|stats| stats.at).max()
    }

    /// All carriers, faded to `now`.
    pub(super) fn snapshot(&self, now: Secs, half_life: Duration) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for stats in &self.carriers {
            let mut stats = *stats;
            let at = stats.at;
            stats.fade_to(now, half_life);
            stats.at = at;
            snapshot.0[stats.carrier.index()] = stats;
        }
        snapshot
    }

    /// Whether a client avoids each of the single routes that it may get, for stalls of its own.
    pub(super) fn all_avoided(
        &self,
        candidates: &Candidates,
        client: StalledBy,
        now: Secs,
    ) -> bool {
        candidates.singles().iter().all(|route| {
            let carrier = route.carrier(candidates.plain_is);
            let of = |stats: &&CarrierStats| stats.carrier == carrier;
            let stats = self.carriers.iter().find(of);
            stats.is_some_and(|stats| stats.avoided_for(client, now).is_some())
        })
    }
}

/// The knowledge of all carriers for a client, a prefix or an AS at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshot(pub(super) [CarrierStats; Carrier::COUNT]);

impl Default for Snapshot {
    fn default() -> Self {
        // Each look at a client needs it, and a copy takes less time than making it.
        static NONE: LazyLock<Snapshot> = LazyLock::new(|| {
            Snapshot(std::array::from_fn(|place| {
                CarrierStats::none(Carrier(place as u8))
            }))
        });
        *NONE
    }
}

#[cfg(test)]
mod tests {
    use super::{CarrierStats, Record};

    #[test]
    fn records_are_small() {
        let sizes = [size_of::<CarrierStats>(), size_of::<Record>()];
        assert!(sizes[0] <= 104 && sizes[1] <= 40, "{sizes:?} bytes");
    }
}
