use proptest::prelude::*;

use super::*;

#[test]
fn quantiles_are_those_of_numpy() {
    let cases: &[(&[f64], f64, Option<f64>)] = &[
        (&[], 0.5, None),
        (&[7.0], 0.95, Some(7.0)),
        (&[1.0, 2.0], 0.5, Some(1.5)),
        (&[10.0, 20.0, 30.0, 40.0], 0.5, Some(25.0)),
        (&[10.0, 20.0, 30.0, 40.0, 50.0], 0.95, Some(48.0)),
        (
            &[1.0, f64::INFINITY, f64::INFINITY],
            0.9,
            Some(f64::INFINITY),
        ),
    ];
    for (values, p, want) in cases {
        assert_eq!(quantile(values, *p), *want, "{values:?} {p}");
    }
}

#[test]
fn ranks_of_the_median_s_interval() {
    // Ranks from 1, as in the table of W. J. Conover, Practical Nonparametric Statistics.
    let cases = [
        (2, 1, 0.5),
        (5, 1, 0.9375),
        (6, 1, 0.96875),
        (9, 2, 0.9609),
        (10, 2, 0.9785),
        (20, 6, 0.9586),
        (30, 10, 0.9572),
        (100, 40, 0.9648),
        (1000, 469, 0.9537),
        (10_000, 4902, 0.9512),
    ];
    for (n, low, coverage) in cases {
        let ranks = median_ranks(n).unwrap();
        assert_eq!(ranks.low + 1, low, "{n}");
        assert_eq!(ranks.high, n - low, "{n}");
        assert!((ranks.coverage - coverage).abs() < 1e-4, "{n}: {ranks:?}");
    }
    assert_eq!(median_ranks(1), None);
}

#[test]
fn shares_have_wilson_s_interval() {
    // 8 of 10 in the literature: 0.490 to 0.943.
    let (low, high) = share_interval(8, 10).unwrap();
    assert!((low - 0.490).abs() < 5e-4 && (high - 0.943).abs() < 5e-4);
    let (low, high) = share_interval(0, 30).unwrap();
    assert!(low.abs() < 1e-12 && (high - 0.1135).abs() < 5e-4);
    assert_eq!(share_interval(0, 0), None);
}

#[test]
fn jain_s_index_of_the_paper() {
    assert_eq!(jain(&[1.0, 1.0, 1.0, 1.0]), Some(1.0));
    assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
    assert_eq!(jain(&[3.0, 1.0]), Some(0.8));
    assert_eq!(jain(&[]), None);
    assert_eq!(jain(&[0.0, 0.0]), None);
}

#[test]
fn a_bootstrap_is_repeatable_and_covers_a_known_ratio() {
    let ratio = |a: &mut [f64], b: &mut [f64]| mean(a).unwrap() / mean(b).unwrap();
    let a: Vec<f64> = (0..40).map(|i| 195.0 + f64::from(i % 11)).collect();
    let b: Vec<f64> = (0..40).map(|i| 95.0 + f64::from(i % 11)).collect();
    let first = bootstrap(&a, &b, 7, ratio).unwrap();
    assert_eq!(bootstrap(&a, &b, 7, ratio).unwrap(), first);
    assert_ne!(bootstrap(&a, &b, 8, ratio).unwrap(), first);
    assert!(first.0 < 2.0 && 2.0 < first.1, "{first:?}");
    assert!(first.1 - first.0 < 0.05, "{first:?}");
    assert_eq!(bootstrap(&a[..1], &b, 7, ratio), None);
}

proptest! {
    #[test]
    fn quantiles_ascend(mut values in prop::collection::vec(-1e9..1e9, 1..100), p in 0.0..1.0, q in 0.0..1.0) {
        values.sort_by(f64::total_cmp);
        let (low, high) = if p < q { (p, q) } else { (q, p) };
        prop_assert!(quantile(&values, low) <= quantile(&values, high));
        prop_assert!(values[0] <= quantile(&values, low).unwrap());
        prop_assert!(quantile(&values, high).unwrap() <= values[values.len() - 1]);
    }

    #[test]
    fn the_interval_s_coverage_is_its_binomial_sum(n in 6..400_usize) {
        let ranks = median_ranks(n).unwrap();
        prop_assert!(ranks.coverage >= 0.95);
        prop_assert!(ranks.low < ranks.high && ranks.high == n - 1 - ranks.low);
    }

    #[test]
    fn jain_is_between_one_share_and_one(values in prop::collection::vec(0.001..1e6, 1..50)) {
        let index = jain(&values).unwrap();
        prop_assert!(index <= 1.0 + 1e-12 && index >= 1.0 / values.len() as f64 - 1e-12);
    }

    #[test]
    fn a_share_lies_in_its_interval(n in 1..200_usize, part in 0.0..=1.0) {
        let hits = (n as f64 * part) as usize;
        let (low, high) = share_interval(hits, n).unwrap();
        let share = hits as f64 / n as f64;
        prop_assert!(low <= share + 1e-12 && share <= high + 1e-12 && low < high);
    }
}
