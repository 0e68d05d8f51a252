//! Multilinear interpolation in a grid of four axes.

use std::time::Duration;

use super::LogLoad;
use super::error::{AxisProblem, ModelError};
use super::file::{ArmTable, AxesFile};
use hikyaku_units::{LossRate, Rate};

/// The grid's axes in the coordinates of interpolation.
#[derive(Debug, Clone)]
pub(super) struct Axes {
    rtt: Axis,
    loss: Axis,
    rate: Axis,
    size: Axis,
}

impl Axes {
    pub(super) fn new(file: &AxesFile) -> Result<Self, ModelError> {
        let rtt = Axis::new(
            "rtt_ms",
            &file.rtt_ms,
            0.0..=1e6,
            "ms from 0 to 1e6",
            rtt_coordinate,
        )?;
        let loss = Axis::new(
            "loss",
            &file.loss,
            0.0..=1.0,
            "a share from 0 to 1",
            loss_coordinate,
        )?;
        let rate = Axis::new(
            "rate_mbps",
            &file.rate_mbps,
            1e-3..=1e6,
            "Mbit/s from 0.001 to 1e6",
            f64::ln,
        )?;
        let size = Axis::new(
            "size_bytes",
            &file.size_bytes,
            1.0..=1e15,
            "bytes from 1 to 1e15",
            f64::ln,
        )?;
        Ok(Self {
            rtt,
            loss,
            rate,
            size,
        })
    }

    /// Number of points of the grid. Each axis has at most [`MAX_POINTS`], so it cannot overflow.
    pub(super) fn points(&self) -> usize {
        [&self.rtt, &self.loss, &self.rate, &self.size]
            .iter()
            .map(|axis| axis.points.len())
            .product()
    }

    pub(super) fn place(&self, min_rtt: Duration, rate: Rate, size: u64) -> Place {
        // A rate of 0 is no rate; 1 bit/s is taken to the grid's edge just as well.
        let rate = (rate.bits_per_sec().max(1) as f64 / 1e6) as f32;
        let size = size.max(1) as f32;
        let edge = self.size.last().exp();
        Place {
            rtt: self
                .rtt
                .locate(rtt_coordinate(min_rtt.as_secs_f64() * 1e3) as f32),
            rate: self.rate.locate(rate.ln()),
            size: self.size.locate(size.ln()),
            beyond: (size - edge).max(0.0),
            secs_per_byte: 8e-6 / rate,
        }
    }

    pub(super) fn loss(&self, loss: LossRate) -> Spot {
        self.loss.locate(loss_coordinate(loss.fraction()) as f32)
    }
}

/// Where a path and a size lie in the grid.
pub(super) struct Place {
    rtt: Spot,
    rate: Spot,
    size: Spot,
    /// Bytes beyond the largest size of the grid.
    beyond: f32,
    /// The path's rate, which no extrapolation may exceed.
    secs_per_byte: f32,
}

/// A position on one axis: between a point and the next.
#[derive(Clone, Copy)]
pub(super) struct Spot {
    below: usize,
    /// Share of the way to the next point, from 0 to 1.
    share: f32,
    /// How far outside of the axis, in its coordinate.
    outside: f32,
}

impl Spot {
    /// The points on both sides with their weights. A weight of 0 is of a point that need not exist.
    fn sides(self) -> [(usize, f32); 2] {
        [(self.below, 1.0 - self.share), (self.below + 1, self.share)]
    }
}

#[derive(Debug, Clone)]
struct Axis {
    /// Ascending coordinates; at least one.
    points: Vec<f32>,
}

impl Axis {
    fn new(
        axis: &'static str,
        values: &[f64],
        range: std::ops::RangeInclusive<f64>,
        expected: &'static str,
        coordinate: fn(f64) -> f64,
    ) -> Result<Self, ModelError> {
        let wrong = |problem| ModelError::Axis { axis, problem };
        let len = values.len();
        if len == 0 || len > MAX_POINTS {
            return Err(wrong(AxisProblem::Len { len }));
        }
        if let Some(index) = values.iter().position(|value| !range.contains(value)) {
            return Err(wrong(AxisProblem::Value {
                index,
                value: values[index],
                expected,
            }));
        }
        let points: Vec<f32> = values
            .iter()
            .map(|&value| coordinate(value) as f32)
            .collect();
        // Compared as coordinates: points that are too close to be distinguished would divide by zero.
        if let Some(index) = points.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(wrong(AxisProblem::NotAscending { index: index + 1 }));
        }
        Ok(Self { points })
    }

    fn last(&self) -> f32 {
        self.points.last().copied().unwrap_or_default()
    }

    fn locate(&self, at: f32) -> Spot {
        let first = self.points.first().copied().unwrap_or_default();
        if at <= first {
            return Spot {
                below: 0,
                share: 0.0,
                outside: first - at,
            };
        }
        let above = self.points.partition_point(|&point| point < at);
        if above == self.points.len() {
            return Spot {
                below: above - 1,
                share: 0.0,
                outside: at - self.last(),
            };
        }
        let (low, high) = (self.points[above - 1], self.points[above]);
        Spot {
            below: above - 1,
            share: (at - low) / (high - low),
            outside: 0.0,
        }
    }
}

