//! What estimates learn, keep and forget.

mod records;
mod throttling;

use std::time::Duration;

use proptest::prelude::*;

use super::{CLIENT, ENCODED_LEN, Estimate};
use crate::choice::{Group, Session};
use crate::client::sample::Decided;
use crate::client::sample::{Outcome, TransportSample, UdpEvent};
use crate::codec::DecodeError;
use crate::policy::PolicyConfig;
use hikyaku_units::arm::{Arm, ByTransport, Congestion, Transport, Version};
use hikyaku_units::{Rate, Timestamp};

const START: u64 = 1_800_000_000;

const H2_CUBIC: Arm = Arm::new(Version::H2, Congestion::Cubic);
const H3_CUBIC: Arm = Arm::new(Version::H3, Congestion::Cubic);

fn at(secs: u64) -> Timestamp {
    Timestamp::from_secs(START + secs)
}

fn sample(version: Version) -> TransportSample {
    TransportSample {
        version,
        congestion: Congestion::Cubic,
        packets_sent: 100,
        packets_lost: 0,
        min_rtt: Duration::from_millis(20),
        srtt: Duration::from_millis(25),
        delivery_rate: None,
        app_limited: false,
    }
}

fn rated(version: Version, mbps: u64, app_limited: bool) -> TransportSample {
    let delivery_rate = Some(Rate::from_mbps(mbps));
    TransportSample {
        delivery_rate,
        app_limited,
        ..sample(version)
    }
}

/// Teaches a response that took `e^log_ratio` times what was predicted.
fn outcome(
    estimate: &mut Estimate,
    (version, congestion): (Version, Congestion),
    size: u64,
    log_ratio: f32,
    now: Timestamp,
) {
    let outcome = Outcome {
        arm: Arm::new(version, congestion),
        size,
        duration: Duration::from_secs(1),
        shared: false,
    };
    let policy = PolicyConfig::default();
    estimate.on_outcome(&outcome, Some(log_ratio), now, &policy, CLIENT);
}

fn mbps(estimate: &Estimate, transport: Transport) -> Option<f64> {
    estimate.delivery_rate(transport).map(Rate::mbps)
}

#[test]
fn app_limited_samples_raise_but_never_lower() {
    // name, [(Mbit/s, app-limited)], Mbit/s within 1 %
    type Case<'a> = (&'a str, &'a [(u64, bool)], Option<f64>);
    let cases: &[Case<'_>] = &[
        ("no sample", &[], None),
        ("one is better than none", &[(5, true)], Some(5.0)),
        (
            "a real one outweighs it",
            &[(5, true), (80, false)],
            Some(80.0 * (5f64 / 80.0).powf(0.1 / 1.1)),
        ),
        (
            "lower is ignored",
            &[(80, false), (5, true), (5, true)],
            Some(80.0),
        ),
        ("higher counts", &[(20, false), (80, true)], Some(40.0)),
        (
            "a higher one of no real ones takes its place",
            &[(5, true), (20, true), (20, true), (80, false)],
            Some(80.0 * (20f64 / 80.0).powf(0.1 / 1.1)),
        ),
        (
            "a real lower one counts",
            &[(80, false), (20, false)],
            Some(40.0),
        ),
    ];
    let policy = PolicyConfig::default();
    for (name, rates, want) in cases {
        let mut estimate = Estimate::default();
        for &(rate, app_limited) in *rates {
            estimate.on_path(&rated(Version::H2, rate, app_limited), at(0), &policy);
        }
        let got = mbps(&estimate, Transport::Tcp);
        let near = |(got, want): (f64, f64)| (got / want - 1.0).abs() < 0.01;
        assert_eq!(got.is_some(), want.is_some(), "{name}");
        assert!(got.zip(*want).is_none_or(near), "{name}: {got:?}");
    }
}

