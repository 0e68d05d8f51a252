//! Old decisions beside new ones, over random views with a fixed seed.

use std::time::Duration;

use super::{connections, route, version};
use crate::choice::Session;
use crate::decide::{Decision, decide};
use crate::egress::record::{Kept, StallCount};
use crate::egress::{
    Candidates, Criterion, EgressId, EgressNames, EgressSet, Mode, Mptcp, Phase, Route,
    RouteQuality, RouteView, Wants, decide_route, mptcp_share,
};
use crate::estimate::{Choice, LossCount};
use crate::model::Model;
use crate::model::tests::synthetic;
use crate::policy::{
    CongestionPolicy, ConnectionsPolicy, MinCwnd, Plain, PolicyConfig, RoutePolicy, VersionPolicy,
};
use crate::stat::Stat;
use crate::udp::{Failure, FailureKind, Verdict};
use crate::view::{ClientView, Knowledge};
use hikyaku_units::arm::{Arm, ByTransport, Congestion, CongestionSet, Version};
use hikyaku_units::mix::mix;
use hikyaku_units::{ByteSize, Rate, Secs, Timestamp};

const VIEWS: u64 = 100_000;
const START: u64 = 1_800_000_000;
const SEED: u64 = 1;

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 24) as f32
    }

    /// Between these, evenly in logarithms.
    fn log(&mut self, low: f32, high: f32) -> f32 {
        low * (high / low).powf(self.unit())
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    fn maybe<T>(&mut self, one_in: u64, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        match self.one_in(one_in) {
            true => None,
            false => Some(make(self)),
        }
    }

    fn stat(&mut self, mean: f32, apart: f32, most: f32) -> Stat {
        if self.one_in(4) {
            return Stat::default();
        }
        Stat {
            mean: mean + apart * (2.0 * self.unit() - 1.0),
            var: self.unit() * 0.3,
            weight: self.log(0.05, most),
        }
    }

    fn loss(&mut self) -> LossCount {
        let sent = self.log(1.0, 1e5);
        let lost = match self.one_in(3) {
            true => 0.0,
            false => sent * self.log(1e-5, 0.4),
        };
        LossCount { sent, lost }
    }

    fn ago(&mut self) -> Secs {
        Timestamp::from_secs(START - self.log(1.0, 1e5) as u64).into()
    }

    fn ahead(&mut self) -> Secs {
        Timestamp::from_secs(START + self.log(1.0, 1e5) as u64).into()
    }
}

fn now() -> Timestamp {
    Timestamp::from_secs(START)
}

fn policy(dice: &mut Dice) -> PolicyConfig {
    let shares = [0.0, 0.02, 0.5];
    PolicyConfig {
        version: match dice.below(6) {
            0 => VersionPolicy::H2,
            1 => VersionPolicy::H3,
            _ => VersionPolicy::Adaptive,
        },
        congestion: dice.of(&[
            CongestionPolicy::Adaptive,
            CongestionPolicy::Adaptive,
            CongestionPolicy::Cubic,
            CongestionPolicy::Bbr,
        ]),
        min_cwnd: dice.of(&[MinCwnd::Adaptive, MinCwnd::Adaptive, MinCwnd::Off]),
        connections: dice.of(&[
            ConnectionsPolicy::Adaptive,
            ConnectionsPolicy::Adaptive,
            ConnectionsPolicy::Pinned(4),
        ]),
        route: match dice.below(8) {
            0 => RoutePolicy::Plain,
            1 => RoutePolicy::Aggregate,
            2 => RoutePolicy::Named("a".to_owned()),
            _ => RoutePolicy::Adaptive,
        },
        unknown: dice.of(&[Plain::H2, Plain::H3]),
        min_samples: dice.below(12) as u32,
        min_samples_route: 1 + dice.below(6) as u32,
        exploration: dice.of(&shares),
        trials: dice.below(4) as u8,
        holdback: dice.of(&[0.0, 0.01, 0.2]),
        ..PolicyConfig::default()
    }
}

fn verdict(dice: &mut Dice) -> Verdict {
    let failure = |dice: &mut Dice| Failure {
        kind: match dice.below(3) {
            0 => FailureKind::NeverCame { sessions: 3 },
            1 => FailureKind::Broken,
            _ => FailureKind::Throttled,
        },
        since: dice.ago(),
        next_probe: dice.ahead(),
    };
    match dice.below(8) {
        0 => Verdict::Unproven,
        1 => Verdict::Doubtful,
        2 => Verdict::Probe(failure(dice)),
        3 => Verdict::Failed(failure(dice)),
        _ => Verdict::Works { since: dice.ago() },
    }
}