/// One arm's values.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    /// Logarithm of the load time in seconds, its standard error, and the standard deviation of a single
    /// response's; size changes fastest.
    cells: Vec<[f32; 3]>,
}

impl Grid {
    /// The grid of a table that has been checked.
    pub(super) fn new(table: &ArmTable) -> Self {
        let sds = table.spread.iter().zip(&table.scatter);
        let cells = table.load_ms.iter().zip(sds);
        Self {
            cells: cells
                .map(|(ms, (spread, scatter))| [(ms / 1e3).ln(), *spread, *scatter])
                .map(|cell| cell.map(|value| value as f32))
                .collect(),
        }
    }

    /// The load time at the first loss, and its logarithm at the second.
    pub(super) fn log_loads(
        &self,
        axes: &Axes,
        place: &Place,
        [first, second]: [Spot; 2],
    ) -> (LogLoad, f32) {
        let at = |size| self.interpolate(axes, place, [first, second], size);
        let ([ln_secs, spread, scatter], ln_second) = at(place.size);
        let outside = place.rtt.outside + place.rate.outside + first.outside;
        let load = |ln_secs| LogLoad {
            ln_secs,
            rel_sd: spread + EDGE_SD * outside,
            scatter,
        };
        if place.beyond == 0.0 {
            return (load(ln_secs), ln_second);
        }
        let before = axes.size.points.len().checked_sub(2).map(|below| {
            let ([ln_before, ..], ln_second) = at(Spot {
                below,
                share: 0.0,
                outside: 0.0,
            });
            ([ln_before, ln_second], axes.size.points[below])
        });
        let beyond = |ln_secs: f32, which: usize| {
            let ln_before = before.map(|(ln_before, size)| (ln_before[which], size));
            let per_byte = marginal(ln_secs, axes.size.last(), ln_before).max(place.secs_per_byte);
            (ln_secs.exp() + place.beyond * per_byte).ln()
        };
        (load(beyond(ln_secs, 0)), beyond(ln_second, 1))
    }

    /// The cell at the first loss, and the logarithm of the load time at the second. Both mostly lie
    /// between the same points of the grid, which are then looked up once.
    fn interpolate(
        &self,
        axes: &Axes,
        place: &Place,
        [first, second]: [Spot; 2],
        size: Spot,
    ) -> ([f32; 3], f32) {
        let plane = |loss| self.plane(axes, place, loss, size);
        let below = plane(first.below);
        let above = if first.share > 0.0 || second.share > 0.0 && second.below == first.below {
            plane(first.below + 1)
        } else {
            below
        };
        let ln_at = |loss: usize| match loss.checked_sub(first.below) {
            Some(0) => below[0],
            Some(1) if first.share > 0.0 => above[0],
            _ => plane(loss)[0],
        };
        let ln_second = if second.below == first.below {
            below[0] + second.share * (above[0] - below[0])
        } else {
            let sides = second
                .sides()
                .into_iter()
                .filter(|(_, weight)| *weight > 0.0);
            sides.map(|(loss, weight)| weight * ln_at(loss)).sum()
        };
        let mut cell = below;
        for (value, next) in cell.iter_mut().zip(above) {
            *value += first.share * (next - *value);
        }
        (cell, ln_second)
    }

    /// The cell at a point of the loss axis.
    fn plane(&self, axes: &Axes, place: &Place, loss: usize, size: Spot) -> [f32; 3] {
        let mut sum = [0.0; 3];
        for (rtt, rtt_weight) in place.rtt.sides() {
            for (rate, rate_weight) in place.rate.sides() {
                let weight = rtt_weight * rate_weight;
                if weight == 0.0 {
                    continue;
                }
                let row = (rtt * axes.loss.points.len() + loss) * axes.rate.points.len() + rate;
                let at = row * axes.size.points.len() + size.below;
                let cell = self.along_size(at, size.share);
                for (sum, value) in sum.iter_mut().zip(cell) {
                    *sum += weight * value;
                }
            }
        }
        sum
    }

    fn along_size(&self, at: usize, share: f32) -> [f32; 3] {
        let mut cell = self.cells[at];
        if share > 0.0 {
            for (value, next) in cell.iter_mut().zip(self.cells[at + 1]) {
                *value += share * (next - *value);
            }
        }
        cell
    }
}

/// Seconds that a further byte takes after the last size, from the last two (logarithms of time and
/// size); from the only one in proportion.
fn marginal(ln_secs: f32, ln_size: f32, before: Option<(f32, f32)>) -> f32 {
    match before {
        Some((ln_before, ln_size_before)) => {
            (ln_secs.exp() - ln_before.exp()) / (ln_size.exp() - ln_size_before.exp())
        }
        None => (ln_secs - ln_size).exp(),
    }
}

/// The coordinate in which an RTT in ms is interpolated.
#[must_use]
pub fn rtt_coordinate(ms: f64) -> f64 {
    (ms + 1.0).ln()
}

/// The coordinate in which a loss, as a fraction, is interpolated.
#[must_use]
pub fn loss_coordinate(loss: f64) -> f64 {
    (loss + 1e-4).ln()
}

/// Points that an axis may have.
pub(super) const MAX_POINTS: usize = 64;
/// Uncertainty added for each e-fold that a path lies outside of the grid.
const EDGE_SD: f32 = 0.1;
