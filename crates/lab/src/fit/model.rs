//! From examples to the model's tables.

use std::collections::BTreeSet;

use hikyaku_core::model::{
    ArmTable, AxesFile, FORMAT, Model, ModelFile, Source, loss_coordinate, rtt_coordinate,
};
use hikyaku_units::arm::{ARMS, Arm, Congestion};

use super::examples::{Cell, Example, Load, pair};
use super::lattice::{Lattice, Place, Point};
use super::table::{Table, Trend};

/// The trends of the axes. A longer RTT and more bytes are never faster, a higher rate never
/// slower. Loss has no such trend: at the same *measured* rate, a link with a higher loss is the
/// faster one.
const TRENDS: [Option<Trend>; 4] = [
    Some(Trend::Rising),
    None,
    Some(Trend::Falling),
    Some(Trend::Rising),
];

/// Points of the axes, within the range of the data. Sizes are the measured ones.
const RTT_MS: [f64; 9] = [0.3, 1.0, 3.0, 10.0, 25.0, 50.0, 100.0, 200.0, 400.0];
const LOSS: [f64; 8] = [0.0, 0.0003, 0.001, 0.003, 0.01, 0.025, 0.05, 0.1];
const RATE_MBPS: [f64; 11] = [
    0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 400.0, 800.0,
];
/// Sizes that differ less share a point of the axis.
const SAME_SIZE: f64 = 1.5;

/// Relative standard error that even the best data leave, since the emulator is not the Internet.
const SPREAD_FLOOR: f64 = 0.02;
/// Standard error that each step of the grid away from the nearest data adds.
const SPREAD_STEP: f64 = 0.1;
/// Standard error of an extrapolated load time, besides its scatter.
const SPREAD_CENSORED: f64 = 0.15;
/// Weight of the typical error of all, in cells, where only few are near.
const PRIOR_CELLS: f64 = 4.0;
/// Weight of the typical scatter of all, in degrees of freedom, where only few are near.
const PRIOR_FREEDOM: f64 = 2.0;
/// Scatter without repeated measurements.
const SCATTER_UNKNOWN: f64 = 0.2;
/// Weight of cells at a point below which it counts as a gap.
const NEAR: f64 = 0.1;
/// Weight of a cell with an extrapolated load time.
const CENSORED_WEIGHT: f64 = 0.25;

/// Fits a model to examples of `cells`.
pub(super) fn fit(
    cells: &[Cell<'_>],
    examples: &[Example],
    description: String,
    source: Source,
) -> ModelFile {
    let (lattice, axes) = axes(cells, examples);
    let fit = Fit::new(cells, examples, &lattice);
    let arms = Arm::ALL
        .into_iter()
        .filter_map(|arm| Some((arm.to_string(), fit.table(arm)?)));
    ModelFile {
        format: FORMAT,
        description,
        source,
        axes,
        arms: arms.collect(),
    }
}

/// Returns a model of one point, for a server's memory of clients that needs a model but asks it
/// nothing.
pub(super) fn blank() -> Model {
    let arms = pair(Congestion::Cubic).map(|arm| {
        let table = ArmTable {
            load_ms: vec![1.0],
            spread: vec![0.0],
            scatter: vec![0.0],
        };
        (arm.to_string(), table)
    });
    let file = ModelFile {
        format: FORMAT,
        description: String::new(),
        source: no_source(),
        axes: AxesFile {
            rtt_ms: vec![1.0],
            loss: vec![0.0],
            rate_mbps: vec![1.0],
            size_bytes: vec![1.0],
        },
        arms: arms.into(),
    };
    Model::new(file).expect("one point of both versions is a model")
}

/// Returns the source of models that are not kept.
pub(super) fn no_source() -> Source {
    Source {
        data_sha256: String::new(),
        command: String::new(),
        commit: String::new(),
        date: String::new(),
    }
}

/// Returns the grid for the measurements.
fn axes(cells: &[Cell<'_>], examples: &[Example]) -> (Lattice, AxesFile) {
    let range = |axis: usize| {
        let places = examples
            .iter()
            .flat_map(|example| example.places.iter().flatten());
        places.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), place| {
            (low.min(place[axis]), high.max(place[axis]))
        })
    };
    let rtt_ms = trimmed(&RTT_MS, rtt_coordinate, range(0));
    let loss = trimmed(&LOSS, loss_coordinate, range(1));
    let rate_mbps = trimmed(&RATE_MBPS, f64::ln, range(2));
    let size_bytes = sizes(cells);
    let coordinates = |values: &[f64], coordinate: fn(f64) -> f64| -> Vec<f64> {
        values.iter().map(|&value| coordinate(value)).collect()
    };
    let lattice = Lattice {
        axes: [
            coordinates(&rtt_ms, rtt_coordinate),
            coordinates(&loss, loss_coordinate),
            coordinates(&rate_mbps, f64::ln),
            coordinates(&size_bytes, f64::ln),
        ],
    };
    let axes = AxesFile {
        rtt_ms,
        loss,
        rate_mbps,
        size_bytes,
    };
    (lattice, axes)
}

