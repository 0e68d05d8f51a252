use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::client::estimate::Choice;
use crate::client::sample::{Decided, TransportSample, UdpEvent};
use crate::client::view::Knowledge;
use crate::policy::PolicyConfig;
use hikyaku_units::arm::{ByTransport, Congestion, Version};
use hikyaku_units::{Rate, Timestamp};

const START: u64 = 1_800_000_000;

/// An estimate of a path of 80 Mbit/s.
fn known(samples: usize) -> Estimate {
    let mut estimate = Estimate::default();
    let (now, policy) = (Timestamp::from_secs(START), PolicyConfig::default());
    for _ in 0..samples {
        let sample = TransportSample {
            version: Version::H3,
            congestion: Congestion::Floor,
            packets_sent: 400,
            packets_lost: 4,
            min_rtt: Duration::from_millis(40),
            srtt: Duration::from_millis(44),
            delivery_rate: Some(Rate::from_mbps(80)),
            app_limited: false,
        };
        estimate.on_path(&sample, now, &policy);
    }
    estimate
}

fn near(a: f32, b: f32) -> bool {
    (a - b).abs() <= 0.01 * b.abs().max(0.01)
}

#[test]
fn what_is_carried_is_what_was_known() {
    let policy = PolicyConfig::default();
    let mut estimate = known(12);
    let now = Timestamp::from_secs(START + 5);
    estimate.on_udp(UdpEvent::Arrived, now, &policy);
    let decided = Decided {
        session: Session(START as u32 - 100),
        group: crate::choice::Group::Normal,
        version: Version::H3,
        congestion: ByTransport {
            tcp: None,
            quic: Some(Congestion::Floor),
        },
    };
    estimate.on_decided(&decided, now, &policy);

    let carried = Estimate::carried(&estimate.carry().unwrap()).unwrap();
    assert_eq!(carried.at, estimate.at);
    assert_eq!(carried.session, estimate.session, "the draws stay the same");
    assert!(near(carried.samples, estimate.samples));
    assert_eq!(carried.min_rtt.get(), estimate.min_rtt.get());
    assert_eq!(carried.srtt, estimate.srtt);
    let quic = Transport::Quic.index();
    assert!(near(carried.loss[quic].sent, MOST_PACKETS), "{carried:?}");
    assert!(near(carried.loss[quic].lost, MOST_PACKETS / 100.0));
    assert_eq!(carried.loss[Transport::Tcp.index()], LossCount::default());
    assert!(near(carried.rate[quic].mean, estimate.rate[quic].mean));
    assert!(near(carried.rate[quic].weight, MOST_RATES));
    assert!(near(carried.open_rate[quic].0, estimate.open_rate[quic].0));
    assert!(near(carried.best_rate, estimate.best_rate));
    assert!(matches!(carried.udp.state, UdpState::Working { .. }));
    let kept = Choice {
        version: Version::H3,
        since: estimate.at,
    };
    assert_eq!(carried.choice, Some(kept));
    assert_eq!(carried.congestion, estimate.congestion);
    assert_eq!(Estimate::default().carry(), None, "nothing to say");
}

#[test]
fn failures_of_udp_are_carried_with_their_probes() {
    let at = Secs::new(START as u32);
    let hour = Duration::from_secs(3600);
    let (since, next_probe) = (ago(at, 90), at.saturating_add(hour));
    let seen = ago(at, 3);
    let cases = [
        UdpState::Unknown,
        UdpState::Working { since, seen },
        UdpState::Suspect {
            since,
            delivered: true,
        },
        UdpState::NeverCame { next_probe },
        UdpState::Broken { since, next_probe },
        UdpState::Throttled { since, next_probe },
    ];
    for state in cases {
        let mut estimate = known(1);
        estimate.udp = UdpHealth {
            state,
            unanswered: 3,
            failed_probes: 2,
            ..UdpHealth::default()
        };
        let carried = Estimate::carried(&estimate.carry().unwrap()).unwrap();
        assert_eq!(carried.udp, estimate.udp);
    }
}

fn knowledge(own: Option<Estimate>, carried: Option<Estimate>) -> Knowledge {
    let addr: IpAddr = "192.0.2.1".parse().unwrap();
    Knowledge {
        own,
        carried,
        ..Knowledge::none(addr)
    }
}

