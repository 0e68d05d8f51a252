//! Values at all points of a grid of four axes, and the trends that physics demands.

use std::collections::VecDeque;

/// Lengths of the axes: RTT, loss, rate, size. The last changes fastest.
pub(super) type Shape = [usize; 4];

/// The trend of values along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trend {
    Rising,
    Falling,
}

/// Values at all points of the grid.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    pub(super) shape: Shape,
    pub(super) values: Vec<f64>,
}

/// Largest number of rounds of projection; they stop early once no value changes.
const ROUNDS: usize = 200;

impl Table {
    pub(super) fn from_fn(shape: Shape, mut value: impl FnMut([usize; 4]) -> f64) -> Self {
        let values = (0..shape.iter().product())
            .map(|flat| value(point(shape, flat)))
            .collect();
        Self { shape, values }
    }

    /// Makes the table monotone along every axis with a trend, by small changes. It runs isotonic
    /// regression along one axis after another (pool adjacent violators) until no value changes. A
    /// running maximum levels the errors of rounding.
    pub(super) fn make_monotone(&mut self, trends: [Option<Trend>; 4]) {
        for _ in 0..ROUNDS {
            let before = self.values.clone();
            for (axis, trend) in directed(trends) {
                self.along(axis, trend, pool_adjacent_violators);
            }
            let change = before.iter().zip(&self.values).map(|(a, b)| (a - b).abs());
            if change.fold(0.0, f64::max) < 1e-9 {
                break;
            }
        }
        for (axis, trend) in directed(trends) {
            self.along(axis, trend, running_maximum);
        }
    }

    /// Returns for each point the number of steps along the axes to the nearest one with
    /// `is_start`; 0 if none has it.
    pub(super) fn steps_from(&self, is_start: impl Fn(f64) -> bool) -> Vec<usize> {
        let mut steps: Vec<Option<usize>> = self
            .values
            .iter()
            .map(|&value| is_start(value).then_some(0))
            .collect();
        let mut front: VecDeque<usize> = (0..steps.len()).filter(|&i| steps[i].is_some()).collect();
        while let Some(flat) = front.pop_front() {
            let next = steps[flat].map(|steps| steps + 1);
            for neighbour in self.neighbours(flat) {
                if steps[neighbour].is_none() {
                    steps[neighbour] = next;
                    front.push_back(neighbour);
                }
            }
        }
        steps.into_iter().map(Option::unwrap_or_default).collect()
    }

    fn neighbours(&self, flat: usize) -> impl Iterator<Item = usize> {
        let shape = self.shape;
        (0..4).flat_map(move |axis| {
            let stride: usize = shape[axis + 1..].iter().product();
            let at = flat / stride % shape[axis];
            let below = (at > 0).then(|| flat - stride);
            let above = (at + 1 < shape[axis]).then(|| flat + stride);
            below.into_iter().chain(above)
        })
    }

    /// Applies `change` to every line of points along an axis, turned so that it should rise.
    fn along(&mut self, axis: usize, trend: Trend, change: fn(&mut [f64])) {
        let stride: usize = self.shape[axis + 1..].iter().product();
        let len = self.shape[axis];
        for first in (0..self.values.len()).filter(|flat| (flat / stride).is_multiple_of(len)) {
            let mut line: Vec<f64> = (0..len).map(|i| self.values[first + i * stride]).collect();
            if trend == Trend::Falling {
                line.reverse();
            }
            change(&mut line);
            if trend == Trend::Falling {
                line.reverse();
            }
            for (i, value) in line.into_iter().enumerate() {
                self.values[first + i * stride] = value;
            }
        }
    }
}

/// Returns the axes with a trend.
fn directed(trends: [Option<Trend>; 4]) -> impl Iterator<Item = (usize, Trend)> {
    let axes = trends.into_iter().enumerate();
    axes.filter_map(|(axis, trend)| Some((axis, trend?)))
}

pub(super) fn point(shape: Shape, mut flat: usize) -> [usize; 4] {
    let mut at = [0; 4];
    for (i, len) in at.iter_mut().zip(shape).rev() {
        *i = flat % len;
        flat /= len;
    }
    at
}