fn client(dice: &mut Dice, policy: &PolicyConfig) -> ClientView {
    let nobody = Knowledge::none([192, 0, 2, 1].into()).view(now(), policy);
    let min_rtt = dice.log(1e-3, 0.4);
    let queue = dice.of(&[1.0, 1.05, 1.3, 3.0]);
    let secs = |secs: f32| Duration::from_secs_f32(secs);
    let both = dice.loss();
    let bounds = |dice: &mut Dice| match dice.below(3) {
        0 => None,
        1 => both.bounds(),
        _ => dice.loss().bounds(),
    };
    let rate = |dice: &mut Dice| Rate::from_bits_per_sec(dice.log(2e5, 1e9) as u64);
    let kept = |dice: &mut Dice| {
        dice.maybe(2, |dice| {
            dice.of(&[Congestion::Cubic, Congestion::Floor, Congestion::Bbr])
        })
    };
    let outcome = std::array::from_fn(|_| dice.stat(0.0, 0.6, 20.0));
    ClientView {
        client: dice.next(),
        session: Session(dice.next() as u32),
        samples: dice.log(0.5, 60.0),
        min_rtt: dice.maybe(12, |_| secs(min_rtt)),
        srtt: dice.maybe(12, |_| secs(min_rtt * queue)),
        loss: [bounds(dice), bounds(dice)],
        rate: dice.maybe(12, rate),
        open_rate: dice.maybe(2, rate),
        size: dice.maybe(4, |dice| ByteSize::from_bytes(dice.log(5e2, 5e7) as u64)),
        udp: verdict(dice),
        advertised: dice.one_in(2),
        choice: dice.maybe(2, |dice| Choice {
            version: dice.of(&[Version::H2, Version::H3]),
            since: dice.ago(),
        }),
        congestion: ByTransport::from_fn(|_| kept(dice)),
        outcome,
        own_outcome: match dice.one_in(2) {
            true => outcome,
            false => std::array::from_fn(|_| dice.stat(0.0, 0.8, 20.0)),
        },
        ..nobody
    }
}

fn available(dice: &mut Dice) -> ByTransport<CongestionSet> {
    use Congestion::{Bbr, Cubic, Floor};
    ByTransport::from_fn(|_| match dice.below(6) {
        0 => CongestionSet::of(&[Cubic]),
        1 => CongestionSet::of(&[Cubic, Floor]),
        2 => CongestionSet::of(&[Floor, Bbr]),
        _ => CongestionSet::ALL,
    })
}

fn same_share(old: f32, new: f32) -> bool {
    old.to_bits() == new.to_bits() || (old - new).abs() <= 1e-5 * (1.0 + old.abs())
}

#[test]
fn versions_congestion_controls_and_connections_are_as_before() {
    let models = [
        synthetic(),
        Model::from_json(include_str!("../../../../models/default.json")).unwrap(),
    ];
    let mut codes = std::collections::BTreeMap::<String, u64>::new();
    for n in 0..VIEWS {
        let mut dice = Dice(mix(n));
        let policy = policy(&mut dice);
        let view = client(&mut dice, &policy);
        let available = available(&mut dice);
        let model = &models[dice.below(2) as usize];
        let old = version::decide(&view, model, &policy, &available, now(), SEED);
        let new = decide(&view, model, &policy, &available, now(), SEED);
        let told = |d: &Decision| {
            let congestion = [d.congestion.tcp, d.congestion.quic];
            let congestion = congestion.map(|c| (c.reason.code(), c.to_string()));
            (d.reason.code(), d.reason.to_string(), congestion)
        };
        let congestion = [old.congestion.tcp, old.congestion.quic];
        let congestion = congestion.map(|c| (c.reason.code(), c.to_string()));
        let old_told = (old.reason.code(), old.reason.to_string(), congestion);
        assert_eq!(old_told, told(&new), "view {n}: {view:?} {policy:?}");
        assert_eq!(old.version, new.version, "view {n}");
        assert_eq!(old.group, new.group, "view {n}");
        assert_eq!(
            format!("{:?}", old.alt_svc),
            format!("{:?}", new.alt_svc),
            "view {n}"
        );
        assert_eq!(old.decided(), new.decided(), "view {n}");
        for arm in Arm::ALL {
            let (old, new) = (old.load(arm), new.load(arm));
            assert_eq!(format!("{old:?}"), format!("{new:?}"), "view {n}: {arm}");
        }
        for code in [new.reason.code(), new.congestion.tcp.reason.code()] {
            *codes.entry(code.to_owned()).or_default() += 1;
        }
        let shards = 1 + dice.below(8) as u8;
        let old = connections::connections(&view, model, &policy, &old, shards);
        let new = crate::connections::connections(&view, model, &policy, &new, shards);
        assert_eq!(
            (old.n, old.reason.code()),
            (new.n, new.reason.code()),
            "view {n}"
        );
        assert_eq!(old.reason.to_string(), new.reason.to_string(), "view {n}");
        assert!(
            same_share(old.gain, new.gain),
            "view {n}: {} {}",
            old.gain,
            new.gain
        );
        *codes
            .entry(format!("connections: {}", new.reason.code()))
            .or_default() += 1;
    }
    println!("{codes:?}");
    assert!(
        codes.values().all(|count| *count >= 20),
        "too rare: {codes:?}"
    );
}

