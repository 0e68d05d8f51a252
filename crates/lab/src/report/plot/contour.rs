//! The zero line of a grid of values.

/// Part of the zero line, from one edge of a square of the grid to another.
type Segment = [(f64, f64); 2];

/// Returns the zero line of values at the points `(xs[i], ys[j])`, given as `values[j][i]`. It
/// interpolates linearly along the grid's edges (marching squares). Squares with an unknown corner
/// (`NaN`) have none.
pub(in crate::report) fn zero_line(xs: &[f64], ys: &[f64], values: &[Vec<f64>]) -> Vec<Segment> {
    let mut segments = vec![];
    for j in 1..ys.len() {
        for i in 1..xs.len() {
            let corner = |di: usize, dj: usize| {
                let value = values[j - 1 + dj][i - 1 + di];
                (xs[i - 1 + di], ys[j - 1 + dj], value)
            };
            // Corners around the square.
            let corners = [corner(0, 0), corner(1, 0), corner(1, 1), corner(0, 1)];
            square(&corners, &mut segments);
        }
    }
    segments
}

fn square(corners: &[(f64, f64, f64); 4], segments: &mut Vec<Segment>) {
    if corners.iter().any(|(_, _, value)| value.is_nan()) {
        return;
    }
    let crossings: Vec<(f64, f64)> = (0..4)
        .filter_map(|i| crossing(corners[i], corners[(i + 1) % 4]))
        .collect();
    match crossings[..] {
        [a, b] => segments.push([a, b]),
        // A saddle: the mean decides which corners belong together.
        [a, b, c, d] => {
            let mean: f64 = corners.iter().map(|(_, _, value)| value).sum();
            if (mean >= 0.0) == (corners[0].2 >= 0.0) {
                segments.extend([[a, b], [c, d]]);
            } else {
                segments.extend([[d, a], [b, c]]);
            }
        }
        _ => {}
    }
}

/// Returns the point of a sign change between two corners; zero counts as positive.
fn crossing(from: (f64, f64, f64), to: (f64, f64, f64)) -> Option<(f64, f64)> {
    if (from.2 >= 0.0) == (to.2 >= 0.0) {
        return None;
    }
    let share = from.2 / (from.2 - to.2);
    Some((
        from.0 + (to.0 - from.0) * share,
        from.1 + (to.1 - from.1) * share,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plane_has_a_straight_zero_line() {
        // value = x - 1.5
        let xs = [0.0, 1.0, 2.0];
        let row: Vec<f64> = xs.iter().map(|x| x - 1.5).collect();
        let lines = zero_line(&xs, &[0.0, 10.0], &[row.clone(), row]);
        assert_eq!(lines, [[(1.5, 0.0), (1.5, 10.0)]]);
    }

    #[test]
    fn one_sign_has_none_and_unknown_corners_hide_theirs() {
        let (xs, ys) = ([0.0, 1.0], [0.0, 1.0]);
        assert!(zero_line(&xs, &ys, &[vec![1.0, 2.0], vec![0.0, 1.0]]).is_empty());
        assert!(zero_line(&xs, &ys, &[vec![1.0, f64::NAN], vec![-1.0, 1.0]]).is_empty());
        assert!(zero_line(&[1.0], &ys, &[vec![1.0], vec![-1.0]]).is_empty());
    }

    #[test]
    fn a_saddle_has_two_parts() {
        let saddle = [vec![1.0, -1.0], vec![-1.0, 3.0]];
        let lines = zero_line(&[0.0, 1.0], &[0.0, 1.0], &saddle);
        assert_eq!(lines.len(), 2);
        // The positive corners are joined: the lines cut off the negative ones.
        assert!(lines.iter().any(|[a, b]| a.0 >= 0.5 && b.0 >= 0.5));
    }
}
