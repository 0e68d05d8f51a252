use std::time::Duration;

use proptest::prelude::*;

use super::{
    Failure, FailureKind, RateVerdict, Secs, Timestamp, UdpEvent, UdpHealth, UdpPolicy, UdpState,
    Verdict,
};
use UdpEvent::{Advertised, Arrived, BackOnTcp, Broke, SessionEnded};

const START: u64 = 1_800_000_000;
const MINUTE: u64 = 60;
const HOUR: u64 = 3600;
const DAY: u64 = 86_400;

fn at(secs: u64) -> Timestamp {
    Timestamp::from_secs(START + secs)
}

fn secs(secs: u64) -> Secs {
    Secs::new((START + secs) as u32)
}

fn working(since: u64) -> UdpState {
    UdpState::works_since(secs(since))
}

fn after(events: &[(u64, UdpEvent)]) -> UdpHealth {
    let mut health = UdpHealth::default();
    for &(time, event) in events {
        health.on_event(event, at(time), &UdpPolicy::default());
    }
    health
}

/// Behind one address some go on over QUIC while one of them leaves, and another comes over TCP.
#[test]
fn one_of_many_that_leaves_breaks_nothing_for_the_others() {
    let policy = UdpPolicy::default();
    // when QUIC carries a response, whether the address is broken for it
    for (delivered, broken) in [(None, true), (Some(101), false)] {
        let mut health = after(&[(0, Arrived), (100, Broke)]);
        if let Some(time) = delivered {
            health.on_delivered(secs(time));
        }
        health.on_event(BackOnTcp, at(102), &policy);
        let is_broken = matches!(health.state, UdpState::Broken { .. });
        assert_eq!(is_broken, broken, "{delivered:?}");
        // A second break counts in any case.
        health.on_event(Broke, at(200), &policy);
        assert!(
            matches!(health.state, UdpState::Broken { .. }),
            "{delivered:?}"
        );
    }
}