#[test]
fn transports_are_counted_apart() {
    let policy = PolicyConfig::default();
    let mut estimate = Estimate::default();
    estimate.on_path(
        &TransportSample {
            packets_lost: 5,
            ..sample(Version::H1)
        },
        at(0),
        &policy,
    );
    estimate.on_path(&sample(Version::H3), at(0), &policy);
    let loss = |transport| estimate.loss(transport).bounds().unwrap().mean.ppm();
    assert_eq!((loss(Transport::Tcp), loss(Transport::Quic)), (50_000, 0));
}

#[test]
fn knowledge_fades_at_its_own_pace() {
    let policy = PolicyConfig::default();
    let mut estimate = Estimate::default();
    for _ in 0..8 {
        estimate.on_path(&rated(Version::H2, 20, false), at(0), &policy);
        let arm = (Version::H2, Congestion::Cubic);
        outcome(&mut estimate, arm, 1_000_000, 0.3, at(0));
    }
    let later = estimate.faded_to(at(3600), &policy);
    let near = |got: f32, want: f32| (got / want - 1.0).abs() < 1e-3;
    assert!(
        near(later.loss[0].sent, 800.0 / 64.0),
        "six half-lives of loss: {later:?}"
    );
    assert!(
        near(later.rate[0].weight, 6.0 * 0.5f32.powf(1.0 / 6.0)),
        "{later:?}"
    );
    assert!(
        near(
            later.outcome.of(H2_CUBIC).weight,
            8.0 * 0.5f32.powf(1.0 / 72.0)
        ),
        "{later:?}"
    );
    assert!(
        near(later.samples, 8.0 * 0.5f32.powf(1.0 / 24.0)),
        "{later:?}"
    );
    assert_eq!(
        mbps(&later, Transport::Tcp),
        mbps(&estimate, Transport::Tcp)
    );
    assert!(later.response_size().unwrap().bytes().abs_diff(1_000_000) < 1000);

    // Fading in many small steps is fading in one.
    let mut steps = estimate;
    for second in 1..=3600 {
        steps.fade_to(at(second), &policy);
    }
    assert!(near(steps.loss[0].sent, later.loss[0].sent), "{steps:?}");

    // A clock that steps back changes nothing.
    assert_eq!(later.faded_to(at(0), &policy), later);
}

