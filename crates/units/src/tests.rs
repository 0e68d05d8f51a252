use std::time::Duration;

use proptest::prelude::*;
use serde::Deserialize;

use super::{ByteSize, LossRate, Problem, Rate, Timestamp, duration};

#[test]
fn rates_are_read_strictly() {
    let cases: &[(&str, Result<u64, Problem>)] = &[
        ("20Mbps", Ok(20_000_000)),
        ("1.5Gbps", Ok(1_500_000_000)),
        ("0.064Mbps", Ok(64_000)),
        ("1.50kbps", Ok(1_500)),
        ("0bps", Ok(0)),
        ("18446744073709551615bps", Ok(u64::MAX)),
        ("18446744073709551616bps", Err(Problem::Range)),
        (
            "99999999999999999999999999999999999999999bps",
            Err(Problem::Range),
        ),
        ("20", Err(Problem::NoUnit)),
        ("", Err(Problem::Number)),
        ("Mbps", Err(Problem::Number)),
        ("-1Mbps", Err(Problem::Number)),
        (".5Mbps", Err(Problem::Number)),
        ("5.Mbps", Err(Problem::Number)),
        ("1.2.3Mbps", Err(Problem::Number)),
        ("20mbps", Err(Problem::Unit)),
        ("20 Mbps", Err(Problem::Unit)),
        ("20Mbit/s", Err(Problem::Unit)),
        ("0.5bps", Err(Problem::Fraction)),
        (
            "1.0000000000000000000000000000000000000000001Gbps",
            Err(Problem::Fraction),
        ),
    ];
    for (text, want) in cases {
        let got = text
            .parse::<Rate>()
            .map(Rate::bits_per_sec)
            .map_err(|e| e.problem());
        assert_eq!(got, *want, "`{text}`");
    }
}

#[test]
fn errors_name_the_expected_form() {
    let cases = [
        (
            "20Mbit".parse::<Rate>().unwrap_err(),
            "reading a rate from `20Mbit`: unknown unit; \
             expected a number and one of bps, kbps, Mbps, Gbps, such as `20Mbps`",
        ),
        (
            duration::parse("15").unwrap_err(),
            "reading a duration from `15`: the unit is missing; \
             expected a number and one of ns, us, ms, s, m, h, d, such as `15s`",
        ),
        (
            "101%".parse::<LossRate>().unwrap_err(),
            "reading a loss rate from `101%`: too large; \
             expected a number from 0% to 100%, or in ppm, such as `0.5%`",
        ),
    ];
    for (error, want) in cases {
        assert_eq!(error.to_string(), want);
    }
    let long = "x"
        .repeat(1000)
        .parse::<ByteSize>()
        .unwrap_err()
        .to_string();
    assert!(
        long.len() < 250,
        "an error repeats only the start of a long text: {long}"
    );
}

#[test]
fn sizes_losses_and_durations_are_read() {
    assert_eq!("64KiB".parse(), Ok(ByteSize::from_kib(64)));
    assert_eq!("1MiB".parse(), Ok(ByteSize::from_mib(1)));
    assert_eq!("1MB".parse(), Ok(ByteSize::from_bytes(1_000_000)));
    assert_eq!("1500".parse(), Ok(ByteSize::from_bytes(1500)));
    assert_eq!("0.0001%".parse().ok(), LossRate::from_ppm(1));
    assert_eq!("300ppm".parse().ok(), LossRate::from_ppm(300));
    assert_eq!(duration::parse("500ms"), Ok(Duration::from_millis(500)));
    assert_eq!(duration::parse("1.5h"), Ok(Duration::from_secs(5400)));
    assert_eq!(duration::parse("1d"), Ok(Duration::from_secs(86_400)));
}

#[test]
fn a_size_may_be_a_number_in_json() {
    #[derive(Debug, Deserialize)]
    struct Config {
        limit: ByteSize,
        #[serde(with = "duration")]
        wait: Duration,
    }
    let config: Config = serde_json::from_str(r#"{"limit": 4096, "wait": "15s"}"#).unwrap();
    assert_eq!(
        (config.limit, config.wait),
        (ByteSize::from_kib(4), Duration::from_secs(15))
    );
    let negative = serde_json::from_str::<Config>(r#"{"limit": -1, "wait": "15s"}"#);
    assert!(
        negative
            .unwrap_err()
            .to_string()
            .contains("invalid value: integer `-1`")
    );
}

#[test]
fn derived_quantities() {
    let rate = Rate::from_mbps(200);
    assert_eq!(rate.bdp_bytes(Duration::from_millis(50)), 1_250_000);
    assert_eq!(Rate::of(1_250_000, Duration::from_millis(50)), Some(rate));
    assert_eq!(Rate::of(1, Duration::ZERO), None);
    assert_eq!(
        Rate::of(u64::MAX, Duration::from_nanos(1))
            .unwrap()
            .bits_per_sec(),
        u64::MAX
    );
    assert_eq!(LossRate::from_fraction(0.01).ppm(), 10_000);
    assert_eq!(LossRate::from_fraction(f64::NAN), LossRate::ZERO);
    assert_eq!(LossRate::from_fraction(7.0).ppm(), 1_000_000);
    assert_eq!(LossRate::from_ppm(1_000_001), None);
}

#[test]
fn time_saturates() {
    let start = Timestamp::from_secs(10);
    assert_eq!(start.saturating_add(Duration::MAX).as_micros(), u64::MAX);
    assert_eq!(
        start.saturating_sub(Duration::from_secs(11)),
        Timestamp::default()
    );
    assert_eq!(start.since(Timestamp::from_secs(20)), Duration::ZERO);
    assert_eq!(
        Timestamp::from_secs(12).since(start),
        Duration::from_secs(2)
    );
    assert_eq!(Timestamp::from_secs(u64::MAX).as_micros(), u64::MAX);
}

proptest! {
    #[test]
    fn printed_quantities_are_read_back(n in any::<u64>(), ppm in 0u32..=1_000_000, zeros in 0u32..12) {
        let n = n / 10u64.pow(zeros) * 10u64.pow(zeros);
        let rate = Rate::from_bits_per_sec(n);
        prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        let size = ByteSize::from_bytes(n);
        prop_assert_eq!(size.to_string().parse(), Ok(size));
        let time = Duration::from_nanos(n);
        prop_assert_eq!(duration::parse(&duration::display(time).to_string()), Ok(time));
        let loss = LossRate::from_ppm(ppm).unwrap();
        prop_assert_eq!(loss.to_string().parse(), Ok(loss));
        let json = serde_json::to_string(&(rate, size, loss)).unwrap();
        prop_assert_eq!(serde_json::from_str::<(Rate, ByteSize, LossRate)>(&json).unwrap(), (rate, size, loss));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,60}", number in "[0-9.]{0,45}", unit in "[a-zA-Z%]{0,4}") {
        for text in [text, format!("{number}{unit}")] {
            let _ = text.parse::<Rate>();
            let _ = text.parse::<ByteSize>();
            let _ = text.parse::<LossRate>();
            let _ = duration::parse(&text);
        }
    }
}

crate::names! {
    /// Answers of a test.
    enum Answer {
        Yes = "yes",
        NotYet = "not_yet",
    }
}

#[test]
fn names_are_at_their_indices() {
    assert_eq!(Answer::ALL.map(Answer::name), ["yes", "not_yet"]);
    assert_eq!(Answer::ALL.map(Answer::index), [0, 1]);
}
