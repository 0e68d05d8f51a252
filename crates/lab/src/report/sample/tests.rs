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

/// Makes `runs` runs of ten sessions that hardly differ within a run.
fn clustered(runs: u32, least: f64) -> Sample {
    let sessions = (0..runs * 10).map(|i| {
        let (run, session) = (i / 10, i % 10);
        let value = least + 10.0 * f64::from(run) + 0.1 * f64::from(session);
        (run, Exact(value))
    });
    sessions.collect()
}

#[test]
fn sessions_of_one_run_are_not_independent() {
    let three = clustered(3, 100.0);
    assert_eq!((three.len(), three.runs()), (30, 3));
    assert_eq!(three.size(), "3 × 10");
    // The range of the runs' medians.
    let interval = three.interval().unwrap();
    assert_eq!(
        (interval.low, interval.high),
        (Exact(100.45), Exact(120.45))
    );
    assert_eq!(interval.coverage, 0.75);
    let ten = clustered(10, 100.0).interval().unwrap();
    let (low, high) = (ten.low.at_least(), ten.high.at_least());
    assert!(low < 130.0 && high > 160.0, "{low} to {high}");
    assert_eq!(clustered(1, 100.0).interval(), None);
    let same = sample(&[Exact(1.0); 3]);
    assert_eq!((same.size().as_str(), same.runs()), ("3", 3));
}

#[test]
fn few_runs_are_significant_only_where_a_rank_sum_test_says_so() {
    let excess = |runs| {
        clustered(runs, 200.0)
            .excess(&clustered(runs, 100.0), 1)
            .unwrap()
    };
    // With three runs each, one of ten orders has all of one side first by chance.
    let three = excess(3);
    assert!((three.coverage - 0.9).abs() < 1e-12 && !three.is_significant());
    assert!(three.interval.unwrap().0 > 0.5);
    for runs in [4, 5, 6, 10] {
        assert!(excess(runs).is_significant(), "{runs}");
    }
    let near = clustered(5, 101.0).excess(&clustered(5, 100.0), 1).unwrap();
    assert!(!near.is_significant());
}

#[test]
fn confidence_is_that_of_the_intervals() {
    let cases: &[(&[f64], &str)] = &[
        (&[], "no interval of one value"),
        (&[0.75, 0.75], "75 % confidence interval"),
        (&[0.9375], "94 % confidence interval"),
        (&[0.9785, 0.95], "95 % confidence interval"),
        (&[0.96875, 0.9375, 0.75], "75–95 % confidence interval"),
    ];
    for (coverages, want) in cases {
        assert_eq!(confidence(coverages.iter().copied()), *want);
    }
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
