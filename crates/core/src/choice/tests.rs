//! The chain and its shared parts; `tests/priority.rs` is a fifth domain.

mod priority;

use super::*;
use crate::policy::PolicyConfig;
use hikyaku_units::arm::Congestion;
use proptest::prelude::*;

/// A domain in which each step takes its own arm, or does not apply.
#[derive(Clone, Copy, Default)]
struct Steps {
    pinned: bool,
    barred: bool,
    held_back: bool,
    is_known: bool,
    experiment: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Broken;

impl Bar for Broken {
    fn group(&self) -> Group {
        Group::Udp
    }
}

impl Domain for Steps {
    type Arm = u8;
    type Bar = Broken;
    type Gain = ();

    fn pinned(&self) -> Option<Pick<Self>> {
        self.pinned.then_some((1, Reason::Pinned(1)))
    }

    fn barred(&self) -> Option<Pick<Self>> {
        self.barred.then_some((2, Reason::Barred(Broken)))
    }

    fn usual(&self) -> u8 {
        4
    }

    fn held_back(&self) -> Option<u8> {
        self.held_back.then_some(3)
    }

    fn evidence(&self) -> Option<Evidence> {
        let needed = 2;
        let samples = if self.is_known { 2.0 } else { 0.0 };
        Some(Evidence { samples, needed })
    }

    fn steady(&self) -> Pick<Self> {
        (5, Reason::NoGain(None))
    }

