//! How long a client may remember HTTP/3.

use std::time::Duration;

use crate::client::udp::Verdict;
use crate::client::view::ClientView;
use crate::policy::PolicyConfig;
use hikyaku_units::Secs;

/// The `ma` of an advertisement.
///
/// HTTP/3 is trusted, in steps, for as long ahead as it has been both chosen and seen to work. It is
/// trusted for an hour at most where its gain is likely but not sure, and for `ma_min` at any doubt.
/// `gain_low` is the lower bound of its gain where it was chosen for that.
pub(super) fn lease(
    view: &ClientView,
    gain_low: Option<f32>,
    policy: &PolicyConfig,
    now: Secs,
) -> Duration {
    let (Verdict::Works { since }, Some(choice), Some(gain_low)) =
        (view.udp, view.choice, gain_low)
    else {
        return policy.ma_min;
    };
    let trusted = now.since(since).min(now.since(choice.since));
    let limit = match gain_low {
        low if low > policy.min_gain as f32 => policy.ma_max,
        low if low > 0.0 => LIKELY,
        _ => policy.ma_min,
    };
    let step = STEPS
        .into_iter()
        .rev()
        .find(|step| *step <= trusted)
        .unwrap_or_default();
    step.min(limit).clamp(policy.ma_min, policy.ma_max)
}

const LIKELY: Duration = Duration::from_secs(3600);
const STEPS: [Duration; 6] = [
    Duration::from_secs(60),
    Duration::from_secs(300),
    Duration::from_secs(1800),
    Duration::from_secs(7200),
    Duration::from_secs(28_800),
    Duration::from_secs(86_400),
];
