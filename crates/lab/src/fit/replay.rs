//! The server's choices, replayed over measured paths: its knowledge of a client, its decisions,
//! and their cost.

use std::sync::Arc;

use hikyaku_core::model::Model;
use hikyaku_core::policy::PolicyConfig;
use hikyaku_units::arm::{ARMS, Arm, CongestionSet, Transport, Version};

use super::examples::{Cell, pair};
use super::visitor::Visitor;

/// Number of clients replayed in each cell. Each meets the measured responses in another order.
const CLIENTS: usize = 4;
/// Visits until the server should know the path.
const WARM_UP: usize = 12;
/// Visits after the warm-up, which count.
const VISITS: usize = 12;
/// Arms differ if the slowest takes longer than the fastest by more than this share.
const DIFFERENT: f64 = 0.05;

/// The choices of a server on a path, for clients that fetch one size or several in turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Replayed {
    /// Seconds that all sizes take together by each available arm, with TCP's longer handshake, by
    /// [`Arm::index`].
    pub(super) truth: [Option<f64>; ARMS],
    /// Share of visits for which each was chosen.
    pub(super) shares: [f64; ARMS],
}

impl Replayed {
    /// Replays clients that fetch a response of each cell at each visit, and may get any congestion
    /// control of `available`. The cells are of one path, and all have these.
    pub(super) fn new(cells: &[&Cell<'_>], available: CongestionSet, model: &Arc<Model>) -> Self {
        let mut shares = [0.0; ARMS];
        for client in 0..CLIENTS {
            for arm in visits(cells, client, available, model) {
                shares[arm.index()] += 1.0 / (CLIENTS * VISITS) as f64;
            }
        }
        let total = |arm: Arm| {
            let handshake = |cell: &Cell<'_>| match arm.version.transport() {
                Transport::Tcp => cell.handshake(),
                Transport::Quic => 0.0,
            };
            let seconds =
                |cell: &&Cell<'_>| Some(cell.loads()[arm.index()]?.ln.exp() + handshake(cell));
            let loads = cells.iter().map(seconds);
            available.contains(arm.congestion).then(|| loads.sum())?
        };
        Self {
            truth: Arm::ALL.map(total),
            shares,
        }
    }

    fn known(&self) -> impl Iterator<Item = (usize, f64)> {
        let known = self.truth.iter().enumerate();
        known.filter_map(|(arm, seconds)| Some((arm, (*seconds)?)))
    }

    fn fastest(&self) -> f64 {
        self.known()
            .map(|(_, seconds)| seconds)
            .fold(f64::INFINITY, f64::min)
    }

    /// Whether the choice matters.
    pub(super) fn differs(&self) -> bool {
        let slowest = self.known().map(|(_, seconds)| seconds).fold(0.0, f64::max);
        slowest / self.fastest() > 1.0 + DIFFERENT
    }

    /// Returns the share of visits with a right choice. It is an arm within [`DIFFERENT`] of the
    /// fastest; of two arms it is the fastest alone.
    pub(super) fn right_share(&self) -> f64 {
        let two = self.known().count() == 2;
        let slack = if two { 0.0 } else { DIFFERENT };
        let limit = self.fastest() * (1.0 + slack);
        let right = self.known().filter(|(_, seconds)| *seconds <= limit);
        right.map(|(arm, _)| self.shares[arm]).sum()
    }

    /// Returns how much longer a response took than by the fastest arm, as a share.
    pub(super) fn regret(&self) -> f64 {
        let mean: f64 = self
            .known()
            .map(|(arm, seconds)| self.shares[arm] * seconds)
            .sum();
        mean / self.fastest() - 1.0
    }

    /// Returns the regret if all visits had got `arm`; `None` if it was not available.
    pub(super) fn regret_of(&self, arm: Arm) -> Option<f64> {
        Some(self.truth[arm.index()]? / self.fastest() - 1.0)
    }
}

/// Returns the default settings, without hold-back group and experiments. The settings bound their
/// cost, and they would only blur the model's effect.
fn policy() -> Arc<PolicyConfig> {
    Arc::new(PolicyConfig {
        exploration: 0.0,
        holdback: 0.0,
        ..PolicyConfig::default()
    })
}

/// Returns the choices for the visits that count.
fn visits(
    cells: &[&Cell<'_>],
    client: usize,
    available: CongestionSet,
    model: &Arc<Model>,
) -> Vec<Arm> {
    let mut visitor = Visitor::new(policy(), Arc::clone(model));
    let mut chosen = Vec::new();
    for visit in 0..WARM_UP + VISITS {
        let decision = visitor.decide(available);
        // Before its first visit a client has no advertisement of HTTP/3.
        let h3 = decision.version == Version::H3 && visit > 0;
        let transport = if h3 { Version::H3 } else { Version::H2 }.transport();
        let arm = Arm::over(transport, decision.congestion.get(transport).congestion);
        if visit >= WARM_UP {
            chosen.push(arm);
        }
        for cell in cells {
            let responses = &cell.responses[arm.index()];
            let response = responses[(visit + client) % responses.len()];
            // Half of the clients forget HTTP/3 between visits.
            if client % 2 == 1 {
                visitor.greet(response);
            }
            visitor.visit(response);
        }
    }
    chosen
}

/// Returns the model's predictions of a cell's load times, as logarithms of seconds, by
/// [`Arm::index`]. The server knows the path by both versions over the same congestion control, but
/// has no outcomes. A prediction is `None` if the arm was not measured or the model lacks it.
pub(super) fn predicted(cell: &Cell<'_>, model: &Arc<Model>) -> [Option<f64>; ARMS] {
    let mut predicted = [None; ARMS];
    for congestion in cell.congestions() {
        let [h2, h3] = pair(congestion).map(|arm| cell.responses[arm.index()].as_slice());
        let view = Visitor::new(policy(), Arc::clone(model)).knowing(h2, h3);
        for arm in pair(congestion) {
            let prediction = || {
                let loss = view.loss_for(arm.version).mean;
                let rate = view.rate_for(arm)?;
                model.predict(arm, view.min_rtt?, loss, rate, cell.size)
            };
            predicted[arm.index()] = prediction().map(|found| found.load_time.as_secs_f64().ln());
        }
    }
    predicted
}
