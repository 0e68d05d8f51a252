//! From examples to the model's tables.

use std::collections::{BTreeMap, BTreeSet};

use hikyaku_core::arm::{Arm, Congestion};
use hikyaku_core::model::{
    ArmTable, AxesFile, FORMAT, Model, ModelFile, Source, loss_coordinate, rtt_coordinate,
};

use super::examples::{Cell, Example, Load, VERSIONS};
use super::lattice::{Lattice, Point};
use super::table::{Table, Trend};

/// A longer RTT and more bytes are never faster, a higher rate never slower. Loss has no
/// such trend: where a higher loss goes with the same *measured* rate, the link is the
/// faster one.
const TRENDS: [Option<Trend>; 4] = [
    Some(Trend::Rising),
    None,
    Some(Trend::Falling),
    Some(Trend::Rising),
];

/// Points of the axes, as far as the data reach. Sizes are those measured.
const RTT_MS: [f64; 9] = [0.3, 1.0, 3.0, 10.0, 25.0, 50.0, 100.0, 200.0, 400.0];
const LOSS: [f64; 8] = [0.0, 0.0003, 0.001, 0.003, 0.01, 0.025, 0.05, 0.1];
const RATE_MBPS: [f64; 11] = [
    0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 400.0, 800.0,
];
/// Sizes that differ less share a point of the axis.
const SAME_SIZE: f64 = 1.5;

/// Relative standard error that even the best data leave: the emulator is not the
/// Internet.
const SPREAD_FLOOR: f64 = 0.02;
/// What each step of the grid away from the nearest data adds to it.
const SPREAD_STEP: f64 = 0.1;
/// Standard error of an extrapolated load time, besides its scatter.
const SPREAD_CENSORED: f64 = 0.15;
/// Cells that the typical error of all is worth where few are near.
const PRIOR_CELLS: f64 = 4.0;
/// Degrees of freedom that the typical scatter of all is worth where few are near.
const PRIOR_FREEDOM: f64 = 2.0;
/// Scatter where nothing was measured twice.
const SCATTER_UNKNOWN: f64 = 0.2;
/// Weight of cells at a point below which it counts as a gap.
const NEAR: f64 = 0.1;
/// A cell in which something was extrapolated counts so much.
const CENSORED_WEIGHT: f64 = 0.25;

