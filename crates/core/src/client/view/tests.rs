use std::net::IpAddr;
use std::time::Duration;

use super::Knowledge;
use crate::client::estimate::{Estimate, LossCount};
use crate::client::key::prefixes;
use crate::client::sample::UdpEvent;
use crate::client::udp::{UdpState, Verdict};
use crate::policy::PolicyConfig;
use crate::stat::Stat;
use hikyaku_units::arm::{Arm, ByTransport, Congestion, Transport, Version};
use hikyaku_units::{Rate, Secs, Timestamp};

const START: u32 = 1_800_000_000;

fn now() -> Timestamp {
    Timestamp::from_secs(START.into())
}

fn seen() -> Estimate {
    Estimate {
        at: Secs::new(START),
        ..Estimate::default()
    }
}

/// A client of `own` in prefixes of these estimates.
fn known(own: Option<Estimate>, around: &[Estimate]) -> Knowledge {
    let addr: IpAddr = "2001:db8::1".parse().unwrap();
    let mut knowledge = Knowledge {
        own,
        ..Knowledge::none(addr)
    };
    let places = knowledge.prefixes.iter_mut().zip(prefixes(addr));
    for ((place, prefix), estimate) in places.zip(around) {
        *place = Some((prefix, *estimate));
    }
    knowledge
}

fn lossy(sent: f32, share: f32) -> LossCount {
    LossCount {
        sent,
        lost: sent * share,
    }
}

#[test]
fn tcp_is_hidden_where_balancers_are_and_no_connection_came_directly() {
    let own = |tcp, quic| {
        Some(Estimate {
            loss: [tcp, quic],
            ..seen()
        })
    };
    let none = LossCount::default();
    let cases = [
        ("nothing known", None, true),
        ("QUIC alone", own(none, lossy(1e5, 0.01)), true),
        ("TCP of long ago", own(lossy(0.3, 0.0), none), true),
        ("TCP", own(lossy(10.0, 0.0), none), false),
    ];
    for (name, own, want) in cases {
        let neighbour = Estimate {
            loss: [lossy(1e5, 0.0), none],
            ..seen()
        };
        let knowledge = known(own, &[neighbour]);
        let view = |knowledge: Knowledge| knowledge.view(now(), &PolicyConfig::default());
        assert_eq!(
            view(knowledge.behind_balancers()).tcp_is_hidden,
            want,
            "{name}"
        );
        assert!(!view(knowledge).tcp_is_hidden, "{name}, without balancers");
    }
}

#[test]
fn losses_are_blended_by_evidence() {
    let with = |tcp, quic| Estimate {
        loss: [tcp, quic],
        ..seen()
    };
    let none = LossCount::default();
    // name, own, prefix, (TCP, QUIC) in ppm
    let cases: &[(&str, Estimate, Estimate, [Option<u32>; 2])] = &[
        ("nothing", seen(), seen(), [None, None]),
        (
            "own alone",
            with(lossy(1e5, 0.01), lossy(1e5, 0.02)),
            seen(),
            [Some(10_030), Some(19_970)],
        ),
        (
            "prefix alone",
            seen(),
            with(lossy(1e6, 0.01), lossy(1e6, 0.01)),
            [Some(10_000); 2],
        ),
        (
            "much of its own, little of the prefix's",
            with(lossy(1e5, 0.0), lossy(1e5, 0.0)),
            with(lossy(1e9, 0.5), lossy(1e9, 0.5)),
            [Some(2_488); 2],
        ),
        (
            "TCP stands in for QUIC",
            with(lossy(1e4, 0.01), none),
            seen(),
            [Some(10_000); 2],
        ),
        (
            "faded QUIC packets give way to TCP's",
            with(lossy(1e4, 0.05), lossy(100.0, 0.0)),
            seen(),
            [Some(49_500), Some(37_500)],
        ),
    ];
    for (name, own, prefix, want) in cases {
        let view = known(Some(*own), &[*prefix]).view(now(), &PolicyConfig::default());
        for (got, want) in view.loss.iter().zip(want) {
            let got = got.map(|bounds| bounds.mean.ppm());
            let near = got
                .zip(*want)
                .is_none_or(|(got, want)| got.abs_diff(want) <= want / 100);
            assert!(
                got.is_some() == want.is_some() && near,
                "{name}: {got:?} for {want:?}"
            );
        }
    }
}

