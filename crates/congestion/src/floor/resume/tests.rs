//! Each test quotes a sentence of RFC 9959.

use hikyaku_units::ByteSize;

use super::*;

const MS: Duration = Duration::from_millis(1);
const BDP: u64 = 400_000;

fn known() -> SavedPath {
    SavedPath {
        bdp: ByteSize::from_bytes(BDP),
        min_rtt: MS * 40,
    }
}

/// A connection that has jumped with 10 kB in flight.
fn jumped(now: Instant) -> Resume {
    let mut resume = Resume::new(Some(known()));
    assert!(!resume.confirm(MS * 40));
    assert_eq!(resume.jump(now, 10_000), Some(200_000.0));
    resume
}

/// "If the minimum RTT [...] is less than or equal to (saved_rtt / 2) [...], the sender MUST stop using
/// Careful Resume."
#[test]
fn half_of_the_known_rtt_is_another_path() {
    for (rtt, other) in [(19, true), (20, true), (21, false), (80, false), (81, true)] {
        let mut resume = Resume::new(Some(known()));
        assert_eq!(resume.confirm(MS * rtt), other, "{rtt} ms");
        let jump = resume.jump(Instant::now(), 10_000);
        assert_eq!(jump.is_none(), other, "{rtt} ms");
    }
}

/// "If the sender detects congestion, [...] use of the saved CC parameters is inappropriate. The
/// sender stops using Careful Resume."
#[test]
fn congestion_before_the_jump_ends_it() {
    let now = Instant::now();
    let mut resume = Resume::new(Some(known()));
    resume.confirm(MS * 40);
    assert_eq!(resume.retreat(now), None);
    assert_eq!(resume.jump(now, 10_000), None);
}

/// "The jump_cwnd MUST be no more than half of the saved_cwnd", and one connection jumps once.
#[test]
fn it_jumps_once_to_half() {
    let now = Instant::now();
    assert_eq!(jumped(now).jump(now, 10_000), None);
}

/// If "flight_size is less than or equal to the PipeSize", "the CWND is reset to the PipeSize".
/// "Otherwise, the CWND MUST be set to the flight_size."
#[test]
fn only_what_is_used_of_the_jump_stays() {
    let now = Instant::now();
    let sent = now + MS;
    for (name, flight, want, over) in [
        ("rate-limited", 5_000.0, 12_000.0, true),
        ("used in part", 90_000.0, 90_000.0, false),
        ("used", 200_000.0, 200_000.0, false),
    ] {
        let mut resume = jumped(now);
        let got = resume.acked(now + MS * 41, sent, 2_000, flight);
        assert_eq!(got, Validated::Window(want), "{name}");
        assert_eq!(matches!(resume, Resume::Off), over, "{name}");
    }
}

/// The sender stops when an ACK "acknowledges the last packet number (or higher) that was sent in the
/// Unvalidated Phase".
#[test]
fn it_is_validated_by_the_last_unvalidated_packet() {
    let now = Instant::now();
    let mut resume = jumped(now);
    let until = now + MS * 40;
    resume.acked(until, now, 10_000, 200_000.0);
    assert!(matches!(resume, Resume::Validating { .. }));
    resume.acked(until + MS * 39, until - MS, 100_000, 200_000.0);
    assert!(matches!(resume, Resume::Validating { .. }));
    resume.acked(until + MS * 40, until, 10_000, 200_000.0);
    assert!(matches!(resume, Resume::Off));
}

/// "The CWND MUST be reduced to no more than (PipeSize/2)." Later "the ssthresh MUST be set to no
/// larger than the most recently measured PipeSize * Beta".
#[test]
fn it_retreats_to_half_of_what_was_delivered() {
    let now = Instant::now();
    let mut resume = jumped(now);
    resume.acked(now + MS * 30, now - MS, 6_000, 100_000.0);
    let congested = now + MS * 50;
    assert_eq!(resume.retreat(congested), Some(8_000.0));
    assert_eq!(resume.retreat(congested), None, "the same congestion");
    let got = resume.acked(congested + MS * 20, congested - MS, 24_000, 90_000.0);
    assert_eq!(got, Validated::Nothing);
    let got = resume.acked(congested + MS * 41, congested + MS, 1_000, 20_000.0);
    assert_eq!(got, Validated::Threshold(28_000.0));
    assert!(matches!(resume, Resume::Off));
}
