//! QUIC that is slower than the path allows, and when that is over.

use super::*;

#[test]
fn quic_is_held_against_what_the_path_has_shown() {
    let policy = PolicyConfig::default();
    let mut estimate = Estimate::default();
    let quic = |estimate: &mut Estimate, mbps, seconds: std::ops::Range<u64>| {
        for second in seconds {
            estimate.on_path(&rated(Version::H3, mbps, false), at(second), &policy);
        }
        estimate.udp().is_throttled()
    };
    assert!(!quic(&mut estimate, 50, 0..20));
    assert!(quic(&mut estimate, 5, 20..40), "TCP was never measured");
    // Back on TCP it shows that the path itself became slower.
    for second in 40..44 {
        estimate.on_path(&rated(Version::H2, 5, false), at(second), &policy);
    }
    assert!(!estimate.udp().is_throttled());
    assert!(!quic(&mut estimate, 5, 44..100), "and that is remembered");
}

#[test]
fn throttling_is_judged_from_rates() {
    // name, TCP Mbit/s, QUIC Mbit/s, samples of each, app-limited, throttled
    let cases: &[(&str, u64, u64, usize, bool, bool)] = &[
        ("a fifth", 50, 10, 12, false, true),
        ("too few samples", 50, 10, 3, false, false),
        (
            "app-limited samples are no evidence",
            50,
            10,
            12,
            true,
            false,
        ),
        ("a little slower", 50, 35, 30, false, false),
        ("half is within the doubt", 50, 25, 12, false, false),
        ("QUIC faster", 10, 50, 12, false, false),
    ];
    let policy = PolicyConfig::default();
    for &(name, tcp, quic, samples, app_limited, want) in cases {
        let mut estimate = Estimate::default();
        estimate.on_udp(UdpEvent::Arrived, at(0), &policy);
        for second in 0..samples {
            let now = at(second as u64);
            estimate.on_path(&rated(Version::H2, tcp, false), now, &policy);
            estimate.on_path(&rated(Version::H3, quic, app_limited), now, &policy);
        }
        assert_eq!(estimate.udp().is_throttled(), want, "{name}");
    }
}

/// Slow start shows more than losses then allow. It takes a look at TCP to know that this is no
/// throttling.
#[test]
fn what_losses_explain_is_no_throttling_once_tcp_is_known() {
    // name, congestion control, packets lost of 100, TCP known, throttled
    let cases = [
        ("CUBIC under loss", Congestion::Cubic, 5, true, false),
        ("or behind a policer", Congestion::Cubic, 5, false, true),
        ("CUBIC without loss", Congestion::Cubic, 0, true, true),
        (
            "BBR, which losses do not limit",
            Congestion::Bbr,
            5,
            true,
            true,
        ),
    ];
    let policy = PolicyConfig::default();
    for (name, congestion, packets_lost, tcp, want) in cases {
        let mut estimate = Estimate::default();
        estimate.on_udp(UdpEvent::Arrived, at(0), &policy);
        if tcp {
            estimate.on_path(&rated(Version::H2, 4, false), at(0), &policy);
        }
        for second in 0..30 {
            // sqrt(1.5 / 0.05) packets in 20 ms: 3.2 Mbit/s.
            let mbps = if second < 4 { 60 } else { 4 };
            let sample = TransportSample {
                congestion,
                packets_lost,
                ..rated(Version::H3, mbps, false)
            };
            estimate.on_path(&sample, at(second), &policy);
        }
        assert_eq!(estimate.udp().is_throttled(), want, "{name}");
    }
}

#[test]
fn a_session_on_tcp_that_is_no_faster_ends_throttling() {
    let policy = PolicyConfig::default();
    let mut estimate = Estimate::default();
    estimate.on_udp(UdpEvent::Arrived, at(0), &policy);
    for second in 0..30 {
        let mbps = if second < 4 { 60 } else { 4 };
        estimate.on_path(&rated(Version::H3, mbps, false), at(second), &policy);
    }
    assert!(estimate.udp().is_throttled());
    // It still tried QUIC first.
    estimate.on_udp(UdpEvent::Arrived, at(40), &policy);
    for second in 41..50 {
        estimate.on_path(&rated(Version::H2, 3, false), at(second), &policy);
    }
    assert!(!estimate.udp().is_throttled());
}

#[test]
fn a_probe_finds_that_throttling_ended() {
    let policy = PolicyConfig::default();
    let mut estimate = Estimate::default();
    for second in 0..20 {
        estimate.on_path(&rated(Version::H2, 50, false), at(second), &policy);
        estimate.on_path(&rated(Version::H3, 5, false), at(second), &policy);
        outcome(
            &mut estimate,
            (Version::H3, Congestion::Cubic),
            1,
            2.0,
            at(second),
        );
    }
    assert!(estimate.udp().is_throttled());
    let probe = at(3700);
    estimate.on_udp(UdpEvent::Advertised, probe, &policy);
    estimate.on_udp(UdpEvent::Arrived, probe, &policy);
    for second in 0..4 {
        assert!(estimate.udp().is_throttled(), "after {second} samples");
        let now = probe.saturating_add(Duration::from_secs(second));
        estimate.on_path(&rated(Version::H2, 50, false), now, &policy);
        estimate.on_path(&rated(Version::H3, 48, false), now, &policy);
    }
    assert!(!estimate.udp().is_throttled());
    assert_eq!(
        estimate.outcome.of(H3_CUBIC).weight,
        0.0,
        "outcomes under throttling are void"
    );
}
