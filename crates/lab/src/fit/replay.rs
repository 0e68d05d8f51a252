//! The server's choices, replayed over measured paths: what it learns of a client, what
//! it decides, and what that costs.

use std::sync::Arc;

use hikyaku_core::arm::{Arm, Version};
use hikyaku_core::model::Model;
use hikyaku_core::policy::PolicyConfig;

use super::examples::{Cell, VERSIONS};
use super::visitor::Visitor;

/// Clients replayed in each cell. Each meets the measured responses in another order.
const CLIENTS: usize = 4;
/// Visits until the server should know what to do.
const WARM_UP: usize = 12;
/// Visits after that which count.
const VISITS: usize = 12;
/// Arms differ if the slower takes longer than the faster by more than this share.
const DIFFERENT: f64 = 0.05;

/// What a server makes of a path, for clients that fetch one size or several in turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Replayed {
    /// Logarithms of the load times in seconds, of all sizes together, in the order of
    /// [`VERSIONS`].
    pub(super) truth: [f64; 2],
    /// Share of visits for which HTTP/3 was chosen.
    pub(super) h3_share: f64,
}

impl Replayed {
    /// Replays clients that fetch a response of each cell at each visit. The cells are of
    /// one path and congestion control.
    pub(super) fn new(cells: &[&Cell<'_>], model: &Arc<Model>) -> Self {
        let chosen: usize = (0..CLIENTS)
            .map(|client| h3_visits(cells, client, model))
            .sum();
        let total = |version: usize| {
            let loads = cells.iter().map(|cell| cell.loads()[version].ln.exp());
            loads.sum::<f64>().ln()
        };
        Self {
            truth: [total(0), total(1)],
            h3_share: chosen as f64 / (CLIENTS * VISITS) as f64,
        }
    }

    /// Whether it matters what is chosen.
    pub(super) fn differs(&self) -> bool {
        (self.truth[0] - self.truth[1]).abs() > DIFFERENT.ln_1p()
    }

    /// Share of visits for which the faster version was chosen.
    pub(super) fn right_share(&self) -> f64 {
        if self.truth[1] < self.truth[0] {
            self.h3_share
        } else {
            1.0 - self.h3_share
        }
    }

    /// How much longer a response takes than by the faster version, as a share, if
    /// HTTP/3 is chosen for `h3_share` of the visits.
    pub(super) fn regret(&self, h3_share: f64) -> f64 {
        let [h2, h3] = self.truth.map(f64::exp);
        (h3_share * h3 + (1.0 - h3_share) * h2) / h2.min(h3) - 1.0
    }
}

impl Cell<'_> {
    /// The default settings under the cell's congestion control, without hold-back and
    /// exploration: their cost is bounded by the settings, and would only blur what the
    /// model does.
    fn policy(&self) -> PolicyConfig {
        PolicyConfig {
            congestion: self.congestion,
            exploration: 0.0,
            holdback: 0.0,
            ..PolicyConfig::default()
        }
    }
}

/// Visits that count and for which HTTP/3 was chosen.
fn h3_visits(cells: &[&Cell<'_>], client: usize, model: &Arc<Model>) -> usize {
    let Some(first) = cells.first() else {
        return 0;
    };
    let mut visitor = Visitor::new(Arc::new(first.policy()), Arc::clone(model));
    let mut chosen = 0;
    for visit in 0..WARM_UP + VISITS {
        // Nobody has told a client of HTTP/3 before its first visit.
        let h3 = visitor.decide().version == Version::H3 && visit > 0;
        chosen += usize::from(h3 && visit >= WARM_UP);
        for cell in cells {
            let responses = &cell.responses[usize::from(h3)];
            let response = responses[(visit + client) % responses.len()];
            // Half of the clients remember nothing of HTTP/3 from visit to visit.
            if client % 2 == 1 {
                visitor.greet(response);
            }
            visitor.visit(response);
        }
    }
    chosen
}

/// The model's predictions of a cell's load times (logarithms of seconds) for a server
/// that knows the path by both versions, but has learnt nothing from outcomes; `None` if
/// the model lacks the arm.
pub(super) fn predicted(cell: &Cell<'_>, model: &Arc<Model>) -> [Option<f64>; 2] {
    let [h2, h3] = &cell.responses;
    let view = Visitor::new(Arc::new(cell.policy()), Arc::clone(model)).knowing(h2, h3);
    VERSIONS.map(|version| {
        let arm = Arm::new(version, cell.congestion);
        let loss = view.loss_for(version).mean;
        let prediction = model.predict(
            arm,
            view.min_rtt?,
            loss,
            view.rate_for(version, cell.congestion)?,
            cell.size,
        )?;
        Some(prediction.load_time.as_secs_f64().ln())
    })
}
