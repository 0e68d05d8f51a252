//! What the model is fitted on: what a server would know of a path, and how long a
//! response then takes by both versions.

use std::collections::BTreeMap;
use std::sync::Arc;

use hikyaku_core::arm::{Arm, Congestion, Version};
use hikyaku_core::model::{Model, loss_coordinate, rtt_coordinate};
use hikyaku_core::policy::PolicyConfig;
use hikyaku_core::view::PathView;

use super::data::{Data, Response};
use super::error::FitError;
use super::lattice::Place;
use super::visitor::Visitor;

/// The versions that are compared.
pub(super) const VERSIONS: [Version; 2] = [Version::H2, Version::H3];

/// Responses of one size over one path under one congestion control.
#[derive(Clone, Debug)]
pub(super) struct Cell<'a> {
    /// The link's description.
    pub(super) path: &'a str,
    pub(super) congestion: Congestion,
    /// Bytes of the response's body.
    pub(super) size: u64,
    /// In the order of [`VERSIONS`]; neither is empty.
    pub(super) responses: [Vec<&'a Response>; 2],
}

/// Load times of one arm in a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    /// Mean of the logarithm of the seconds.
    pub(super) ln: f64,
    /// Standard deviation of a single one's; `None` with fewer than two.
    pub(super) scatter: Option<f64>,
    /// How many.
    pub(super) count: usize,
    /// At least one was given up.
    pub(super) censored: bool,
}

/// A cell as a server sees it that has come to know the path in a certain way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Example {
    /// Index of the cell.
    pub(super) cell: usize,
    /// Where the server looks into the model for each of [`VERSIONS`].
    pub(super) places: [Place; 2],
    /// Share of the cell's weight.
    pub(super) weight: f64,
}

/// The cells of all paths in which both versions were measured.
///
/// # Errors
/// If there are none.
pub(super) fn cells(data: &Data) -> Result<Vec<Cell<'_>>, FitError> {
    let mut cells = Vec::new();
    for (path, responses) in &data.paths {
        let mut by_cell: BTreeMap<(Congestion, u64), [Vec<&Response>; 2]> = BTreeMap::new();
        for response in responses {
            let Arm {
                version,
                congestion,
            } = response.arm;
            let pair = by_cell.entry((congestion, response.size)).or_default();
            pair[usize::from(version == Version::H3)].push(response);
        }
        cells.extend(
            by_cell
                .into_iter()
                .filter(|(_, pair)| pair.iter().all(|responses| !responses.is_empty()))
                .map(|((congestion, size), responses)| Cell {
                    path,
                    congestion,
                    size,
                    responses,
                }),
        );
    }
    if cells.is_empty() {
        return Err(FitError::OneArm { found: data.arms() });
    }
    Ok(cells)
}

impl Cell<'_> {
    /// Load times by version.
    pub(super) fn loads(&self) -> [Load; 2] {
        [0, 1].map(|version| Load::of(&self.responses[version]))
    }
}

impl Load {
    fn of(responses: &[&Response]) -> Self {
        let logs: Vec<f64> = responses
            .iter()
            .map(|response| response.load.ln())
            .collect();
        let count = logs.len();
        let ln = logs.iter().sum::<f64>() / count as f64;
        let squares: f64 = logs.iter().map(|log| (log - ln).powi(2)).sum();
        Self {
            ln,
            scatter: (count > 1).then(|| (squares / (count as f64 - 1.0)).sqrt()),
            count,
            censored: responses.iter().any(|response| response.censored),
        }
    }
}

/// Every cell as seen by servers that know the path by HTTP/2, by HTTP/3, or by both;
/// and from responses of that size, or of all sizes measured on the path. What is known
/// of a path does not hang on the model, so any will do.
pub(super) fn examples(cells: &[Cell<'_>], any: &Arc<Model>) -> Vec<Example> {
    let mut by_path: BTreeMap<(&str, Congestion), Vec<usize>> = BTreeMap::new();
    for (index, cell) in cells.iter().enumerate() {
        by_path
            .entry((cell.path, cell.congestion))
            .or_default()
            .push(index);
    }
    let mut examples = Vec::new();
    for ((_, congestion), indices) in by_path {
        let policy = Arc::new(PolicyConfig {
            congestion,
            ..PolicyConfig::default()
        });
        let views = |h2: &[&Response], h3: &[&Response]| {
            [(h2, &[][..]), (&[], h3), (h2, h3)].map(|(first, second)| {
                Visitor::new(Arc::clone(&policy), Arc::clone(any)).knowing(first, second)
            })
        };
        let all = [0, 1].map(|version| -> Vec<&Response> {
            let of_version = |&index: &usize| cells[index].responses[version].iter().copied();
            indices.iter().flat_map(of_version).collect()
        });
        let by_all_sizes = views(&all[0], &all[1]);
        for index in indices {
            let Cell {
                responses: [h2, h3],
                size,
                ..
            } = &cells[index];
            let by_size = views(h2, h3);
            let places: Vec<[Place; 2]> = by_size
                .iter()
                .chain(&by_all_sizes)
                .filter_map(|view| places(view, congestion, *size))
                .collect();
            let weight = 1.0 / places.len() as f64;
            examples.extend(places.into_iter().map(|places| Example {
                cell: index,
                places,
                weight,
            }));
        }
    }
    examples
}

/// Where the server looks into the model for a response of `size`; `None` while it
/// cannot.
fn places(view: &PathView, congestion: Congestion, size: u64) -> Option<[Place; 2]> {
    let rtt = rtt_coordinate(view.min_rtt?.as_secs_f64() * 1e3);
    let place = |version| {
        let rate = view
            .rate_for(version, congestion)?
            .mbps()
            .max(LEAST_MBPS)
            .ln();
        let loss = loss_coordinate(view.loss_for(version).mean.fraction());
        Some([rtt, loss, rate, (size as f64).ln()])
    };
    let [h2, h3] = VERSIONS.map(place);
    Some([h2?, h3?])
}

/// A rate of nothing has no logarithm.
const LEAST_MBPS: f64 = 1e-3;
