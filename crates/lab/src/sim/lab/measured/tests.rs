use super::*;

#[test]
fn jains_index() {
    for (name, shares, index) in [
        ("equal", &[5.0, 5.0, 5.0, 5.0][..], 1.0),
        ("one has all", &[8.0, 0.0, 0.0, 0.0], 0.25),
        ("three to one", &[3.0, 1.0], 0.8),
        ("nothing", &[0.0, 0.0], 0.0),
    ] {
        assert!((jain(shares) - index).abs() < 1e-12, "{name}");
    }
}

#[test]
fn quantiles_are_values_that_occurred() {
    let values = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    assert_eq!(quantile(&values, 0.5), Some(5));
    assert_eq!(quantile(&values, 0.95), Some(10));
    assert_eq!(quantile(&values[..1], 0.5), Some(1));
    assert_eq!(quantile(&[], 0.5), None);
}