#[test]
fn clients_move_between_states() {
    let suspect = |since| UdpState::suspect(secs(since), false);
    let never_came = |probe| UdpState::NeverCame {
        next_probe: secs(probe),
    };
    let broken = |since, probe| UdpState::Broken {
        since: secs(since),
        next_probe: secs(probe),
    };
    type Case<'a> = (&'a str, &'a [(u64, UdpEvent)], UdpState);
    let cases: &[Case<'_>] = &[
        ("nothing seen", &[], UdpState::Unknown),
        ("advertised", &[(0, Advertised)], UdpState::Unknown),
        (
            "a session that was not advertised",
            &[(0, SessionEnded)],
            UdpState::Unknown,
        ),
        (
            "one unanswered session",
            &[(0, Advertised), (9, SessionEnded)],
            UdpState::Unknown,
        ),
        ("arrived", &[(0, Advertised), (1, Arrived)], working(1)),
        (
            "keeps the first time",
            &[(0, Arrived), (99, Arrived)],
            UdpState::Working {
                since: secs(0),
                seen: secs(99),
            },
        ),
        ("broke once", &[(0, Arrived), (50, Broke)], suspect(50)),
        (
            "first handshake failed",
            &[(0, Advertised), (4, Broke)],
            suspect(4),
        ),
        (
            "broke twice in an hour",
            &[(0, Broke), (HOUR, Broke)],
            broken(HOUR, 2 * HOUR),
        ),
        (
            "broke twice in a day",
            &[(0, Broke), (5 * HOUR, Broke)],
            suspect(5 * HOUR),
        ),
        (
            "back on TCP at once",
            &[(0, Broke), (7, BackOnTcp)],
            broken(7, HOUR + 7),
        ),
        (
            "back on TCP much later",
            &[(0, Broke), (70, BackOnTcp)],
            suspect(0),
        ),
        (
            "back on TCP, just after others have arrived",
            &[(0, Arrived), (50, Arrived), (52, Broke), (53, BackOnTcp)],
            UdpState::suspect(secs(52), true),
        ),
        (
            "TCP beside a healthy QUIC",
            &[(0, Arrived), (7, BackOnTcp)],
            working(0),
        ),
        (
            "QUIC again, too early to tell",
            &[(0, Broke), (60, Arrived)],
            suspect(0),
        ),
        (
            "breaks and returns and breaks",
            &[(0, Broke), (60, Arrived), (90, Broke)],
            broken(90, HOUR + 90),
        ),
        (
            "QUIC lasted after a break",
            &[(0, Broke), (11 * MINUTE, Arrived)],
            working(11 * MINUTE),
        ),
        (
            "a probe of what was broken is on trial",
            &[
                (0, Broke),
                (1, BackOnTcp),
                (HOUR + 1, Advertised),
                (HOUR + 2, Arrived),
            ],
            suspect(HOUR + 2),
        ),
        (
            "a probe breaks",
            &[
                (0, Broke),
                (1, BackOnTcp),
                (HOUR + 1, Advertised),
                (HOUR + 2, Arrived),
                (HOUR + 9, Broke),
            ],
            broken(HOUR + 9, 2 * HOUR + 9),
        ),
        (
            "two sessions and never came",
            &[
                (0, Advertised),
                (9, SessionEnded),
                (20, Advertised),
                (29, SessionEnded),
            ],
            never_came(HOUR + 29),
        ),
        (
            "others behind the address came lately",
            &[
                (0, Arrived),
                (60, Advertised),
                (70, SessionEnded),
                (80, Advertised),
                (90, SessionEnded),
            ],
            working(0),
        ),
        (
            "an advertisement while HTTP/3 is withheld is no probe",
            &[
                (0, Advertised),
                (9, SessionEnded),
                (20, Advertised),
                (29, SessionEnded),
                (30, Advertised),
                (39, SessionEnded),
                (40, Advertised),
                (49, SessionEnded),
            ],
            never_came(HOUR + 29),
        ),
        (
            "a break while HTTP/3 is withheld is no probe",
            &[
                (0, Advertised),
                (9, SessionEnded),
                (20, Advertised),
                (29, SessionEnded),
                (30, Broke),
            ],
            never_came(HOUR + 29),
        ),
        (
            "a session is counted once",
            &[
                (0, Advertised),
                (9, SessionEnded),
                (10, SessionEnded),
                (11, SessionEnded),
            ],
            UdpState::Unknown,
        ),
    ];
    for (name, events, want) in cases {
        assert_eq!(after(events).state(), *want, "{name}");
    }
}

/// A client to which QUIC does not get through.
fn never_came() -> UdpHealth {
    let sessions = (0..2).flat_map(|n| [(10 * n, Advertised), (10 * n + 9, SessionEnded)]);
    after(&sessions.collect::<Vec<_>>())
}

#[test]
fn probes_of_what_never_came_grow_apart_to_a_day() {
    let (mut health, mut now, policy) = (never_came(), 19, UdpPolicy::default());
    for want in [HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 16 * HOUR, DAY, DAY] {
        let failure = |verdict| match verdict {
            Verdict::Failed(failure) => failure,
            other => panic!("{other:?}"),
        };
        let Failure {
            kind, next_probe, ..
        } = failure(health.verdict(at(now)));
        assert!(matches!(kind, FailureKind::NeverCame { sessions } if sessions >= 2));
        assert_eq!(next_probe, secs(now + want), "after {now} s");
        failure(health.verdict(at(now + want - 1)));
        now += want;
        assert!(
            matches!(health.verdict(at(now)), Verdict::Probe(_)),
            "due at {now} s"
        );
        health.on_event(Advertised, at(now), &policy);
        assert!(
            matches!(health.verdict(at(now + 1)), Verdict::Probe(_)),
            "its session goes on"
        );
        health.on_event(SessionEnded, at(now), &policy);
    }
}