#[test]
fn outcomes_are_kept_by_arm() {
    let mut estimate = Estimate::default();
    let (cubic, bbr) = (Congestion::Cubic, Congestion::Bbr);
    outcome(&mut estimate, (Version::H2, cubic), 1000, 0.5, at(0));
    outcome(&mut estimate, (Version::H3, bbr), 1000, f32::NAN, at(0));
    assert_eq!(
        estimate.outcome.weight,
        [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        "not a number says nothing"
    );
    outcome(&mut estimate, (Version::H3, bbr), 1000, 100.0, at(0));
    assert_eq!(
        estimate.outcome.mean,
        [0.5, 0.0, 0.0, 0.0, 0.0, 2.0],
        "and one response counts seven times at most"
    );
}

/// CUBIC's rate at random losses is not the path's; BBR's, a floor's, or one that fills a queue is.
#[test]
fn open_rates_are_those_that_losses_did_not_make() {
    use Congestion::{Bbr, Cubic, Floor};
    // name, [(congestion control, Mbit/s, packets lost of 100, smoothed RTT in ms, app-limited)], Mbit/s
    type Samples<'a> = &'a [(Congestion, u64, u32, u64, bool)];
    let cases: &[(&str, Samples<'_>, Option<f64>)] = &[
        ("none", &[], None),
        (
            "CUBIC without loss",
            &[(Cubic, 50, 0, 20, false)],
            Some(50.0),
        ),
        ("CUBIC at losses", &[(Cubic, 4, 5, 20, false)], None),
        ("that fills a queue", &[(Cubic, 4, 5, 60, false)], Some(4.0)),
        (
            "far above what losses allow",
            &[(Cubic, 50, 5, 20, false)],
            Some(50.0),
        ),
        ("far below", &[(Cubic, 1, 5, 20, false)], Some(1.0)),
        ("a floor", &[(Floor, 4, 5, 20, false)], Some(4.0)),
        ("BBR", &[(Bbr, 4, 5, 20, false)], Some(4.0)),
        (
            "CUBIC after BBR",
            &[(Bbr, 50, 5, 20, false), (Cubic, 4, 5, 20, false)],
            Some(50.0),
        ),
        (
            "the application was the limit",
            &[(Bbr, 50, 5, 20, false), (Bbr, 4, 5, 20, true)],
            Some(50.0),
        ),
        ("and nothing else is known", &[(Bbr, 4, 0, 20, true)], None),
    ];
    let policy = PolicyConfig::default();
    for (name, samples, want) in cases {
        let mut estimate = Estimate::default();
        for &(congestion, mbps, packets_lost, srtt, app_limited) in *samples {
            let sample = TransportSample {
                congestion,
                packets_lost,
                srtt: Duration::from_millis(srtt),
                ..rated(Version::H3, mbps, app_limited)
            };
            estimate.on_path(&sample, at(0), &policy);
        }
        let open = estimate.open_rate[Transport::Quic.index()].get();
        let got = open.map(|log| (f64::from(log).exp() / 1e5).round() / 10.0);
        assert_eq!(got, *want, "{name}");
    }
}

#[test]
fn sessions_end_by_silence_or_length() {
    // name, [observed at s], asked at s, session's start
    let cases: &[(&str, &[u64], u64, u64)] = &[
        ("unknown client", &[], 5, 5),
        ("goes on", &[0, 600], 1200, 0),
        ("idle", &[0, 600], 1500, 1500),
        ("idle, then seen", &[0, 1500], 1600, 1500),
        ("an hour is enough", &[0, 800, 1600, 2400, 3200], 3600, 3600),
    ];
    let policy = PolicyConfig::default();
    for (name, seen, asked, want) in cases {
        let mut estimate = Estimate::default();
        for &time in *seen {
            estimate.on_path(&sample(Version::H2), at(time), &policy);
        }
        let want = Session((START + want) as u32);
        assert_eq!(estimate.session_at(at(*asked), &policy), want, "{name}");
    }
}

#[test]
fn a_choice_keeps_its_time_until_it_changes() {
    let policy = PolicyConfig::default();
    let mut estimate = Estimate::default();
    let mut decided = |version, group, time| {
        let session = Session((START + time) as u32);
        estimate.on_decided(
            &Decided {
                version,
                congestion: ByTransport::default(),
                group,
                session,
            },
            at(time),
            &policy,
        );
        estimate
            .choice()
            .map(|c| (c.version, u64::from(c.since.get()) - START))
    };
    assert_eq!(decided(Version::H3, Group::Plain, 0), None);
    assert_eq!(
        decided(Version::H3, Group::Normal, 1),
        Some((Version::H3, 1))
    );
    assert_eq!(
        decided(Version::H2, Group::Explore, 2),
        Some((Version::H3, 1))
    );
    assert_eq!(decided(Version::H2, Group::Udp, 3), Some((Version::H3, 1)));
    assert_eq!(
        decided(Version::H3, Group::Normal, 4),
        Some((Version::H3, 1))
    );
    assert_eq!(
        decided(Version::H2, Group::Normal, 5),
        Some((Version::H2, 5))
    );
}

#[test]
fn tiny_responses_say_next_to_nothing_of_large_ones() {
    let cubic = Congestion::Cubic;
    let mut estimate = Estimate::default();
    outcome(&mut estimate, (Version::H2, cubic), 125, -1.0, at(0));
    assert_eq!(
        estimate.outcome.of(H2_CUBIC).weight,
        1.0,
        "all that is known"
    );
    outcome(&mut estimate, (Version::H3, cubic), 10_000_000, 0.1, at(1));
    for second in 2..20 {
        outcome(&mut estimate, (Version::H2, cubic), 125, -1.0, at(second));
        outcome(
            &mut estimate,
            (Version::H3, cubic),
            10_000_000,
            0.1,
            at(second),
        );
    }
    let [h2, h3] = [H2_CUBIC, H3_CUBIC].map(|arm| estimate.outcome.of(arm).weight);
    assert!(h2 < 0.05 && h3 > 10.0, "{h2} {h3}");
}