    fn experiment(&self, steady: &Pick<Self>) -> Option<Pick<Self>> {
        assert_eq!(*steady, self.steady());
        self.experiment
            .then_some((6, Reason::Explore(Rival::of(steady.0))))
    }
}

#[test]
fn the_first_step_that_applies_decides() {
    let mut steps = Steps {
        pinned: true,
        barred: true,
        held_back: true,
        is_known: false,
        experiment: true,
    };
    let mut expect = |is_held_back, arm, group, next: fn(&mut Steps)| {
        let (chosen, reason) = choose(&steps, is_held_back);
        assert_eq!((chosen, reason.group()), (arm, group), "{reason:?}");
        next(&mut steps);
    };
    expect(true, 1, Group::Plain, |steps| steps.pinned = false);
    expect(true, 2, Group::Udp, |steps| steps.barred = false);
    expect(true, 3, Group::HoldBack, |_| {});
    expect(false, 4, Group::Plain, |steps| steps.held_back = false);
    expect(true, 4, Group::Plain, |steps| steps.is_known = true);
    expect(true, 6, Group::Explore, |steps| steps.experiment = false);
    expect(true, 5, Group::Normal, |_| {});
}

/// The changes, in the order of the table in `docs/decisions.md`.
const CHANGES: [Change; 9] = [
    Change::FirstVersion,
    Change::Version,
    Change::Congestion(Congestion::Floor),
    Change::Congestion(Congestion::Bbr),
    Change::KeptCongestion(Congestion::Floor),
    Change::KeptCongestion(Congestion::Bbr),
    Change::Route,
    Change::KeptRoute,
    Change::Connections,
];

/// Its domain, its change, and the key of the configuration, as the table has them.
const fn row(change: Change) -> [&'static str; 3] {
    use Congestion::{Bbr, Cubic, Floor};
    match change {
        Change::FirstVersion => ["version", "first choice of a client", ""],
        Change::Version => ["version", "another version", "`min_gain`"],
        Change::Congestion(Bbr) => [
            "congestion control",
            "BBR for a fairer one",
            "`min_gain_bbr`",
        ],
        Change::Congestion(Cubic | Floor) => {
            ["congestion control", "a floor for CUBIC", "`min_gain`"]
        }
        Change::KeptCongestion(Bbr) => ["congestion control", "BBR is kept", "`min_gain_bbr`"],
        Change::KeptCongestion(Cubic | Floor) => {
            ["congestion control", "a floor is kept", "`min_gain`"]
        }
        Change::Route => ["route", "another route", "`min_gain_route`"],
        Change::KeptRoute => ["route", "a route is kept", ""],
        Change::Connections => ["connections", "several for one", ""],
    }
}

#[test]
fn the_needs_of_each_change_are_documented() {
    let policy = PolicyConfig::default();
    let guide = include_str!("../../../../docs/decisions.md");
    for change in CHANGES {
        let needed = policy.needed(change);
        let proof = match needed.proof {
            Proof::Expected => "expected gain",
            Proof::LowerBound => "lower bound",
        };
        let share = hikyaku_units::human::percent(needed.share.into());
        let [domain, from_to, key] = row(change);
        let row = format!("| {domain} | {from_to} | {proof} | above {share} | {key} |");
        assert!(guide.contains(&row), "docs/decisions.md lacks\n{row}");
    }
}

#[test]
fn few_samples_are_weighed_and_fewer_count_nothing() {
    // samples, needed, is enough, share
    let cases = [
        (0.0, 4, false, 0.0),
        (1.4, 4, false, 0.0),
        (1.5, 4, false, 0.5),
        (3.4, 4, false, 0.975),
        (3.5, 4, true, 1.0),
        (100.0, 4, true, 1.0),
        (0.5, 1, true, 1.0),
        (0.0, 0, true, 1.0),
    ];
    for (samples, needed, is_enough, share) in cases {
        let evidence = Evidence { samples, needed };
        assert_eq!(evidence.is_enough(), is_enough, "{evidence:?}");
        let got = evidence.share();
        assert!(
            needed == 0 || (got - share).abs() < 1e-6,
            "{evidence:?}: {got}"
        );
    }
}

proptest! {
    #[test]
    fn a_gain_lies_between_its_bounds_and_turns_around(ln in -3.0f32..3.0, error in 0.0f32..2.0) {
        let gain = Gain::normal(ln, error);
        prop_assert!(gain.low() <= gain.expected() && gain.expected() <= gain.high());
        let back = gain.reversed().reversed();
        prop_assert_eq!(back, gain);
        prop_assert!((gain.cost() * (1.0 + gain.expected()) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn less_evidence_needs_more(
        ln in -1.0f32..1.0, error in 0.0f32..1.0, more in 0.01f32..=1.0, share in 0.01f32..=1.0,
    ) {
        let (gain, less) = (Gain::normal(ln, error), more * share);
        prop_assert!(gain.low_at(less) <= gain.low_at(more) + 1e-4);
        let needed = PolicyConfig::default().needed(Change::Route);
        prop_assert!(!needed.is_met(gain, 0.0));
        prop_assert!(!needed.is_met(gain, less) || needed.is_met(gain, more));
    }

    #[test]
    fn draws_of_a_session_are_equal_wherever_they_are_made(client: u64, session: u32, seed: u64) {
        let draw = Draw { seed, client, session: Session(session) };
        let policy = PolicyConfig { exploration: 1.0, ..PolicyConfig::default() };
        let [first, again] = [0, 1].map(|_| draw.explores(Explorer::Transport, &policy));
        prop_assert_eq!(first, again);
        prop_assert!(first.is_some_and(|place| (0.0..1.0).contains(&place)));
        prop_assert_eq!(draw.one_of(std::iter::empty::<u8>()), None);
        prop_assert!(draw.one_of(0..3u8).is_some_and(|one| one < 3));
    }

    #[test]
    fn a_session_explores_in_one_domain_at_most(client: u64, exploration in 0.0f64..=0.125) {
        let policy = PolicyConfig { exploration, ..PolicyConfig::default() };
        let mut explored = [0u32; 3];
        let sessions = 4000;
        for session in 0..sessions {
            let draw = Draw { seed: 1, client, session: Session(session) };
            let of = [Explorer::Transport, Explorer::Route, Explorer::Images]
                .map(|explorer| draw.explores(explorer, &policy).is_some());
            prop_assert!(of.iter().filter(|explores| **explores).count() <= 1);
            for (count, explores) in explored.iter_mut().zip(of) {
                *count += u32::from(explores);
            }
        }
        // Each has its share, within five standard deviations.
        let mean = exploration * f64::from(sessions);
        for count in explored {
            prop_assert!((f64::from(count) - mean).abs() <= 5.0 * mean.sqrt() + 1.0, "{explored:?}");
        }
    }
}