#[test]
fn the_path_carries_the_rate_of_either_transport() {
    let stat = |mbps: f32, weight| Stat {
        mean: (mbps * 1e6).ln(),
        var: 0.0,
        weight,
    };
    let none = Stat::default();
    // name, [TCP, QUIC], Mbit/s
    let cases: &[(&str, [Stat; 2], Option<f64>)] = &[
        ("unknown", [none, none], None),
        ("TCP alone", [stat(20.0, 1.0), none], Some(20.0)),
        ("the faster", [stat(20.0, 6.0), stat(80.0, 6.0)], Some(80.0)),
        (
            "not one of long ago",
            [stat(20.0, 6.0), stat(80.0, 0.1)],
            Some(20.0),
        ),
    ];
    for (name, rate, want) in cases {
        let own = Estimate {
            rate: *rate,
            ..seen()
        };
        let got = known(Some(own), &[])
            .view(now(), &PolicyConfig::default())
            .rate
            .map(Rate::mbps);
        assert_eq!(got.map(f64::round), *want, "{name}");
    }
}

/// Where losses limit CUBIC, both versions are predicted with one rate, whatever was measured.
#[test]
fn rates_that_losses_made_say_nothing_of_the_path() {
    let measured = |transport: Transport, mbps: f32, loss: f32| {
        let mut estimate = seen();
        estimate.min_rtt.update(
            Duration::from_millis(50),
            Secs::new(START),
            Duration::from_secs(60),
        );
        estimate.loss = [lossy(1e5, loss); 2];
        estimate.rate[transport.index()].push((mbps * 1e6).ln(), 6.0);
        let view = known(Some(estimate), &[]).view(now(), &PolicyConfig::default());
        [Version::H2, Version::H3].map(|version| {
            view.rate_for(Arm::new(version, Congestion::Cubic))
                .unwrap()
                .mbps()
                .round()
        })
    };
    // Losses of 5 % allow CUBIC 1.3 Mbit/s at 50 ms.
    for (transport, mbps) in [
        (Transport::Tcp, 0.8),
        (Transport::Tcp, 2.3),
        (Transport::Quic, 3.0),
    ] {
        let limited = measured(transport, mbps, 0.05);
        assert_eq!(limited, [4.0; 2], "{transport:?} {mbps}");
    }
    let path = measured(Transport::Quic, 40.0, 0.05);
    assert_eq!(path, [40.0; 2], "more than losses allow");
    let slow = measured(Transport::Tcp, 0.4, 0.000_1);
    assert_eq!(slow, [0.0; 2], "the path is the limit");
    let lossless = measured(Transport::Tcp, 2.3, 0.0);
    assert_eq!(lossless, [2.0; 2]);
}

/// Only rates that losses did not make show the rate that a floor or BBR would get.
#[test]
fn arms_that_losses_do_not_limit_are_asked_about_with_the_open_rate() {
    let mut estimate = seen();
    estimate.min_rtt.update(
        Duration::from_millis(50),
        Secs::new(START),
        Duration::from_secs(60),
    );
    estimate.loss = [lossy(1e5, 0.05); 2];
    estimate.rate[0].push((2.3e6f32).ln(), 6.0);
    let asked = |estimate: &Estimate| {
        let view = known(Some(*estimate), &[]).view(now(), &PolicyConfig::default());
        Congestion::ALL.map(|congestion| {
            let rate = view.rate_for(Arm::over(Transport::Tcp, congestion));
            rate.unwrap().mbps().round()
        })
    };
    assert_eq!(asked(&estimate), [4.0; 3], "nothing else is known");
    estimate.open_rate[0].push((80e6f32).ln(), 6.0);
    assert_eq!(asked(&estimate), [4.0, 80.0, 80.0]);
    estimate.rate[1].push((1e6f32).ln(), 6.0);
    estimate.open_rate[1].push((100e6f32).ln(), 6.0);
    assert_eq!(asked(&estimate)[1], 100.0, "the better transport's");
    estimate.rate[1].weight = 0.01;
    assert_eq!(asked(&estimate)[1], 80.0, "but not one of long ago");
}