#[test]
fn a_probe_that_arrives_ends_the_failure() {
    let mut health = never_came();
    health.on_event(Advertised, at(2 * HOUR), &UdpPolicy::default());
    health.on_event(Arrived, at(2 * HOUR + 1), &UdpPolicy::default());
    assert_eq!(health.state(), working(2 * HOUR + 1));
    assert_eq!(health.unanswered, 0);
}

#[test]
fn a_probe_is_one_session() {
    let mut health = after(&[(0, Broke), (1, BackOnTcp)]);
    let policy = UdpPolicy::default();
    health.on_event(Advertised, at(HOUR + 1), &policy);
    health.on_event(Advertised, at(HOUR + 10 * MINUTE), &policy);
    assert!(matches!(
        health.verdict(at(HOUR + 15 * MINUTE)),
        Verdict::Probe(_)
    ));
    let over = health.verdict(at(HOUR + 15 * MINUTE + 1));
    assert!(
        matches!(over, Verdict::Failed(f) if f.next_probe == secs(2 * HOUR + 1)),
        "{over:?}"
    );
}

#[test]
fn verdicts() {
    let works = |since| Verdict::Works { since: secs(since) };
    type Case<'a> = (&'a str, &'a [(u64, UdpEvent)], Verdict);
    let cases: &[Case<'_>] = &[
        ("unknown", &[], Verdict::Unproven),
        ("works", &[(5, Arrived)], works(5)),
        (
            "did not come last time",
            &[
                (5, Arrived),
                (5 + HOUR, Advertised),
                (6 + HOUR, SessionEnded),
            ],
            Verdict::Doubtful,
        ),
        (
            "did not come, but others did",
            &[(5, Arrived), (6, Advertised), (7, SessionEnded)],
            works(5),
        ),
        (
            "what was advertised before it failed is no probe",
            &[(0, Broke), (1, Advertised), (2, BackOnTcp)],
            Verdict::Failed(Failure {
                kind: FailureKind::Broken,
                since: secs(2),
                next_probe: secs(HOUR + 2),
            }),
        ),
        (
            "came again",
            &[
                (5, Arrived),
                (5 + HOUR, Advertised),
                (6 + HOUR, SessionEnded),
                (7 + HOUR, Arrived),
            ],
            works(5),
        ),
        ("broke once", &[(5, Arrived), (6, Broke)], Verdict::Doubtful),
    ];
    for (name, events, want) in cases {
        assert_eq!(
            after(events).verdict(at(8 + HOUR - MINUTE)),
            *want,
            "{name}"
        );
    }
    // A client that used to work and stops coming is given up like a new one.
    let mut lost = after(&[(0, Arrived)]);
    for n in 1..=2 {
        lost.on_event(Advertised, at(n * HOUR), &UdpPolicy::default());
        lost.on_event(SessionEnded, at(n * HOUR + 60), &UdpPolicy::default());
    }
    assert!(matches!(
        lost.verdict(at(2 * HOUR + 61)),
        Verdict::Failed(_)
    ));
}

/// A prefix and its clients.
#[derive(Default)]
struct Network {
    prefix: UdpHealth,
    clients: [UdpHealth; 4],
}

impl Network {
    fn event(&mut self, client: usize, event: UdpEvent, time: u64) {
        let policy = UdpPolicy::default();
        let before = self.clients[client];
        self.clients[client].on_event(event, at(time), &policy);
        let after = &self.clients[client];
        self.prefix
            .on_client_event(event, &before, after, at(time), &policy);
    }
}

#[test]
fn one_client_does_not_condemn_its_prefix() {
    let mut network = Network::default();
    for n in 0..3 {
        network.event(0, Advertised, 10 * n);
        network.event(0, SessionEnded, 10 * n + 9);
    }
    assert!(matches!(
        network.clients[0].state(),
        UdpState::NeverCame { .. }
    ));
    assert_eq!(network.prefix.verdict(at(MINUTE)), Verdict::Unproven);
    network.event(1, Broke, 100);
    network.event(1, BackOnTcp, 101);
    assert!(matches!(
        network.clients[1].state(),
        UdpState::Broken { .. }
    ));
    assert_eq!(network.prefix.verdict(at(102)), Verdict::Doubtful);
    network.event(2, Arrived, 103);
    assert_eq!(
        network.prefix.verdict(at(104)),
        Verdict::Works { since: secs(103) }
    );
}

