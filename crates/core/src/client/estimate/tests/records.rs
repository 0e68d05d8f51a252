//! Estimates as bytes, and after anything that may be observed.

use super::*;

#[test]
fn damaged_records_are_told_apart() {
    let bytes = Estimate::default().encode();
    assert_eq!(
        Estimate::decode(&bytes[1..]),
        Err(DecodeError::Length {
            len: ENCODED_LEN - 1
        })
    );
    assert_eq!(Estimate::decode(&[]), Err(DecodeError::Length { len: 0 }));
    let mut foreign = bytes;
    foreign[0] = 9;
    assert_eq!(
        Estimate::decode(&foreign),
        Err(DecodeError::Version { version: 9 })
    );
    for position in 1..ENCODED_LEN {
        let mut flipped = bytes;
        flipped[position] ^= 0x10;
        assert_eq!(
            Estimate::decode(&flipped),
            Err(DecodeError::Check),
            "byte {position}"
        );
    }
}

#[test]
fn impossible_values_are_refused_even_with_a_right_check() {
    let sound = {
        let mut estimate = Estimate::default();
        estimate.on_path(
            &rated(Version::H2, 20, false),
            at(0),
            &PolicyConfig::default(),
        );
        estimate
    };
    type Change = fn(&mut Estimate);
    let cases: &[(&str, Change)] = &[
        ("sample count", |e| e.samples = f32::NAN),
        ("packet count", |e| e.loss[0].sent = -1.0),
        ("packet count", |e| e.loss[1].lost = 1.0),
        ("rate", |e| e.rate[0].mean = 1e9),
        ("outcome", |e| e.outcome.weight[1] = f32::INFINITY),
        ("response count", |e| e.size_weight = f32::NAN),
    ];
    for (field, change) in cases {
        let mut estimate = sound;
        change(&mut estimate);
        assert_eq!(
            Estimate::decode(&estimate.encode()),
            Err(DecodeError::Field { field })
        );
    }
}

fn observations() -> impl Strategy<Value = Vec<(u8, u32, u32, u64)>> {
    proptest::collection::vec((0u8..10, any::<u32>(), 0u32..100_000, any::<u64>()), 0..60)
}

/// An estimate after arbitrary observations.
fn observed(steps: &[(u8, u32, u32, u64)]) -> Estimate {
    let policy = PolicyConfig::default();
    let (mut estimate, mut now) = (Estimate::default(), at(0));
    for &(kind, packets, secs, number) in steps {
        now = now.saturating_add(Duration::from_secs(secs.into()));
        let version = if number % 2 == 0 {
            Version::H2
        } else {
            Version::H3
        };
        let path = TransportSample {
            packets_sent: packets,
            packets_lost: (number >> 40) as u32,
            min_rtt: Duration::from_nanos(number),
            srtt: Duration::from_nanos(number),
            delivery_rate: Some(Rate::from_bits_per_sec(number)),
            app_limited: packets % 3 == 0,
            ..sample(version)
        };
        match kind {
            0..=2 => drop(estimate.on_path(&path, now, &policy)),
            3 => {
                let arm = (version, Congestion::Cubic);
                outcome(&mut estimate, arm, number, number as f32 / 1e18, now);
            }
            4 => estimate.on_udp(UdpEvent::Advertised, now, &policy),
            5 => estimate.on_udp(UdpEvent::SessionEnded, now, &policy),
            6 => estimate.on_udp(UdpEvent::Arrived, now, &policy),
            7 => estimate.on_udp(UdpEvent::Broke, now, &policy),
            8 => estimate.on_udp(UdpEvent::BackOnTcp, now, &policy),
            _ => {
                let session = estimate.session_at(now, &policy);
                let decided = Decided {
                    version,
                    congestion: ByTransport {
                        tcp: Some(Congestion::ALL[number as usize % 3]),
                        quic: None,
                    },
                    group: Group::Normal,
                    session,
                };
                estimate.on_decided(&decided, now, &policy);
            }
        }
    }
    estimate
}

proptest! {
    #[test]
    fn encoding_goes_round(steps in observations()) {
        let estimate = observed(&steps);
        let kept = Estimate::decode(&estimate.encode()).unwrap();
        prop_assert_eq!(Estimate::decode(&kept.encode()), Ok(kept), "it loses nothing more");
        let near = |got: f32, want: f32, by: f32| (got - want).abs() <= by;
        prop_assert!(near(kept.size, estimate.size, 5e-4), "{} {}", kept.size, estimate.size);
        for arm in 0..6 {
            let [got, want] = [kept.outcome, estimate.outcome];
            prop_assert!(near(got.mean[arm], want.mean[arm], 5e-5), "{:?} {:?}", got, want);
            prop_assert_eq!(got.weight[arm], want.weight[arm]);
            prop_assert!(near(got.var.sqrt(), want.var.sqrt(), 2e-4));
        }
        for transport in 0..2 {
            prop_assert!(near(kept.open_rate[transport].0, estimate.open_rate[transport].0, 5e-4));
            prop_assert_eq!(kept.rate[transport].mean, estimate.rate[transport].mean);
        }
        let rest = Estimate {
            rate: estimate.rate,
            open_rate: estimate.open_rate,
            outcome: estimate.outcome,
            size: estimate.size,
            ..kept
        };
        prop_assert_eq!(rest, estimate);
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2 * ENCODED_LEN)) {
        let _ = Estimate::decode(&bytes);
    }

    #[test]
    fn an_app_limited_sample_never_lowers_the_rate(steps in observations(), mbps in 0u64..10_000) {
        let mut estimate = observed(&steps);
        let now = estimate.last_seen().unwrap_or(at(0));
        for transport in Transport::ALL {
            let version = [Version::H2, Version::H3][transport.index()];
            let before = estimate.delivery_rate(transport);
            estimate.on_path(&rated(version, mbps, true), now, &PolicyConfig::default());
            prop_assert!(estimate.delivery_rate(transport) >= before);
        }
    }
}
