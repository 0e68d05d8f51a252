//! How much sooner one version loads than the other, over a plane of paths (VERSION §4.2, figure 4).

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::compare::compare;
use crate::client::estimate::LossBounds;
use crate::client::view::{ClientView, Knowledge};
use crate::model::Model;
use crate::policy::PolicyConfig;
use hikyaku_units::arm::{ByTransport, CongestionSet};
use hikyaku_units::{ByteSize, LossRate, Rate, Timestamp};

/// The paths and the response that [`gains`] compares the versions for.
#[derive(Clone, Copy, Debug)]
pub struct Plane<'a> {
    /// Round-trip times, one for each row.
    pub min_rtts: &'a [Duration],
    /// Losses, one for each column; the same over both transports.
    pub losses: &'a [LossRate],
    /// Rate of all paths.
    pub rate: Rate,
    /// Response size.
    pub size: ByteSize,
}

/// The expected gain of HTTP/3 for clients that nothing but their path is known of, by row and column of
/// the plane. A gain is the share of HTTP/3's load time that HTTP/2 takes longer, negative where HTTP/2 is
/// faster. `None` where the model cannot compare them.
#[must_use]
pub fn gains(
    plane: &Plane<'_>,
    model: &Model,
    policy: &PolicyConfig,
    available: &ByTransport<CongestionSet>,
) -> Vec<Vec<Option<f32>>> {
    let candidates = policy.candidates(available);
    let nobody = Knowledge::none(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let mut view = nobody.view(Timestamp::from_secs(0), policy);
    view.rate = Some(plane.rate);
    view.size = Some(plane.size);
    let mut rows = Vec::with_capacity(plane.min_rtts.len());
    for min_rtt in plane.min_rtts {
        view.min_rtt = Some(*min_rtt);
        let mut row = Vec::with_capacity(plane.losses.len());
        for loss in plane.losses {
            view.loss = [Some(exactly(*loss)); 2];
            row.push(gain(&view, model, policy, &candidates));
        }
        rows.push(row);
    }
    rows
}

fn gain(
    view: &ClientView,
    model: &Model,
    policy: &PolicyConfig,
    candidates: &ByTransport<CongestionSet>,
) -> Option<f32> {
    let compared = compare(view, model, policy, candidates).ok()?;
    Some(compared.comparison.h3_gain.expected())
}

const fn exactly(loss: LossRate) -> LossBounds {
    LossBounds {
        mean: loss,
        low: loss,
        high: loss,
    }
}

#[cfg(test)]
mod tests {
    use super::{Plane, gains};
    use crate::model::tests::synthetic;
    use crate::policy::PolicyConfig;
    use hikyaku_units::arm::{ByTransport, CongestionSet};
    use hikyaku_units::{ByteSize, LossRate, Rate};
    use std::time::Duration;

    #[test]
    fn it_has_a_row_for_each_round_trip_time_and_a_column_for_each_loss() {
        let rtts = [10, 200].map(Duration::from_millis);
        let losses = [0.0, 0.001, 0.02].map(LossRate::from_fraction);
        let plane = Plane {
            min_rtts: &rtts,
            losses: &losses,
            rate: Rate::from_mbps(20),
            size: ByteSize::from_bytes(1_000_000),
        };
        let available = ByTransport::from_fn(|_| CongestionSet::ALL);
        let gains = gains(&plane, &synthetic(), &PolicyConfig::default(), &available);
        assert_eq!(gains.len(), 2);
        for row in &gains {
            assert_eq!(row.len(), 3);
            assert!(row.iter().flatten().all(|gain| gain.is_finite()), "{row:?}");
            assert!(row.iter().all(Option::is_some), "{row:?}");
        }
        assert_ne!(gains[0], gains[1]);
    }
}