#[test]
fn a_first_visit_begins_as_a_return() {
    let policy = PolicyConfig::default();
    let estimate = known(12);
    let carried = Estimate::carried(&estimate.carry().unwrap()).unwrap();
    for hours in [0, 3, 12] {
        let now = Timestamp::from_secs(START + hours * 3600);
        let (there, here) = (
            knowledge(Some(estimate), None),
            knowledge(None, Some(carried)),
        );
        for transport in Transport::ALL {
            let saved = |knowledge: &Knowledge| knowledge.saved_path(transport, now, &policy);
            let (there, here) = (saved(&there).unwrap(), saved(&here).unwrap());
            assert_eq!(here.min_rtt, there.min_rtt);
            let apart = here.bdp.bytes().abs_diff(there.bdp.bytes());
            assert!(apart * 500 <= there.bdp.bytes(), "{here:?}, {there:?}");
            assert_eq!(here.initial_window(), there.initial_window());
        }
        let (there, here) = (there.view(now, &policy), here.view(now, &policy));
        assert_eq!(here.min_rtt, there.min_rtt);
        assert_eq!(here.session, there.session);
        assert!(near(here.samples, there.samples));
    }
    let later = Timestamp::from_secs(START + 25 * 3600);
    let late = knowledge(None, Some(carried));
    assert_eq!(late.saved_path(Transport::Quic, later, &policy), None);
}

#[test]
fn own_knowledge_goes_before_what_is_carried() {
    let (now, policy) = (Timestamp::from_secs(START), PolicyConfig::default());
    let carried = Estimate::carried(&known(12).carry().unwrap()).unwrap();
    let rate = |own: Option<Estimate>| {
        let view = knowledge(own, Some(carried)).view(now, &policy);
        view.rate.unwrap().mbps()
    };
    let mut slower = known(20);
    slower.rate[Transport::Quic.index()].mean = (10e6_f32).ln();
    assert!((rate(None) - 80.0).abs() < 1.0);
    assert!((rate(Some(slower)) - 10.0).abs() < 0.1, "it knows more");
    slower.samples = 2.0;
    let both = rate(Some(slower));
    assert!(both > 15.0 && both < 60.0, "{both}");
    // One measurement of its own is enough for the smallest round-trip time.
    slower.min_rtt.current = 7000;
    let view = knowledge(Some(slower), Some(carried)).view(now, &policy);
    assert_eq!(view.min_rtt, Some(Duration::from_millis(7)));
}

proptest! {
    /// Only sealed bytes come here, but whatever they are, they do no harm.
    #[test]
    fn any_bytes_are_read_within_bounds(mut bytes: [u8; CARRIED_LEN], at in 0..u32::MAX) {
        bytes[0] = VERSION;
        let carried = Estimate::carried(&bytes).unwrap();
        prop_assert!(carried.samples <= MOST_SAMPLES);
        for index in 0..2 {
            prop_assert!(carried.loss[index].lost <= carried.loss[index].sent);
            prop_assert!(carried.loss[index].sent <= MOST_PACKETS);
            prop_assert!(carried.rate[index].weight <= MOST_RATES);
            prop_assert!(carried.rate[index].mean.is_finite());
        }
        let now = Timestamp::from_secs(at.into());
        let policy = PolicyConfig::default();
        let view = knowledge(None, Some(carried)).view(now, &policy);
        prop_assert!(view.samples.is_finite());
        for transport in Transport::ALL {
            let saved = knowledge(None, Some(carried)).saved_path(transport, now, &policy);
            prop_assert!(saved.is_none_or(|saved| saved.initial_window() <= 32));
        }
        // It is carried on as it is.
        if let Some(again) = carried.carry() {
            let twice = Estimate::carried(&again).unwrap();
            prop_assert_eq!(twice.carry(), Some(again));
            prop_assert_eq!(twice.at, carried.at);
        }
    }

    #[test]
    fn other_lengths_and_versions_are_refused(bytes: Vec<u8>) {
        if bytes.len() != CARRIED_LEN || bytes[0] != VERSION {
            prop_assert!(Estimate::carried(&bytes).is_err());
        }
    }
}