/// Fits a model to examples of `cells`.
pub(super) fn fit(
    cells: &[Cell<'_>],
    examples: &[Example],
    description: String,
    source: Source,
) -> ModelFile {
    let (lattice, axes) = axes(cells, examples);
    let mut arms = BTreeMap::new();
    for congestion in [Congestion::Cubic, Congestion::Bbr] {
        let fit = Fit::new(cells, examples, congestion, &lattice);
        if !fit.examples.is_empty() {
            for (version, table) in VERSIONS.into_iter().zip(fit.tables()) {
                arms.insert(Arm::new(version, congestion).to_string(), table);
            }
        }
    }
    ModelFile {
        format: FORMAT,
        description,
        source,
        axes,
        arms,
    }
}

/// A model of one point: for where the server's memory of clients needs one, and nothing
/// is asked of it.
pub(super) fn blank() -> Model {
    let arms = VERSIONS.map(|version| {
        let table = ArmTable {
            load_ms: vec![1.0],
            spread: vec![0.0],
            scatter: vec![0.0],
        };
        (Arm::new(version, Congestion::Cubic).to_string(), table)
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

/// Of models that are not kept.
pub(super) fn no_source() -> Source {
    Source {
        data_sha256: String::new(),
        command: String::new(),
        commit: String::new(),
        date: String::new(),
    }
}

/// The grid for what was measured.
fn axes(cells: &[Cell<'_>], examples: &[Example]) -> (Lattice, AxesFile) {
    let range = |axis: usize| {
        let places = examples.iter().flat_map(|example| &example.places);
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

/// The points that lie in the range, and the next on both sides.
fn trimmed(points: &[f64], coordinate: fn(f64) -> f64, (low, high): (f64, f64)) -> Vec<f64> {
    let last = points.len() - 1;
    let first_above = |at: f64| points.partition_point(|&point| coordinate(point) < at);
    let to = first_above(high).min(last);
    let from = points.partition_point(|&point| coordinate(point) <= low);
    points[from.saturating_sub(1).min(to)..=to].to_vec()
}

/// The sizes measured, each at least [`SAME_SIZE`] times the one before.
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

/// One congestion control's fit.
struct Fit<'a> {
    lattice: &'a Lattice,
    examples: Vec<&'a Example>,
    /// By cell.
    loads: Vec<[Load; 2]>,
}

impl<'a> Fit<'a> {
    fn new(
        cells: &[Cell<'_>],
        examples: &'a [Example],
        congestion: Congestion,
        lattice: &'a Lattice,
    ) -> Self {
        let of_congestion = |example: &&Example| cells[example.cell].congestion == congestion;
        Self {
            lattice,
            examples: examples.iter().filter(of_congestion).collect(),
            loads: cells.iter().map(Cell::loads).collect(),
        }
    }

    /// The tables of HTTP/2 and HTTP/3.
    fn tables(&self) -> [ArmTable; 2] {
        let fitted = [0, 1].map(|version| self.lattice.fit(&self.points(version)));
        let spread = self.spread(&fitted);
        [0, 1].map(|version| {
            let fitted = &fitted[version];
            let mut monotone = fitted.clone();
            monotone.make_monotone(TRENDS);
            let values = || monotone.values.iter().zip(&fitted.values);
            ArmTable {
                load_ms: monotone
                    .values
                    .iter()
                    .map(|ln| rounded(ln.exp() * 1e3))
                    .collect(),
                // What monotony changed is an error of one or the other.
                spread: values()
                    .zip(&spread.values)
                    .map(|((monotone, fitted), spread)| rounded(spread.hypot(monotone - fitted)))
                    .collect(),
                scatter: self
                    .scatter(version)
                    .values
                    .into_iter()
                    .map(rounded)
                    .collect(),
            }
        })
    }

    fn points(&self, version: usize) -> Vec<Point> {
        self.examples
            .iter()
            .map(|example| {
                let load = &self.loads[example.cell][version];
                Point {
                    place: example.places[version],
                    value: load.ln,
                    weight: example.weight * weight(load),
                }
            })
            .collect()
    }

    /// Standard error of either version's table, as far as the two do not share it: what
    /// both share cancels when they are compared.
    fn spread(&self, fitted: &[Table; 2]) -> Table {
        let squares: Vec<Point> = self
            .examples
            .iter()
            .map(|example| {
                let loads = &self.loads[example.cell];
                let error = |version: usize| {
                    self.lattice.at(&fitted[version], &example.places[version]) - loads[version].ln
                };
                let apart = error(0) - error(1);
                let guessed = loads.iter().filter(|load| load.censored).count() as f64;
                let square = apart.powi(2) + guessed * SPREAD_CENSORED.powi(2);
                Point {
                    place: example.places[0],
                    value: square,
                    weight: example.weight,
                }
            })
            .collect();
        let Pooled { near, mut mean } = Pooled::new(self.lattice, &squares, PRIOR_CELLS);
        let steps = near.steps_from(|near| near >= NEAR);
        for (square, steps) in mean.values.iter_mut().zip(steps) {
            let gap = SPREAD_STEP * steps as f64;
            // Half of the squared error of the difference is either's.
            *square = (*square / 2.0).sqrt().hypot(SPREAD_FLOOR).hypot(gap);
        }
        mean
    }

    /// Standard deviation of a version's single responses.
    fn scatter(&self, version: usize) -> Table {
        let squares: Vec<Point> = self
            .examples
            .iter()
            .filter_map(|example| {
                let load = &self.loads[example.cell][version];
                Some(Point {
                    place: example.places[version],
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
    /// Weight of what is near.
    near: Table,
    /// Mean of what is near, with that of all as a prior; not a number without any.
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

/// How much a load time counts: with repeats the more, but ever less.
fn weight(load: &Load) -> f64 {
    let count = load.count as f64;
    let weight = count / (count + 1.0);
    if load.censored {
        weight * CENSORED_WEIGHT
    } else {
        weight
    }
}

/// Four significant digits: more would be noise.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}
