//! Lattice regression fits the values at the points of a grid. Linear interpolation between them
//! then comes nearest to scattered measurements (Garcia and Gupta, "Lattice regression", NIPS
//! 2009).
//!
//! A measurement constrains the 16 corners around it. A penalty on curvature fills in the other
//! points from their neighbours.

use super::table::{Shape, Table};

/// A point in the lattice's coordinates: RTT, loss, rate, size.
pub(super) type Place = [f64; 4];

/// The grid, in coordinates in which load times are nearly straight.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lattice {
    /// Ascending knots of each axis; at least one.
    pub(super) axes: [Vec<f64>; 4],
}

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) place: Place,
    pub(super) value: f64,
    pub(super) weight: f64,
}

/// Strength of the penalty on curvature, relative to a measurement's weight. It is weak, since it
/// must fill gaps and level noise, but not straighten measurements.
const STIFFNESS: f64 = 0.05;
/// Strength of the penalty on slopes, which decides only points without any other constraint.
const FLATNESS: f64 = 1e-4;
/// Relative error at which the iteration ends.
const PRECISION: f64 = 1e-9;
const MAX_ITERATIONS: usize = 2_000;

impl Lattice {
    pub(super) fn shape(&self) -> Shape {
        [0, 1, 2, 3].map(|axis| self.axes[axis].len())
    }

    /// Returns the corners around a place and their weights, which sum to 1. A place outside is
    /// moved to the edge.
    pub(super) fn corners(&self, place: &Place) -> impl Iterator<Item = (usize, f64)> {
        let spots: Vec<(usize, f64)> = self
            .axes
            .iter()
            .zip(place)
            .map(|(knots, &at)| locate(knots, at))
            .collect();
        let shape = self.shape();
        (0..16_usize).filter_map(move |corner| {
            let (mut flat, mut weight) = (0, 1.0);
            for (axis, &(below, share)) in spots.iter().enumerate() {
                let above = corner >> axis & 1;
                weight *= if above == 1 { share } else { 1.0 - share };
                flat = flat * shape[axis] + below + above;
            }
            (weight > 0.0).then_some((flat, weight))
        })
    }

    /// Returns the value at a place between the values of a table.
    pub(super) fn at(&self, table: &Table, place: &Place) -> f64 {
        self.corners(place)
            .map(|(flat, weight)| weight * table.values[flat])
            .sum()
    }

    /// Returns the table that comes nearest to the points; zero without any.
    pub(super) fn fit(&self, points: &[Point]) -> Table {
        let shape = self.shape();
        let weight: f64 = points.iter().map(|point| point.weight).sum();
        let mean = points
            .iter()
            .map(|point| point.weight * point.value)
            .sum::<f64>()
            / weight;
        if !mean.is_finite() {
            return Table::from_fn(shape, |_| 0.0);
        }
        let mut system = System::default();
        for point in points {
            let row: Vec<_> = self.corners(&point.place).collect();
            system.add(row, point.value - mean, point.weight);
        }
        self.add_penalties(&mut system);
        let solution = system.solve(shape.iter().product());
        let mut values = solution.into_iter();
        Table::from_fn(shape, |_| mean + values.next().unwrap_or_default())
    }

    fn add_penalties(&self, system: &mut System) {
        let shape = self.shape();
        for (axis, knots) in self.axes.iter().enumerate() {
            let stride: usize = shape[axis + 1..].iter().product();
            for flat in 0..shape.iter().product() {
                let i = flat / stride % knots.len();
                if i == 0 {
                    continue;
                }
                system.add(vec![(flat - stride, -1.0), (flat, 1.0)], 0.0, FLATNESS);
                if i + 1 == knots.len() {
                    continue;
                }
                let share = (knots[i] - knots[i - 1]) / (knots[i + 1] - knots[i - 1]);
                let row = vec![
                    (flat - stride, share - 1.0),
                    (flat, 1.0),
                    (flat + stride, -share),
                ];
                system.add(row, 0.0, STIFFNESS);
            }
        }
    }
}

/// Returns the knot below, and the share of the distance to the next.
fn locate(knots: &[f64], at: f64) -> (usize, f64) {
    let last = knots.len() - 1;
    let above = knots.partition_point(|&knot| knot <= at);
    if above == 0 {
        return (0, 0.0);
    }
    if above > last {
        return (last, 0.0);
    }
    let (low, high) = (knots[above - 1], knots[above]);
    (above - 1, (at - low) / (high - low))
}

/// Weighted linear equations, more than unknowns: each is a sum of some unknowns.
#[derive(Default)]
struct System {
    rows: Vec<Row>,
}

struct Row {
    terms: Vec<(usize, f64)>,
    value: f64,
    weight: f64,
}

impl Row {
    fn sum(&self, unknowns: &[f64]) -> f64 {
        self.terms
            .iter()
            .map(|&(i, factor)| factor * unknowns[i])
            .sum()
    }
}

impl System {
    fn add(&mut self, terms: Vec<(usize, f64)>, value: f64, weight: f64) {
        self.rows.push(Row {
            terms,
            value,
            weight,
        });
    }