#[test]
fn outcomes_of_arms_are_blended_apart() {
    let arm = |congestion| Arm::over(Transport::Quic, congestion);
    let mut own = seen();
    for _ in 0..9 {
        own.outcome.push(arm(Congestion::Bbr), 0.5, 1.0, 24.0);
    }
    own.outcome.push(arm(Congestion::Floor), -0.5, 1.0, 24.0);
    let view = known(Some(own), &[own]).view(now(), &PolicyConfig::default());
    let of = |congestion| view.outcome[arm(congestion).index()];
    assert_eq!(of(Congestion::Bbr).weight, 13.0, "four of the prefix's");
    assert_eq!(of(Congestion::Floor).mean, -0.5);
    assert_eq!(of(Congestion::Cubic).weight, 0.0);
    assert_eq!(view.own_outcome_over(Transport::Quic).weight, 10.0);
    assert_eq!(view.own_outcome_over(Transport::Tcp).weight, 0.0);
}

#[test]
fn a_probe_belongs_to_one_client_of_the_prefix() {
    let policy = PolicyConfig::default();
    let mut prefix = seen();
    let since = Secs::new(START - 5000);
    let next_probe = Secs::new(START - 10);
    prefix.udp.state = UdpState::Broken { since, next_probe };
    let verdict = |own: Option<Estimate>, prefix: &Estimate, now| {
        known(own, &[*prefix]).view(now, &policy).udp
    };
    assert!(
        matches!(verdict(None, &prefix, now()), Verdict::Probe(_)),
        "due"
    );

    let mut prober = seen();
    let (before, event) = (prober.udp, UdpEvent::Advertised);
    prober.on_udp(event, now(), &policy);
    prefix.on_client_udp(event, &before, &prober.udp, now(), &policy);
    let soon = now().saturating_add(Duration::from_secs(60));
    assert!(
        matches!(verdict(Some(prober), &prefix, soon), Verdict::Probe(_)),
        "its own"
    );
    assert!(
        matches!(verdict(None, &prefix, soon), Verdict::Failed(_)),
        "another client's"
    );

    prober.on_udp(UdpEvent::Arrived, soon, &policy);
    assert!(
        matches!(verdict(Some(prober), &prefix, soon), Verdict::Works { .. }),
        "own experience"
    );
}

#[test]
fn a_choice_is_the_clients_own() {
    let choice = Some(super::Choice {
        version: Version::H2,
        since: Secs::new(START),
    });
    let congestion = ByTransport {
        tcp: Some(Congestion::Bbr),
        quic: None,
    };
    let chosen = Estimate {
        choice,
        congestion,
        ..seen()
    };
    let policy = PolicyConfig::default();
    let view = known(Some(chosen), &[]).view(now(), &policy);
    assert_eq!((view.choice, view.congestion), (choice, congestion));
    assert_eq!(known(None, &[chosen]).view(now(), &policy).choice, None);
}

#[test]
fn a_client_is_numbered_alike_by_both_its_names() {
    let number = |addr: &str| {
        let addr = addr.parse().unwrap();
        Knowledge::none(addr)
            .view(now(), &PolicyConfig::default())
            .client
    };
    assert_eq!(number("192.0.2.1"), number("::ffff:192.0.2.1"));
    assert_ne!(number("192.0.2.1"), number("192.0.2.2"));
    assert_ne!(number("2001:db8::1"), number("2001:db8:0:1::1"));
}