/// Returns the points in the range, and the next on both sides.
fn trimmed(points: &[f64], coordinate: fn(f64) -> f64, (low, high): (f64, f64)) -> Vec<f64> {
    let last = points.len() - 1;
    let first_above = |at: f64| points.partition_point(|&point| coordinate(point) < at);
    let to = first_above(high).min(last);
    let from = points.partition_point(|&point| coordinate(point) <= low);
    points[from.saturating_sub(1).min(to)..=to].to_vec()
}

/// Returns the measured sizes, each at least [`SAME_SIZE`] times the one before.
fn sizes(cells: &[Cell<'_>]) -> Vec<f64> {
    let measured: BTreeSet<u64> = cells.iter().map(|cell| cell.size).collect();
    let mut sizes: Vec<f64> = Vec::new();
    for size in measured {
        if sizes
            .last()
            .is_none_or(|&last| size as f64 >= last * SAME_SIZE)
        {
            sizes.push(size as f64);
        }
    }
    sizes
}

/// The fit of all arms.
struct Fit<'a> {
    lattice: &'a Lattice,
    examples: &'a [Example],
    /// Load times by cell, then by [`Arm::index`].
    loads: Vec<[Option<Load>; ARMS]>,
    /// Tables by [`Arm::index`].
    fitted: [Option<Table>; ARMS],
}