    /// Returns the normal equations' matrix times `unknowns`.
    fn normal(&self, unknowns: &[f64]) -> Vec<f64> {
        self.spread(unknowns.len(), |row| row.sum(unknowns))
    }

    fn spread(&self, len: usize, value: impl Fn(&Row) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; len];
        for row in &self.rows {
            let value = row.weight * value(row);
            for &(i, factor) in &row.terms {
                sums[i] += factor * value;
            }
        }
        sums
    }

    /// Solves least squares by conjugate gradients on the normal equations (Hestenes and Stiefel
    /// 1952), preconditioned by their diagonal.
    fn solve(&self, len: usize) -> Vec<f64> {
        let mut diagonal = vec![0.0; len];
        for row in &self.rows {
            for &(i, factor) in &row.terms {
                diagonal[i] += row.weight * factor * factor;
            }
        }
        let scaled = |residual: &[f64]| -> Vec<f64> {
            residual
                .iter()
                .zip(&diagonal)
                .map(|(r, d)| if *d > 0.0 { r / d } else { 0.0 })
                .collect()
        };
        let mut solution = vec![0.0; len];
        let mut residual = self.spread(len, |row| row.value);
        let mut direction = scaled(&residual);
        let mut error = dot(&residual, &direction);
        let enough = error * PRECISION * PRECISION;
        for _ in 0..MAX_ITERATIONS {
            if error <= enough {
                break;
            }
            let image = self.normal(&direction);
            let step = error / dot(&direction, &image);
            add(&mut solution, step, &direction);
            add(&mut residual, -step, &image);
            let next = scaled(&residual);
            let former = std::mem::replace(&mut error, dot(&residual, &next));
            let mut turned = next;
            add(&mut turned, error / former, &direction);
            direction = turned;
        }
        solution
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], factor: f64, other: &[f64]) {
    for (to, other) in to.iter_mut().zip(other) {
        *to += factor * other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lattice() -> Lattice {
        Lattice {
            axes: [
                vec![0.0, 1.0, 3.0],
                vec![0.0, 1.0],
                vec![0.0, 2.0, 3.0, 4.0],
                vec![1.0],
            ],
        }
    }

    fn law(place: &Place) -> f64 {
        2.0 + place[0] - 0.5 * place[1] + 3.0 * place[2]
    }

    fn point(place: Place, value: f64) -> Point {
        Point {
            place,
            value,
            weight: 1.0,
        }
    }

    #[test]
    fn corners_surround_a_place_and_weigh_one() {
        let lattice = lattice();
        let places = [
            [0.0, 0.0, 0.0, 1.0],
            [2.9, 0.3, 2.5, 1.0],
            [-1.0, 9.0, 4.0, 0.0],
        ];
        for place in places {
            let (sum, mut at) = (
                lattice.corners(&place).map(|(_, w)| w).sum::<f64>(),
                [0.0; 3],
            );
            assert!((sum - 1.0).abs() < 1e-12, "{place:?}");
            for (flat, weight) in lattice.corners(&place) {
                let knots = [flat / 8, flat / 4 % 2, flat % 4];
                for axis in 0..3 {
                    at[axis] += weight * lattice.axes[axis][knots[axis]];
                }
            }
            for axis in 0..3 {
                let knots = &lattice.axes[axis];
                let inside = place[axis].clamp(knots[0], knots[knots.len() - 1]);
                assert!((at[axis] - inside).abs() < 1e-12, "{place:?}: {at:?}");
            }
        }
    }

    #[test]
    fn a_straight_law_is_found_again_from_scattered_points_and_goes_on_into_gaps() {
        let lattice = lattice();
        // No points beyond 2.2 on the third axis.
        let points: Vec<Point> = (0..60)
            .map(|i| {
                let i = f64::from(i);
                let place = [(i * 0.71) % 3.0, (i * 0.37) % 1.0, (i * 0.53) % 2.2, 1.0];
                point(place, law(&place))
            })
            .collect();
        let table = lattice.fit(&points);
        for place in [[0.5, 0.5, 0.5, 1.0], [3.0, 1.0, 2.0, 1.0]] {
            assert!(
                (lattice.at(&table, &place) - law(&place)).abs() < 0.01,
                "{place:?}"
            );
        }
        let far = [1.0, 0.0, 4.0, 1.0];
        assert!((lattice.at(&table, &far) - law(&far)).abs() < 0.1);
    }

    #[test]
    fn weight_decides_between_contradicting_points() {
        let lattice = lattice();
        let place = [1.0, 0.0, 2.0, 1.0];
        let heavy = Point {
            weight: 9.0,
            ..point(place, 1.0)
        };
        let table = lattice.fit(&[heavy, point(place, 2.0)]);
        assert!((lattice.at(&table, &place) - 1.1).abs() < 0.02);
    }

    #[test]
    fn nothing_is_fitted_from_nothing() {
        assert!(lattice().fit(&[]).values.iter().all(|value| *value == 0.0));
    }
}