fn egresses(dice: &mut Dice) -> EgressSet {
    let one = |dice: &mut Dice| EgressId::new(dice.below(5) as u8).unwrap();
    (0..dice.below(5)).map(|_| one(dice)).collect()
}

fn candidates(dice: &mut Dice) -> Candidates {
    let one = |dice: &mut Dice| EgressId::new(dice.below(5) as u8).unwrap();
    Candidates {
        plain_is: dice.maybe(3, one),
        egresses: egresses(dice),
        backup: match dice.one_in(3) {
            true => egresses(dice),
            false => EgressSet::EMPTY,
        },
        mptcp: dice.of(&[
            Mptcp::None,
            Mptcp::Refused,
            Mptcp::Taken,
            Mptcp::Taken,
            Mptcp::Drawn,
        ]),
        mode: match dice.below(10) {
            0 => Mode::Plain,
            1 => Mode::Aggregated,
            2 => Mode::Steered,
            _ => Mode::Adaptive,
        },
        allowed: match dice.one_in(4) {
            true => egresses(dice),
            false => EgressSet::ALL,
        },
        named: dice.maybe(2, one),
    }
}

fn quality(dice: &mut Dice, several: bool) -> RouteQuality {
    let known = !dice.one_in(3);
    let stat = |dice: &mut Dice, mean, apart| match known {
        true => dice.stat(mean, apart, 16.0),
        false => Stat::default(),
    };
    let goodput = std::array::from_fn(|_| stat(dice, 17.0, 0.7));
    let rtt = stat(dice, -3.0, 0.5);
    RouteQuality {
        age: None,
        avoided_for: match dice.one_in(8) {
            true => Some(Duration::from_secs(dice.below(600))),
            false => None,
        },
        goodput,
        rtt,
        loss: dice.loss(),
        stalls: match dice.one_in(2) {
            true => StallCount::default(),
            false => StallCount {
                stalls: dice.log(0.1, 20.0),
                stalled: dice.log(0.1, 20.0),
                observed: dice.log(1.0, 1e4),
            },
        },
        several,
        own: [goodput[0], goodput[1], rtt].map(|stat| stat.weight * dice.of(&[0.0, 0.5, 1.0])),
        absolute: [true; 3],
    }
}

#[test]
fn routes_are_as_before() {
    let mut names = EgressNames::default();
    names.update(&["a", "b", "c", "d", "e"].map(Into::into));
    let mut codes = std::collections::BTreeMap::<String, u64>::new();
    for n in 0..VIEWS {
        let mut dice = Dice(mix(n ^ 0x5151));
        let policy = policy(&mut dice);
        let mut second = Dice(dice.next());
        let view = RouteView::of_qualities(
            dice.next(),
            |several| quality(&mut dice, several),
            || Kept {
                egress: second.maybe(2, |dice| EgressId::new(dice.below(5) as u8).unwrap()),
                aggregated: second.one_in(3),
            },
        );
        let mut dice = Dice(second.next());
        let candidates = candidates(&mut dice);
        let wants = Wants {
            criterion: dice.of(&Criterion::ALL),
            phase: dice.of(&[Phase::Startup, Phase::Sustained]),
        };
        let session = Session(dice.next() as u32);
        let old = route::decide_route(&view, wants, &candidates, &policy, session, SEED);
        let new = decide_route(&view, wants, &candidates, &policy, session, SEED);
        let (was, is) = (
            old.display(&names).to_string(),
            new.display(&names).to_string(),
        );
        assert_eq!(was, is, "view {n}: {view:?} {candidates:?} {policy:?}");
        assert_eq!(
            (old.route, old.reason.code()),
            (new.route, new.reason.code()),
            "view {n}"
        );
        assert_eq!((old.group, old.keeps), (new.group, new.keeps), "view {n}");
        for seed in [None, Some(SEED)] {
            let old = route::mptcp_share(&view, wants, &candidates, &policy, seed);
            let new = mptcp_share(&view, wants, &candidates, &policy, seed);
            assert_eq!(old, new, "view {n}");
        }
        *codes.entry(new.reason.code().to_owned()).or_default() += 1;
        if new.route == Route::Aggregated {
            *codes.entry("aggregate".to_owned()).or_default() += 1;
        }
    }
    println!("{codes:?}");
    assert!(
        codes.values().all(|count| *count >= 20),
        "too rare: {codes:?}"
    );
}
