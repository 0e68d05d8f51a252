//! Input of the fit: a server's knowledge of a path, and the load times of a response by both
//! versions.

use std::collections::BTreeMap;
use std::sync::Arc;

use hikyaku_core::client::view::ClientView;
use hikyaku_core::model::{Model, loss_coordinate, rtt_coordinate};
use hikyaku_core::policy::PolicyConfig;
use hikyaku_units::arm::{ARMS, Arm, Congestion, Transport};

use super::data::{Data, Response};
use super::error::FitError;
use super::lattice::Place;
use super::visitor::Visitor;

/// Responses of one size over one path.
#[derive(Clone, Debug)]
pub(super) struct Cell<'a> {
    /// The link's description.
    pub(super) path: &'a str,
    /// Bytes of the response's body.
    pub(super) size: u64,
    /// Responses by [`Arm::index`]. A congestion control has those of both versions or of neither.
    pub(super) responses: [Vec<&'a Response>; ARMS],
}

/// Load times of one arm in a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    /// Mean of the logarithm of the seconds.
    pub(super) ln: f64,
    /// Standard deviation of a single response; `None` with fewer than two.
    pub(super) scatter: Option<f64>,
    /// Number of responses.
    pub(super) count: usize,
    /// Whether at least one was given up.
    pub(super) censored: bool,
}

/// A cell from the view of a server that has come to know the path in a certain manner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Example {
    /// Index of the cell.
    pub(super) cell: usize,
    /// Place of the server's lookup in the model for each measured arm, by [`Arm::index`].
    pub(super) places: [Option<Place>; ARMS],
    /// Share of the cell's weight.
    pub(super) weight: f64,
}

/// Returns the cells of all paths in which both versions were measured under some congestion
/// control.
///
/// # Errors
/// If there are none.
pub(super) fn cells(data: &Data) -> Result<Vec<Cell<'_>>, FitError> {
    let mut cells = Vec::new();
    for (path, responses) in &data.paths {
        let mut by_size: BTreeMap<u64, [Vec<&Response>; ARMS]> = BTreeMap::new();
        for response in responses {
            by_size.entry(response.size).or_default()[response.arm.index()].push(response);
        }
        for (size, mut responses) in by_size {
            for congestion in Congestion::ALL {
                let pair = pair(congestion).map(Arm::index);
                if pair.iter().any(|&arm| responses[arm].is_empty()) {
                    for arm in pair {
                        responses[arm].clear();
                    }
                }
            }
            if responses.iter().any(|responses| !responses.is_empty()) {
                cells.push(Cell {
                    path,
                    size,
                    responses,
                });
            }
        }
    }
    if cells.is_empty() {
        return Err(FitError::OneArm { found: data.arms() });
    }
    Ok(cells)
}

/// Returns both versions over a congestion control.
pub(super) fn pair(congestion: Congestion) -> [Arm; 2] {
    Transport::ALL.map(|transport| Arm::over(transport, congestion))
}

impl Cell<'_> {
    /// Returns the load times by [`Arm::index`].
    pub(super) fn loads(&self) -> [Option<Load>; ARMS] {
        Arm::ALL.map(|arm| {
            let responses = &self.responses[arm.index()];
            (!responses.is_empty()).then(|| Load::of(responses))
        })
    }

    /// Returns the seconds by which TCP's handshake is longer than QUIC's: the path's smallest RTT,
    /// or 0 if none was measured.
    pub(super) fn handshake(&self) -> f64 {
        let responses = self.responses.iter().flatten();
        let measured = responses.filter_map(|response| response.measured.as_ref());
        let rtts = measured.map(|measured| measured.min_rtt);
        rtts.reduce(f64::min).unwrap_or(0.0)
    }

    /// Returns the congestion controls over which both versions were measured.
    pub(super) fn congestions(&self) -> impl Iterator<Item = Congestion> {
        let measured =
            |congestion: &Congestion| !self.responses[pair(*congestion)[0].index()].is_empty();
        Congestion::ALL.into_iter().filter(measured)
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

/// Returns every cell from the view of several servers. Each knows the path by HTTP/2, by HTTP/3,
/// or by both, over any of its measured congestion controls. It knows responses of that size, or of
/// all measured sizes of the path. Knowledge of a path does not depend on the model, so any model
/// is suitable.
pub(super) fn examples(cells: &[Cell<'_>], any: &Arc<Model>) -> Vec<Example> {
    let mut by_path: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, cell) in cells.iter().enumerate() {
        by_path.entry(cell.path).or_default().push(index);
    }
    let policy = Arc::new(PolicyConfig::default());
    let views = |[h2, h3]: [&[&Response]; 2]| {
        [[h2, &[][..]], [&[], h3], [h2, h3]].map(|[first, second]| {
            Visitor::new(Arc::clone(&policy), Arc::clone(any)).knowing(first, second)
        })
    };
    let mut examples = Vec::new();
    for indices in by_path.into_values() {
        let all: [Vec<&Response>; ARMS] = Arm::ALL.map(|arm| {
            let of_arm = |&index: &usize| cells[index].responses[arm.index()].iter().copied();
            indices.iter().flat_map(of_arm).collect()
        });
        let by_all_sizes = Congestion::ALL.map(|congestion| {
            let [h2, h3] = pair(congestion).map(|arm| all[arm.index()].as_slice());
            (!h2.is_empty()).then(|| views([h2, h3]))
        });
        for index in indices {
            let cell = &cells[index];
            let by_size = cell.congestions().map(|congestion| {
                views(pair(congestion).map(|arm| cell.responses[arm.index()].as_slice()))
            });
            let known = by_size
                .chain(by_all_sizes.iter().flatten().copied())
                .flatten();
            let places: Vec<_> = known.filter_map(|view| places(&view, cell)).collect();
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

/// Returns the places of the server's lookups for the arms of a cell; `None` before it can look up.
fn places(view: &ClientView, cell: &Cell<'_>) -> Option<[Option<Place>; ARMS]> {
    let rtt = rtt_coordinate(view.min_rtt?.as_secs_f64() * 1e3);
    let place = |arm: Arm| {
        let rate = view.rate_for(arm)?.mbps().max(MIN_MBPS).ln();
        let loss = loss_coordinate(view.loss_for(arm.version).mean.fraction());
        Some([rtt, loss, rate, (cell.size as f64).ln()])
    };
    view.rate?;
    Some(Arm::ALL.map(|arm| {
        let measured = !cell.responses[arm.index()].is_empty();
        measured.then(|| place(arm)).flatten()
    }))
}

/// Smallest rate, since zero has no logarithm.
const MIN_MBPS: f64 = 1e-3;