/// Finds the rising sequence nearest to `values` in squares (Ayer et al. 1955).
fn pool_adjacent_violators(values: &mut [f64]) {
    let mut blocks: Vec<(f64, usize)> = Vec::with_capacity(values.len());
    for &value in values.iter() {
        let mut block = (value, 1);
        while let Some(&(mean, count)) = blocks.last()
            && mean > block.0
        {
            blocks.pop();
            let sum = mean * count as f64 + block.0 * block.1 as f64;
            block = (sum / (count + block.1) as f64, count + block.1);
        }
        blocks.push(block);
    }
    let level = blocks
        .into_iter()
        .flat_map(|(mean, count)| std::iter::repeat_n(mean, count));
    values
        .iter_mut()
        .zip(level)
        .for_each(|(value, mean)| *value = mean);
}

fn running_maximum(values: &mut [f64]) {
    let mut highest = f64::NEG_INFINITY;
    for value in values {
        highest = highest.max(*value);
        *value = highest;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TRENDS: [Option<Trend>; 4] = [
        Some(Trend::Rising),
        None,
        Some(Trend::Falling),
        Some(Trend::Rising),
    ];

    #[test]
    fn violators_are_pooled() {
        let cases: [(&str, &[f64], &[f64]); 5] = [
            ("nothing", &[], &[]),
            ("rising stays", &[1.0, 2.0, 2.0, 3.0], &[1.0, 2.0, 2.0, 3.0]),
            ("a pair", &[1.0, 3.0, 2.0, 4.0], &[1.0, 2.5, 2.5, 4.0]),
            ("all", &[3.0, 2.0, 1.0], &[2.0, 2.0, 2.0]),
            (
                "back into the pool",
                &[1.0, 4.0, 3.0, 0.0],
                &[1.0, 7.0 / 3.0, 7.0 / 3.0, 7.0 / 3.0],
            ),
        ];
        for (name, values, want) in cases {
            let mut values = values.to_vec();
            pool_adjacent_violators(&mut values);
            assert_eq!(values, want, "{name}");
        }
    }

    fn value(table: &Table, at: [usize; 4]) -> f64 {
        let places = at.iter().zip(table.shape);
        table.values[places.fold(0, |flat, (&i, len)| flat * len + i)]
    }

    fn is_monotone(table: &Table) -> bool {
        let shape = table.shape;
        (0..table.values.len()).all(|flat| {
            let at = point(shape, flat);
            (0..4).all(|axis| {
                let mut next = at;
                next[axis] += 1;
                next[axis] == shape[axis]
                    || match TRENDS[axis] {
                        Some(Trend::Rising) => value(table, next) >= value(table, at),
                        Some(Trend::Falling) => value(table, next) <= value(table, at),
                        None => true,
                    }
            })
        })
    }

    #[test]
    fn a_monotone_table_stays_as_it_is() {
        let table = Table::from_fn([2, 3, 2, 3], |[rtt, loss, rate, size]| {
            rtt as f64 + 2.0 * loss as f64 - 0.5 * rate as f64 + size as f64
        });
        let mut same = table.clone();
        same.make_monotone(TRENDS);
        assert_eq!(same, table);
    }

    #[test]
    fn steps_count_along_the_axes() {
        let mut flat = -1.0;
        let table = Table::from_fn([1, 2, 1, 3], |_| {
            flat += 1.0;
            flat
        });
        assert_eq!(table.steps_from(|value| value == 0.0), [0, 1, 2, 1, 2, 3]);
        assert_eq!(table.steps_from(|_| false), [0; 6]);
    }

    proptest! {
        #[test]
        fn any_table_becomes_monotone_within_its_range(
            values in proptest::collection::vec(-5.0..5.0, 2 * 3 * 2 * 4),
        ) {
            let mut given = values.iter();
            let mut table = Table::from_fn([2, 3, 2, 4], |_| *given.next().unwrap());
            table.make_monotone(TRENDS);
            prop_assert!(is_monotone(&table));
            let (low, high) = values.iter().fold((5.0, -5.0), |(low, high): (f64, f64), &value| (low.min(value), high.max(value)));
            prop_assert!(table.values.iter().all(|value| (low - 1e-9..=high + 1e-9).contains(value)));
        }
    }
}
