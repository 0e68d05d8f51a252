//! `GET /v1/model`: the model in use, and how its predictions compare with what clients measured.

use hikyaku_units::arm::{ARMS, Arm};
use http::Response;
use serde::Serialize;

use super::json;
use crate::shared::Shared;
use hikyaku_content::Body;

/// Most clients, the newest, that are compared.
const MAX_COMPARED: usize = 20_000;

/// The answer.
#[derive(Debug, Serialize)]
struct ModelReport {
    /// The data it was made from.
    description: String,
    /// Number of clients with an outcome.
    clients: usize,
    /// Of each arm that clients have used.
    arms: Vec<ArmReport>,
}

/// The load times by an arm, as a share of those predicted: of each client the geometric mean of its
/// responses.
#[derive(Debug, Serialize)]
struct ArmReport {
    arm: Arm,
    clients: usize,
    /// Faded.
    responses: f32,
    p10: f32,
    p50: f32,
    p90: f32,
}

/// Compares.
pub(super) fn model(shared: &Shared) -> Response<Body> {
    let (newest, _) = shared.clients.newest(MAX_COMPARED);
    let mut ratios: [Vec<f32>; ARMS] = Default::default();
    let (mut responses, mut clients) = ([0.0; ARMS], 0);
    for known in newest {
        let Some(own) = shared.clients.own(known.address) else {
            continue;
        };
        let mut is_known = false;
        for (arm, weight, ratio) in own.ratios() {
            ratios[arm.index()].push(ratio);
            responses[arm.index()] += weight;
            is_known = true;
        }
        clients += usize::from(is_known);
    }
    let report = |arm: Arm| ArmReport::of(arm, &mut ratios[arm.index()], responses[arm.index()]);
    json(&ModelReport {
        description: shared.clients.model_description(),
        clients,
        arms: Arm::ALL.into_iter().filter_map(report).collect(),
    })
}

impl ArmReport {
    /// `None` without clients.
    fn of(arm: Arm, ratios: &mut [f32], responses: f32) -> Option<Self> {
        ratios.sort_unstable_by(f32::total_cmp);
        let last = ratios.len().checked_sub(1)?;
        let quantile = |q: f32| ratios[(q * last as f32).round() as usize];
        Some(Self {
            arm,
            clients: ratios.len(),
            responses,
            p10: quantile(0.1),
            p50: quantile(0.5),
            p90: quantile(0.9),
        })
    }
}
