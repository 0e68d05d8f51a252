//! A dense table over four axes, and what physics demands of it.

/// Lengths of the axes: RTT, loss, rate, size. The last changes fastest.
pub(crate) type Shape = [usize; 4];

/// How values go along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trend {
    Rising,
    Falling,
}

/// Values at all points of the grid.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    shape: Shape,
    pub(crate) values: Vec<f64>,
}

/// Rounds of projection; they stop early once nothing changes.
const ROUNDS: usize = 200;

impl Table {
    pub(crate) fn from_fn(shape: Shape, mut value: impl FnMut([usize; 4]) -> f64) -> Self {
        let values = (0..shape.iter().product())
            .map(|flat| value(point(shape, flat)))
            .collect();
        Self { shape, values }
    }

    pub(crate) fn at(&self, at: [usize; 4]) -> f64 {
        let flat = at
            .iter()
            .zip(self.shape)
            .fold(0, |flat, (&i, len)| flat * len + i);
        self.values[flat]
    }

    /// Makes the table monotone along every axis, changing it little: isotonic
    /// regression along one axis after another (pool adjacent violators) until
    /// nothing changes. What rounding leaves is levelled by a running maximum.
    pub(crate) fn make_monotone(&mut self, trends: [Trend; 4]) {
        for _ in 0..ROUNDS {
            let before = self.values.clone();
            for (axis, trend) in trends.into_iter().enumerate() {
                self.along(axis, trend, pool_adjacent_violators);
            }
            let change = before.iter().zip(&self.values).map(|(a, b)| (a - b).abs());
            if change.fold(0.0, f64::max) < 1e-9 {
                break;
            }
        }
        for (axis, trend) in trends.into_iter().enumerate() {
            self.along(axis, trend, running_maximum);
        }
    }

    /// Applies `change` to every line of points along an axis, turned so that it
    /// should rise.
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

fn point(shape: Shape, mut flat: usize) -> [usize; 4] {
    let mut at = [0; 4];
    for (i, len) in at.iter_mut().zip(shape).rev() {
        *i = flat % len;
        flat /= len;
    }
    at
}

/// The rising sequence nearest to `values` in squares (Ayer et al. 1955).
pub(crate) fn pool_adjacent_violators(values: &mut [f64]) {
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

    const TRENDS: [Trend; 4] = [Trend::Rising, Trend::Rising, Trend::Falling, Trend::Rising];

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

    fn is_monotone(table: &Table) -> bool {
        let shape = table.shape;
        (0..table.values.len()).all(|flat| {
            let at = point(shape, flat);
            (0..4).all(|axis| {
                let mut next = at;
                next[axis] += 1;
                next[axis] == shape[axis]
                    || match TRENDS[axis] {
                        Trend::Rising => table.at(next) >= table.at(at),
                        Trend::Falling => table.at(next) <= table.at(at),
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