impl<'a> Fit<'a> {
    fn new(cells: &[Cell<'_>], examples: &'a [Example], lattice: &'a Lattice) -> Self {
        let mut fit = Self {
            lattice,
            examples,
            loads: cells.iter().map(Cell::loads).collect(),
            fitted: Default::default(),
        };
        fit.fitted = Arm::ALL.map(|arm| {
            let points: Vec<Point> = fit
                .of(arm)
                .map(|(example, place, load)| Point {
                    place,
                    value: load.ln,
                    weight: example.weight * weight(&load),
                })
                .collect();
            (!points.is_empty()).then(|| lattice.fit(&points))
        });
        fit
    }

    /// Returns the examples in which an arm was measured.
    fn of(&self, arm: Arm) -> impl Iterator<Item = (&'a Example, Place, Load)> {
        self.examples.iter().filter_map(move |example| {
            let place = example.places[arm.index()]?;
            Some((example, place, self.loads[example.cell][arm.index()]?))
        })
    }

    /// Returns the table of an arm; `None` if it was not measured.
    fn table(&self, arm: Arm) -> Option<ArmTable> {
        let fitted = self.fitted[arm.index()].as_ref()?;
        let mut monotone = fitted.clone();
        monotone.make_monotone(TRENDS);
        let values = || monotone.values.iter().zip(&fitted.values);
        let rounded_all = |values: Vec<f64>| values.into_iter().map(rounded).collect();
        Some(ArmTable {
            load_ms: monotone
                .values
                .iter()
                .map(|ln| rounded(ln.exp() * 1e3))
                .collect(),
            // A change by monotony is an error of one or the other.
            spread: values()
                .zip(&self.spread(arm).values)
                .map(|((monotone, fitted), spread)| rounded(spread.hypot(monotone - fitted)))
                .collect(),
            scatter: rounded_all(self.scatter(arm).values),
        })
    }

    /// Returns the standard error of an arm's table, without the part that all arms share: that
    /// cancels in comparisons.
    fn spread(&self, arm: Arm) -> Table {
        let squares: Vec<Point> = self
            .of(arm)
            .map(|(example, place, load)| {
                let guessed = if load.censored { SPREAD_CENSORED } else { 0.0 };
                Point {
                    place,
                    value: self.alone_sq(example, arm) + guessed.powi(2),
                    weight: example.weight,
                }
            })
            .collect();
        let Pooled { near, mut mean } = Pooled::new(self.lattice, &squares, PRIOR_CELLS);
        let steps = near.steps_from(|near| near >= NEAR);
        for (square, steps) in mean.values.iter_mut().zip(steps) {
            let gap = SPREAD_STEP * steps as f64;
            *square = square.sqrt().hypot(SPREAD_FLOOR).hypot(gap);
        }
        mean
    }

    /// Returns the square of an arm's error beside the mean of the others'. It is scaled to the
    /// result of independent errors of one size: of two arms, each has half of the squared
    /// difference.
    fn alone_sq(&self, example: &Example, arm: Arm) -> f64 {
        let error = |of: Arm| {
            let load = self.loads[example.cell][of.index()]?;
            let fitted = self.fitted[of.index()].as_ref()?;
            Some(self.lattice.at(fitted, &example.places[of.index()]?) - load.ln)
        };
        let others: Vec<f64> = Arm::ALL
            .into_iter()
            .filter(|of| *of != arm)
            .filter_map(error)
            .collect();
        let count = others.len() as f64;
        let mean = others.iter().sum::<f64>() / count;
        error(arm).map_or(0.0, |error| (error - mean).powi(2) * count / (count + 1.0))
    }

    /// Returns the standard deviation of an arm's single responses.
    fn scatter(&self, arm: Arm) -> Table {
        let squares: Vec<Point> = self
            .of(arm)
            .filter_map(|(example, place, load)| {
                Some(Point {
                    place,
                    value: load.scatter?.powi(2),
                    weight: example.weight * (load.count as f64 - 1.0),
                })
            })
            .collect();
        let Pooled { mut mean, .. } = Pooled::new(self.lattice, &squares, PRIOR_FREEDOM);
        for square in &mut mean.values {
            *square = if square.is_finite() {
                square.sqrt()
            } else {
                SCATTER_UNKNOWN
            };
        }
        mean
    }
}

/// Scattered values, gathered at the grid's points.
struct Pooled {
    /// Weight of nearby values.
    near: Table,
    /// Mean of nearby values, with the mean of all as a prior; not a number without any.
    mean: Table,
}

impl Pooled {
    fn new(lattice: &Lattice, points: &[Point], prior: f64) -> Self {
        let mut near = Table::from_fn(lattice.shape(), |_| 0.0);
        let mut mean = near.clone();
        for Point {
            place,
            value,
            weight,
        } in points
        {
            for (flat, share) in lattice.corners(place) {
                near.values[flat] += share * weight;
                mean.values[flat] += share * weight * value;
            }
        }
        let total: f64 = points.iter().map(|point| point.weight).sum();
        let sum: f64 = points.iter().map(|point| point.weight * point.value).sum();
        for (mean, near) in mean.values.iter_mut().zip(&near.values) {
            *mean = (*mean + prior * sum / total) / (near + prior);
        }
        Self { near, mean }
    }
}

/// Returns the weight of a load time: it grows with repeats, but ever more slowly.
fn weight(load: &Load) -> f64 {
    let count = load.count as f64;
    let weight = count / (count + 1.0);
    if load.censored {
        weight * CENSORED_WEIGHT
    } else {
        weight
    }
}

/// Rounds to four significant digits, since more would be noise.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}
