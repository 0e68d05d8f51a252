use hikyaku_units::Rate;

use super::*;

const MS: u64 = 1_000_000;

fn at_rate(bits_per_sec: u64) -> Transmitter {
    Transmitter::new(&Rate::from_bits_per_sec(bits_per_sec).into(), 0, 0)
}

fn trace(opportunities_ms: &[u64]) -> Capacity {
    Capacity::Trace(Trace::new(opportunities_ms.to_vec()).unwrap())
}

#[test]
fn busy_periods_are_exact() {
    for (name, bits_per_sec, bytes, packets) in [
        ("slow", 3, 1, 3_u64),
        ("not a divisor", 7_000_000, 1_514, 7_000),
        ("fast", 600_000_000, 1_514, 600_000),
        ("under 1 ns a bit", 9_999_999_999, 64, 9_999_999),
    ] {
        let mut transmitter = at_rate(bits_per_sec);
        let mut finish_ns = transmitter.start(0, bytes);
        for _ in 1..packets {
            finish_ns = transmitter.follow(bytes);
        }
        let bits = u128::from(packets) * u128::from(bytes) * 8;
        let exact = bits * NANOS_PER_SEC / u128::from(bits_per_sec);
        assert_eq!(u128::from(finish_ns), exact, "{name}");
    }
}

#[test]
fn an_idle_transmitter_starts_at_arrival() {
    let mut transmitter = at_rate(8_000_000);
    assert_eq!(transmitter.start(1_000, 1), 2_000);
    assert_eq!(transmitter.follow(1), 3_000);
    assert_eq!(transmitter.start(9_000, 1), 10_000);
}

#[test]
fn no_rate_takes_no_time_and_a_rate_of_zero_all_of_it() {
    let mut unlimited = Transmitter::new(&Capacity::Unlimited, 14, 0);
    assert_eq!(unlimited.start(5, 1_000_000), 5);
    assert_eq!(unlimited.finish_of(1_000_000), 5);
    assert_eq!(at_rate(0).start(5, 1), u64::MAX);
}

#[test]
fn a_trace_serves_waiting_packets_and_wastes_the_rest() {
    let mut transmitter = Transmitter::new(&trace(&[2, 2, 4, 10]), 14, 0);
    for (name, finish_ms, want_ms) in [
        ("arrives idle", transmitter.start(MS, 1_500), 2),
        ("the second of that ms", transmitter.follow(1_000), 2),
        ("fits the rest", transmitter.follow(500), 2),
        ("spans two", transmitter.follow(2_000), 10),
        ("shares the second", transmitter.follow(1_000), 10),
        ("the next pass", transmitter.follow(1), 12),
        ("missed by arriving then", transmitter.start(12 * MS, 1), 14),
        ("after idle passes", transmitter.start(105 * MS, 1_500), 110),
    ] {
        assert_eq!(finish_ms, want_ms * MS, "{name}");
    }
}

#[test]
fn the_finish_of_waiting_packets_is_predicted() {
    for capacity in [
        Rate::from_bits_per_sec(7_000_001).into(),
        trace(&[1, 1, 3, 9]),
    ] {
        let mut transmitter = Transmitter::new(&capacity, 0, 0);
        transmitter.start(0, 700);
        let predicted = transmitter.finish_of(5_000);
        transmitter.follow(4_000);
        let finish_ns = transmitter.follow(1_000);
        assert!(finish_ns.abs_diff(predicted) <= 1, "{capacity:?}");
    }
}

#[test]
fn the_rest_of_a_packet_leaves_at_the_new_capacity() {
    let mbps = |mbps| Capacity::from(Rate::from_mbps(mbps));
    let cases = [
        // name, before, after, changed at ms, finish in µs of 1500 B begun at 0
        ("faster", mbps(12), mbps(120), 0.5, 550),
        ("slower", mbps(12), mbps(6), 0.5, 1_500),
        ("no limit", mbps(12), Capacity::Unlimited, 0.5, 500),
        ("an outage ends", mbps(0), mbps(12), 7.0, 8_000),
        ("already gone", mbps(12), mbps(1), 3.0, 3_000),
        ("to a trace", mbps(12), trace(&[1, 4]), 0.5, 1_500),
        ("from a trace", trace(&[10]), mbps(12), 4.0, 5_000),
    ];
    for (name, before, after, change_ms, want_us) in cases {
        let mut transmitter = Transmitter::new(&before, 0, 0);
        transmitter.start(0, 1_500);
        let finish_ns = transmitter.change(&after, (change_ms * 1e6) as u64);
        assert_eq!(finish_ns, want_us * 1_000, "{name}");
    }
}

#[test]
fn only_the_unsent_parts_of_a_packet_remain() {
    let mut transmitter = Transmitter::new(&trace(&[1, 2, 3, 100]), 0, 0);
    assert_eq!(transmitter.start(0, 4_000), 3 * MS);
    let finish_ns = transmitter.change(&Rate::from_mbps(8).into(), MS);
    assert_eq!(finish_ns, MS + 2_500 * 1_000, "1500 B have left");
}
