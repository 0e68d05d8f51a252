//! Differences between carriers that several edges have seen, brought to one zero.

use crate::egress::Carrier;
use crate::fleet::Moments;

/// A measured quantity of each carrier, up to a number that all of a row have in common.
pub(super) type Row = [Moments; Carrier::COUNT];

/// The differences between carriers that all rows together show.
///
/// A row says by how much carriers differ, and not from what: an edge may have begun with any of them. So
/// the differences D and each row's zero b are those with the least Σ w (d - b - D)². Without b these are
/// linear equations, to which each row adds: for its weights w, of the sum W, and its means d,
///
/// ```text
/// (diag(w) - w wᵀ / W) D = w d - w (w · d) / W
/// ```
///
/// Carriers that no row compares with each other are taken to be alike.
pub(super) fn total(rows: &[Row]) -> Row {
    let mut equations = Equations::default();
    for row in rows {
        equations.add(row);
    }
    let differences = equations.solved();
    let mut total = Row::default();
    for row in rows {
        let Some(zero) = zero(row, &differences) else {
            continue;
        };
        for (sum, part) in total.iter_mut().zip(row) {
            sum.add(&part.moved(-zero));
        }
    }
    total
}

/// By how much the carriers of a row lie above `differences`.
fn zero(row: &Row, differences: &[f64; Carrier::COUNT]) -> Option<f64> {
    let known = || {
        row.iter()
            .zip(differences)
            .filter_map(|(part, base)| Some((part.weight, part.mean()? - base)))
    };
    let weight: f64 = known().map(|(weight, _)| weight).sum();
    let sum: f64 = known().map(|(weight, apart)| weight * apart).sum();
    (weight > 0.0).then(|| sum / weight)
}

/// The equations of the differences.
struct Equations {
    left: [[f64; Carrier::COUNT]; Carrier::COUNT],
    right: [f64; Carrier::COUNT],
}

impl Default for Equations {
    fn default() -> Self {
        let mut left = [[0.0; Carrier::COUNT]; Carrier::COUNT];
        for (place, line) in left.iter_mut().enumerate() {
            line[place] = ALIKE;
        }
        Self {
            left,
            right: [0.0; Carrier::COUNT],
        }
    }
}

impl Equations {
    fn add(&mut self, row: &Row) {
        let known = || {
            let parts = row.iter().enumerate();
            parts.filter_map(|(place, part)| Some((place, part.weight, part.mean()?)))
        };
        let all: f64 = known().map(|(_, weight, _)| weight).sum();
        let level: f64 = known().map(|(_, weight, mean)| weight * mean / all).sum();
        for (place, weight, mean) in known() {
            self.left[place][place] += weight;
            self.right[place] += weight * (mean - level);
            for (other, others, _) in known() {
                self.left[place][other] -= weight * others / all;
            }
        }
    }

    /// The solution, by elimination. The matrix is positive definite, so no line has to be exchanged.
    fn solved(mut self) -> [f64; Carrier::COUNT] {
        for pivot in 0..Carrier::COUNT {
            let (line, right) = (self.left[pivot], self.right[pivot]);
            for below in pivot + 1..Carrier::COUNT {
                let factor = self.left[below][pivot] / line[pivot];
                if factor != 0.0 {
                    for (to, from) in self.left[below].iter_mut().zip(line) {
                        *to -= factor * from;
                    }
                    self.right[below] -= factor * right;
                }
            }
        }
        for pivot in (0..Carrier::COUNT).rev() {
            let known = pivot + 1..Carrier::COUNT;
            let known: f64 = known
                .map(|place| self.left[pivot][place] * self.right[place])
                .sum();
            self.right[pivot] = (self.right[pivot] - known) / self.left[pivot][pivot];
        }
        self.right
    }
}

/// Samples by which carriers are taken to be alike that nothing compares.
const ALIKE: f64 = 1e-6;
