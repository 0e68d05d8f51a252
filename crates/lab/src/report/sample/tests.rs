use proptest::prelude::*;

use super::Value::{Exact, Failed, Over};
use super::*;

fn sample(values: &[Value]) -> Sample {
    values.iter().copied().collect()
}

#[test]
fn medians_know_of_sessions_that_did_not_end() {
    let cases: &[(&str, &[Value], Option<Value>)] = &[
        ("none", &[], None),
        (
            "odd",
            &[Exact(3.0), Exact(1.0), Exact(2.0)],
            Some(Exact(2.0)),
        ),
        ("even", &[Exact(4.0), Exact(1.0)], Some(Exact(2.5))),
        (
            "a slow one",
            &[Exact(1.0), Over(120.0), Exact(2.0)],
            Some(Exact(2.0)),
        ),
        (
            "most timed out",
            &[Over(120.0), Exact(1.0), Over(120.0)],
            Some(Over(120.0)),
        ),
        (
            "half timed out",
            &[Exact(100.0), Over(120.0)],
            Some(Over(110.0)),
        ),
        (
            "given up early, still slower",
            &[Exact(9.0), Over(5.0), Over(5.0)],
            Some(Over(5.0)),
        ),
        ("failed", &[Failed, Exact(1.0), Failed], Some(Failed)),
        (
            "failed after timed out",
            &[Failed, Over(120.0), Over(120.0)],
            Some(Over(120.0)),
        ),
    ];
    for (name, values, want) in cases {
        assert_eq!(sample(values).median(), *want, "{name}");
    }
}

#[test]
fn the_interval_is_made_of_order_statistics() {
    let values: Vec<Value> = (1..=10).map(|i| Exact(f64::from(i))).collect();
    let interval = sample(&values).interval().unwrap();
    assert_eq!((interval.low, interval.high), (Exact(2.0), Exact(9.0)));
    assert_eq!(sample(&values[..1]).interval(), None);
}

#[test]
fn excess_of_known_and_unknown_medians() {
    let (one, two) = (sample(&[Exact(1.0); 8]), sample(&[Exact(2.0); 8]));
    let out = sample(&[Over(4.0); 8]);
    let excess = |a: &Sample, b: &Sample| {
        let excess = a.excess(b, 1).unwrap();
        (excess.value, excess.certainty)
    };
    assert_eq!(excess(&two, &one), (1.0, Certainty::Exact));
    assert_eq!(excess(&one, &two), (-0.5, Certainty::Exact));
    assert_eq!(excess(&out, &two), (1.0, Certainty::AtLeast));
    assert_eq!(excess(&two, &out), (-0.5, Certainty::AtMost));
    assert_eq!(excess(&out, &out).1, Certainty::Unknown);
    assert_eq!(two.excess(&one, 1).unwrap().interval, Some((1.0, 1.0)));
    assert!(one.excess(&Sample::default(), 1).is_none());
}

#[test]
fn noise_is_not_significant() {
    let wide: Sample = (0..10).map(|i| Exact(90.0 + 2.0 * f64::from(i))).collect();
    let same: Sample = (0..10).map(|i| Exact(91.0 + 2.0 * f64::from(i))).collect();
    let far: Sample = (0..10).map(|i| Exact(190.0 + 2.0 * f64::from(i))).collect();
    assert!(!wide.excess(&same, 1).unwrap().is_significant());
    assert!(far.excess(&wide, 1).unwrap().is_significant());
}

#[test]
fn one_value_is_not_significant_unless_it_timed_out() {
    let (one, two, out) = (
        sample(&[Exact(1.0)]),
        sample(&[Exact(2.0)]),
        sample(&[Over(2.0)]),
    );
    let is_significant = |a: &Sample, b: &Sample| a.excess(b, 1).unwrap().is_significant();
    assert!(!is_significant(&two, &one));
    assert!(is_significant(&out, &one) && is_significant(&one, &out));
    assert!(!is_significant(&out, &out));
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (1.0..1e6).prop_map(Exact),
        1 => Just(Over(1e6)),
        1 => Just(Failed),
    ]
}

proptest! {
    #[test]
    fn giving_up_never_makes_the_median_better(values in prop::collection::vec(value(), 1..60), which in any::<prop::sample::Index>()) {
        let before = sample(&values).median().unwrap();
        let mut worse = values.clone();
        let index = which.index(values.len());
        worse[index] = Failed;
        let after = sample(&worse).median().unwrap();
        prop_assert!(after.at_least() >= before.at_least() || after.rank().0 > before.rank().0);
    }

    #[test]
    fn the_median_is_in_its_interval(values in prop::collection::vec(value(), 2..60)) {
        let sample = sample(&values);
        let (median, interval) = (sample.median().unwrap(), sample.interval().unwrap());
        prop_assert!(interval.low.rank().0 <= median.rank().0);
        prop_assert!(median.rank().0 <= interval.high.rank().0);
    }
}
