//! From a transport's counters to what `core` learns from.

use std::ops::Range;
use std::time::{Duration, Instant};

use hikyaku_core::client::sample::{Observation, Outcome, TransportSample};
use hikyaku_units::Rate;
use hikyaku_units::arm::{Arm, Congestion};
use http::Method;

use super::{Exchange, Snapshot};

/// Fewest packets in a sample before the connection's end: less says little of loss.
const MIN_PACKETS: u64 = 10;
/// Shortest time between two samples of one connection.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// Makes observations of one connection.
#[derive(Debug)]
pub(crate) struct Reporter {
    arm: Arm,
    /// When its congestion control changed last.
    switched_at: Option<Instant>,
    sampled: Snapshot,
    sampled_at: Instant,
    /// See [`Reporter::keep_best_rate`]: since the last sample, and in the interval before.
    best_rates: [Option<(Rate, bool)>; 2],
    busy: Option<Busy>,
    /// Responses may have come one after the other in what looks like one busy period.
    blurred: bool,
}

/// A busy period of the connection. Its responses share the client path, so only all of them together
/// show how that performs.
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
            switched_at: None,
            sampled: Snapshot::default(),
            sampled_at: now,
            best_rates: [None; 2],
            busy: None,
            blurred: false,
        }
    }

    /// Takes note that the connection has another congestion control from `at` on. The time of responses
    /// that were under way then says nothing of either control.
    pub(crate) fn switched(&mut self, congestion: Congestion, at: Instant) {
        self.arm.congestion = congestion;
        self.switched_at = Some(at);
        if let Some(busy) = &mut self.busy {
            busy.whole = false;
        }
    }

    /// Replaces the newest delivery rate by the highest of this and the last sample's interval.
    ///
    /// The newest says little at the end of a response, when only a few packets or a retransmission are
    /// left. It may be 0.5 Mbit/s on a client path of 200 Mbit/s. An interval can consist of such an end. A maximum over two
    /// probing cycles is also BBR's measure of a path's bandwidth (`BBR.MaxBwFilter` of
    /// draft-ietf-ccwg-bbr).
    pub(crate) fn keep_best_rate(&mut self, snapshot: &mut Snapshot) {
        let newest = snapshot
            .delivery_rate
            .map(|rate| (rate, snapshot.app_limited));
        self.best_rates[0] = higher(self.best_rates[0], newest);
        if let Some((rate, app_limited)) = higher(self.best_rates[0], self.best_rates[1]) {
            snapshot.delivery_rate = Some(rate);
            snapshot.app_limited = app_limited;
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
        // The bytes of a tunnel wait for no path.
        let is_response = exchange.method != Method::CONNECT;
        busy.whole &=
            is_response && acknowledged && self.switched_at.is_none_or(|at| at <= exchange.started);
    }

    /// Takes note that the responses under way cannot be distinguished from those before, so that the
    /// time of all of them says nothing.
    pub(crate) fn blur(&mut self) {
        self.blurred = true;
    }

    /// Observations that there are now, each with the time that it is of; `idle` when no response is
    /// under way, `over` at the connection's end.
    pub(crate) fn observations(
        &mut self,
        now: Instant,
        snapshot: &Snapshot,
        idle: bool,
        over: bool,
    ) -> impl Iterator<Item = (Observation, Range<Instant>)> + use<> {
        // A short connection gives one sample, however small.
        let last = over || idle && self.sampled == Snapshot::default();
        let during = self.sampled_at..now;
        let sample = self.sample(now, snapshot, last);
        let sample = sample.map(|sample| (Observation::Path(sample), during));
        let outcome = if idle { self.outcome() } else { None };
        let outcome = outcome.map(|(outcome, during)| (Observation::Outcome(outcome), during));
        sample.into_iter().chain(outcome)
    }

    fn sample(&mut self, now: Instant, snapshot: &Snapshot, last: bool) -> Option<TransportSample> {
        let sent = snapshot.packets_sent - self.sampled.packets_sent.min(snapshot.packets_sent);
        let enough = sent >= MIN_PACKETS && now >= self.sampled_at + MIN_INTERVAL;
        if sent == 0 || !(enough || last) {
            return None;
        }
        // Losses found to be spurious are taken back, perhaps in a later interval.
        let lost = snapshot
            .packets_lost
            .saturating_sub(self.sampled.packets_lost);
        let count = |packets: u64| u32::try_from(packets).unwrap_or(u32::MAX);
        self.sampled = *snapshot;
        self.sampled_at = now;
        self.best_rates = [None, self.best_rates[0]];
        Some(TransportSample {
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

    fn outcome(&mut self) -> Option<(Outcome, Range<Instant>)> {
        let blurred = std::mem::take(&mut self.blurred);
        let busy = self.busy.take()?;
        let duration = busy.until.saturating_duration_since(busy.since);
        let outcome = Outcome {
            arm: self.arm,
            size: busy.bytes,
            duration,
            shared: false,
        };
        let says = busy.whole && !blurred && busy.bytes > 0 && !duration.is_zero();
        says.then_some((outcome, busy.since..busy.until))
    }
}

fn higher(one: Option<(Rate, bool)>, other: Option<(Rate, bool)>) -> Option<(Rate, bool)> {
    let rate = |sample: Option<(Rate, bool)>| sample.map(|(rate, _)| rate);
    if rate(other) > rate(one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use hikyaku_units::arm::Version;
    use http::Request;

    use super::*;

    fn reporter(start: Instant) -> Reporter {
        Reporter::new(Arm::new(Version::H2, Congestion::Cubic), start)
    }

    fn snapshot(sent: u64, lost: u64) -> Snapshot {
        Snapshot {
            packets_sent: sent,
            packets_lost: lost,
            min_rtt: Duration::from_millis(20),
            ..Snapshot::default()
        }
    }

    fn samples(
        observations: impl Iterator<Item = (Observation, Range<Instant>)>,
    ) -> Vec<(u32, u32)> {
        observations
            .filter_map(|(observation, _)| match observation {
                Observation::Path(sample) => Some((sample.packets_sent, sample.packets_lost)),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn samples_are_the_differences_of_counters() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        // name, [(at ms, sent, lost, over)], samples (sent, lost)
        type Case = (
            &'static str,
            &'static [(u64, u64, u64, bool)],
            &'static [(u32, u32)],
        );
        let cases: &[Case] = &[
            ("nothing sent", &[(100, 0, 0, true)], &[]),
            ("too few", &[(100, 9, 0, false)], &[]),
            ("too few, but the last", &[(100, 9, 1, true)], &[(9, 1)]),
            ("too soon", &[(10, 50, 0, false)], &[]),
            (
                "two intervals",
                &[(100, 50, 2, false), (200, 80, 3, false)],
                &[(50, 2), (30, 1)],
            ),
            (
                "a loss found spurious",
                &[(100, 50, 2, false), (200, 80, 1, false)],
                &[(50, 2), (30, 0)],
            ),
            (
                "the rest at the end",
                &[(100, 50, 0, false), (110, 53, 1, true)],
                &[(50, 0), (3, 1)],
            ),
        ];
        for (name, looks, want) in cases {
            let mut reporter = reporter(start);
            let mut got = Vec::new();
            for &(ms, sent, lost, over) in *looks {
                let observed = reporter.observations(at(ms), &snapshot(sent, lost), over, over);
                got.extend(samples(observed));
            }
            assert_eq!(got, *want, "{name}");
        }
    }

    #[test]
    fn a_sample_has_the_highest_rate_of_two_intervals() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut reporter = reporter(start);
        let mut look = |sent, delivery_rate, app_limited| {
            let mut snapshot = Snapshot {
                delivery_rate,
                app_limited,
                ..snapshot(sent, 0)
            };
            reporter.keep_best_rate(&mut snapshot);
            let observed = reporter.observations(at(sent), &snapshot, false, false);
            let kept = (snapshot.delivery_rate, snapshot.app_limited);
            (kept, samples(observed).len())
        };
        let rate = |mbps| Some(Rate::from_mbps(mbps));
        assert_eq!(look(20, rate(50), false), ((rate(50), false), 0));
        assert_eq!(look(30, rate(3), true), ((rate(50), false), 0));
        assert_eq!(look(60, None, false), ((rate(50), false), 1));
        assert_eq!(look(120, rate(4), true), ((rate(50), false), 1));
        assert_eq!(look(180, rate(3), false), ((rate(4), true), 1));
        assert_eq!(look(240, rate(5), false), ((rate(5), false), 1));
    }

    #[test]
    fn responses_side_by_side_are_one_outcome() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let exchange = |begin: u64, bytes| {
            let request = Request::get("https://a.example/").body(()).unwrap();
            let mut exchange = Exchange::of(&request);
            exchange.started = at(begin);
            exchange.bytes = bytes;
            exchange
        };
        let outcome = |reporter: &mut Reporter, idle| {
            reporter
                .observations(at(900), &Snapshot::default(), idle, false)
                .find_map(|(observation, during)| match observation {
                    Observation::Outcome(outcome) => {
                        assert_eq!(during.end - during.start, outcome.duration);
                        Some(outcome)
                    }
                    _ => None,
                })
        };
        let mut reporter = reporter(start);
        reporter.on_exchange(&exchange(100, 1000), at(400), true);
        assert_eq!(outcome(&mut reporter, false), None, "another is under way");
        reporter.on_exchange(&exchange(200, 5000), at(600), true);
        let both = outcome(&mut reporter, true).unwrap();
        assert_eq!(
            (both.size, both.duration),
            (6000, Duration::from_millis(500))
        );
        assert_eq!(outcome(&mut reporter, true), None, "reported once");
        reporter.on_exchange(&exchange(700, 1000), at(800), false);
        assert_eq!(outcome(&mut reporter, true), None, "given up");

        reporter.blur();
        reporter.on_exchange(&exchange(820, 1000), at(840), true);
        assert_eq!(outcome(&mut reporter, true), None, "not distinguished");
        reporter.on_exchange(&exchange(850, 1000), at(870), true);
        let next = outcome(&mut reporter, true).map(|outcome| outcome.size);
        assert_eq!(next, Some(1000), "only those");

        let mut tunnel = exchange(700, 1000);
        tunnel.method = Method::CONNECT;
        reporter.on_exchange(&tunnel, at(800), true);
        assert_eq!(outcome(&mut reporter, true), None, "a tunnel");

        reporter.switched(Congestion::Bbr, at(1000));
        reporter.on_exchange(&exchange(900, 1000), at(1100), true);
        assert_eq!(
            outcome(&mut reporter, true),
            None,
            "of two congestion controls"
        );
        reporter.on_exchange(&exchange(1200, 1000), at(1300), true);
        let arm = outcome(&mut reporter, true).unwrap().arm;
        assert_eq!(arm.congestion, Congestion::Bbr);
    }
}
