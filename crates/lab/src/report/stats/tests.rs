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
    let (low, high) = share_interval(0.8, 10).unwrap();
    assert!((low - 0.490).abs() < 5e-4 && (high - 0.943).abs() < 5e-4);
    let (low, high) = share_interval(0.0, 30).unwrap();
    assert!(low.abs() < 1e-12 && (high - 0.1135).abs() < 5e-4);
    assert_eq!(share_interval(0.0, 0), None);
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
    let runs = |low: f64| -> Vec<Vec<f64>> {
        let run = |i| vec![low + f64::from(i % 11)];
        (0..40).map(run).collect()
    };
    let (a, b) = (runs(195.0), runs(95.0));
    let limits = |seed| {
        let mut values = resampled(&a, &b, seed, ratio);
        values.sort_by(f64::total_cmp);
        middle(&values).unwrap()
    };
    let first = limits(7);
    assert_eq!(limits(7), first);
    assert_ne!(limits(8), first);
    assert!(first.0 < 2.0 && 2.0 < first.1, "{first:?}");
    assert!(first.1 - first.0 < 0.05, "{first:?}");
}

#[test]
fn a_bootstrap_draws_whole_runs() {
    let sums = resampled(&[vec![1, 2], vec![30, 40, 50]], &[], 1, |drawn, none| {
        assert!(none.is_empty());
        drawn.iter().sum::<i32>()
    });
    let possible = [6, 123, 240];
    assert!(sums.iter().all(|sum| possible.contains(sum)));
    assert!(possible.iter().all(|sum| sums.contains(sum)));
}

#[test]
fn ranks_of_a_shift_s_interval() {
    // Critical values of U, two-sided at 5 % (Mann and Whitney, 1947): one fewer is left out.
    let cases = [
        (2, 2, 0, 0.6667),
        (3, 3, 0, 0.9),
        (4, 4, 0, 0.9714),
        (3, 5, 0, 0.9643),
        (5, 5, 2, 0.9683),
        (5, 10, 8, 0.9600),
        (10, 5, 8, 0.9600),
    ];
    for (m, n, left_out, coverage) in cases {
        let (got, sure) = shift_ranks(m, n).unwrap();
        assert_eq!(got, left_out, "{m} and {n}: {sure}");
        assert!((sure - coverage).abs() < 1e-4, "{m} and {n}: {sure}");
    }
    assert_eq!(shift_ranks(0, 3), None);
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
        let (low, high) = share_interval(hits as f64 / n as f64, n).unwrap();
        let share = hits as f64 / n as f64;
        prop_assert!(low <= share + 1e-12 && share <= high + 1e-12 && low < high);
    }
}
