use super::*;

const PACKET: u64 = 1_200;

fn at(start: Instant, ms: u64) -> Instant {
    start + Duration::from_millis(ms)
}

/// Sends a packet each millisecond from `begin` on, acknowledged 20 ms after its departure.
fn stream(delivery: &mut Delivery, start: Instant, begin: u64, limited: bool) -> Option<Sample> {
    let mut sample = None;
    for ms in begin..begin + 100 {
        delivery.on_sent(at(start, ms), PACKET);
        if ms >= begin + 20 {
            let sent = at(start, ms - 20);
            delivery.on_ack(PACKET);
            sample = delivery.on_end_acks(at(start, ms), sent, 20 * PACKET, limited);
        }
    }
    sample
}

#[test]
fn the_rate_is_the_capacity_of_the_path() {
    let start = Instant::now();
    let sample = stream(&mut Delivery::default(), start, 0, false).expect("acknowledged");
    assert!((sample.rate / 1_200_000.0 - 1.0).abs() < 0.01, "{sample:?}");
    assert_eq!(sample.rtt, Duration::from_millis(20));
    assert!(!sample.limited);
}

#[test]
fn idle_time_does_not_count() {
    let start = Instant::now();
    let mut delivery = Delivery::default();
    stream(&mut delivery, start, 0, false);
    delivery.on_ack(20 * PACKET);
    delivery.on_end_acks(at(start, 120), at(start, 99), 0, false);
    let sample = stream(&mut delivery, start, 60_000, false).expect("acknowledged");
    assert!((sample.rate / 1_200_000.0 - 1.0).abs() < 0.01, "{sample:?}");
}

#[test]
fn packets_sent_while_the_application_had_no_more_are_marked() {
    let start = Instant::now();
    let sample = stream(&mut Delivery::default(), start, 0, true);
    assert!(sample.is_some_and(|sample| sample.limited));
}

#[test]
fn acknowledgements_in_a_burst_do_not_look_fast() {
    let start = Instant::now();
    let mut delivery = Delivery::default();
    for ms in 0..50 {
        delivery.on_sent(at(start, ms), PACKET);
    }
    // The packets of 49 ms of sending arrive within one.
    let mut rates = Vec::new();
    for ms in 0..50 {
        delivery.on_ack(PACKET);
        let now = at(start, 70) + Duration::from_micros(ms * 20);
        let left = (49 - ms) * PACKET;
        rates.extend(delivery.on_end_acks(now, at(start, ms), left, false));
    }
    let largest = rates.iter().map(|sample| sample.rate).fold(0.0, f64::max);
    assert!(largest < 1_300_000.0, "{largest}");
}