#[test]
fn two_clients_that_never_came_condemn_it() {
    let mut network = Network::default();
    for client in 0..2 {
        for n in 0..2 {
            network.event(client, Advertised, 10 * n);
            network.event(client, SessionEnded, 10 * n + 9);
        }
    }
    assert!(matches!(
        network.prefix.verdict(at(MINUTE)),
        Verdict::Failed(_)
    ));

    // One client takes the probe; until it is answered no other is due.
    assert!(matches!(
        network.prefix.verdict(at(HOUR + 19)),
        Verdict::Probe(_)
    ));
    network.event(3, Advertised, HOUR + 19);
    let UdpState::NeverCame { next_probe } = network.prefix.state() else {
        panic!()
    };
    assert!(next_probe > secs(2 * HOUR));
    network.event(3, SessionEnded, HOUR + 40);
    assert_eq!(
        network.prefix.state(),
        UdpState::NeverCame {
            next_probe: secs(3 * HOUR + 40)
        }
    );
    network.event(3, Advertised, 3 * HOUR + 40);
    network.event(3, Arrived, 3 * HOUR + 41);
    assert_eq!(network.prefix.state(), working(3 * HOUR + 41));
}

/// Has a client give up on QUIC within 20 s.
fn give_up(network: &mut Network, client: usize, time: u64) {
    for n in 0..2 {
        network.event(client, Advertised, time + 10 * n);
        network.event(client, SessionEnded, time + 10 * n + 9);
    }
}

#[test]
fn only_a_probe_puts_the_next_one_off() {
    let mut network = Network::default();
    // All four were advertised HTTP/3 before the first two gave up.
    for client in 0..4 {
        give_up(&mut network, client, client as u64);
    }
    let next_probe = |network: &Network| match network.prefix.state() {
        UdpState::NeverCame { next_probe } => next_probe,
        other => panic!("{other:?}"),
    };
    assert_eq!(next_probe(&network), secs(HOUR + 20));

    // A connection from before the probe, of a client that did not take it, is no answer to it.
    network.clients[2] = UdpHealth::default();
    network.event(2, Advertised, HOUR);
    network.clients[3] = UdpHealth::default();
    network.event(3, Advertised, HOUR + 20);
    let planned = next_probe(&network);
    assert_eq!(planned, secs(2 * HOUR + 20));
    network.event(2, SessionEnded, HOUR + 30);
    assert_eq!(next_probe(&network), planned, "the other's session");
    network.event(3, SessionEnded, HOUR + 40);
    assert_eq!(next_probe(&network), secs(3 * HOUR + 40), "the prober's");
}

#[test]
fn neighbours_that_use_quic_speak_for_those_that_cannot() {
    let mut network = Network::default();
    network.event(3, Arrived, 0);
    for client in 0..3 {
        give_up(&mut network, client, MINUTE);
    }
    assert_eq!(
        network.prefix.verdict(at(10 * MINUTE)),
        Verdict::Works { since: secs(0) }
    );
    let cannot = &network.clients[0];
    assert!(matches!(cannot.state(), UdpState::NeverCame { .. }));
}

#[test]
fn a_nat_with_a_browser_that_has_no_quic_keeps_http3() {
    // One QUIC connection every 40 minutes, or one that is kept and carries a response as often; sessions
    // of the browser without QUIC every minute.
    for kept in [false, true] {
        let (mut nat, policy) = (UdpHealth::default(), UdpPolicy::default());
        for minute in 0..24 * 60 {
            let now = at(minute * MINUTE);
            match minute % 40 {
                0 if kept && minute > 0 => nat.on_delivered(now.into()),
                0 => nat.on_event(Arrived, now, &policy),
                _ => {}
            }
            nat.on_event(Advertised, now, &policy);
            nat.on_event(SessionEnded, at(minute * MINUTE + 9), &policy);
            let verdict = nat.verdict(now);
            assert!(
                matches!(verdict, Verdict::Works { .. }),
                "minute {minute}: {verdict:?}"
            );
        }
    }
}

proptest! {
    /// Whatever comes, the next probe is no farther off than the probes that were taken call for.
    #[test]
    fn the_next_probe_is_as_far_off_as_the_last_ones_failed(
        events in proptest::collection::vec((0..5usize, 0..3 * HOUR), 0..60)
    ) {
        let policy = UdpPolicy::default();
        let (mut health, mut time, mut probes) = (UdpHealth::default(), 0, 0);
        for (event, pause) in events {
            time += pause;
            let event = [Advertised, SessionEnded, Arrived, Broke, BackOnTcp][event];
            let due = matches!(health.verdict(at(time)), Verdict::Probe(_));
            probes += u32::from(due && event == Advertised);
            health.on_event(event, at(time), &policy);
            if let Verdict::Failed(failure) = health.verdict(at(time)) {
                let most = policy.probe_min.saturating_mul(1 << probes.min(16));
                let wait = failure.next_probe.since(at(time).into());
                prop_assert!(wait <= most.min(policy.probe_max), "{wait:?} after {probes}");
            }
        }
    }
}

#[test]
fn two_clients_that_broke_condemn_it_until_quic_lasts() {
    let mut network = Network::default();
    for client in 0..2 {
        network.event(client, Broke, 100);
        network.event(client, BackOnTcp, 101);
    }
    assert!(matches!(network.prefix.state(), UdpState::Broken { .. }));
    network.event(2, Advertised, 2 * HOUR);
    network.event(2, Arrived, 2 * HOUR + 1);
    assert_eq!(network.prefix.verdict(at(2 * HOUR + 2)), Verdict::Doubtful);
    network.event(3, Arrived, 2 * HOUR + 9);
    assert_eq!(network.prefix.state(), working(2 * HOUR + 9));
}

#[test]
fn two_throttled_clients_make_a_throttled_prefix() {
    let (mut prefix, policy) = (UdpHealth::default(), UdpPolicy::default());
    let mut verdict = |verdict, time| {
        prefix.on_client_rates(verdict, secs(time), &policy);
        prefix.is_throttled()
    };
    assert!(!verdict(RateVerdict::Throttled, 0));
    assert!(!verdict(RateVerdict::Equal, 10));
    assert!(
        !verdict(RateVerdict::Throttled, 20),
        "one was found not to be throttled since"
    );
    assert!(verdict(RateVerdict::Throttled, 30));
    assert!(!verdict(RateVerdict::Equal, 40));
}

#[test]
fn no_order_of_events_leaves_the_machine_without_a_way_back() {
    // All sequences of five events, ten minutes apart: a probe is due within a day, and QUIC that then
    // arrives and lasts makes it work.
    let events = [Advertised, SessionEnded, Arrived, Broke, BackOnTcp];
    let policy = UdpPolicy::default();
    for number in 0..5usize.pow(5) {
        let mut health = UdpHealth::default();
        for position in 0..5 {
            let event = events[number / 5usize.pow(position) % 5];
            health.on_event(event, at(u64::from(position) * 10 * MINUTE), &policy);
        }
        let later = at(HOUR).saturating_add(policy.probe_max);
        assert!(
            !matches!(health.verdict(later), Verdict::Failed(_)),
            "{number}: {health:?}"
        );
        health.on_event(Advertised, later, &policy);
        for wait in [0, 1200, 2400] {
            health.on_event(
                Arrived,
                later.saturating_add(Duration::from_secs(wait)),
                &policy,
            );
        }
        assert!(
            matches!(health.state(), UdpState::Working { .. }),
            "{number}: {health:?}"
        );
    }
}
