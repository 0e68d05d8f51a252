//! How far the model is off for a client, by arm.

use crate::stat::Stat;
use hikyaku_units::arm::{ARMS, Arm, Transport};

/// Natural logarithms of real by predicted load time, by [`Arm::index`].
///
/// How much they scatter is a property of the client, so it is kept for all arms together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Outcomes {
    pub(crate) mean: [f32; ARMS],
    /// How many responses a mean is worth, faded.
    pub(crate) weight: [f32; ARMS],
    /// Variance around the means.
    pub(crate) var: f32,
}

impl Outcomes {
    /// Those of one arm.
    pub(crate) const fn of(&self, arm: Arm) -> Stat {
        let index = arm.index();
        Stat {
            mean: self.mean[index],
            var: self.var,
            weight: self.weight[index],
        }
    }

    /// Those of each arm.
    pub(crate) fn by_arm(&self) -> [Stat; ARMS] {
        Arm::ALL.map(|arm| self.of(arm))
    }

    /// Takes an outcome of `arm` that counts as `weight` of one; beyond `max_weight` the arm's oldest fade
    /// for it.
    pub(crate) fn push(&mut self, arm: Arm, log_ratio: f32, weight: f32, max_weight: f32) {
        let mut stat = self.of(arm);
        stat.push_weighted(log_ratio, weight, max_weight);
        let index = arm.index();
        let from_old = log_ratio - self.mean[index];
        (self.mean[index], self.weight[index]) = (stat.mean, stat.weight);
        let share = weight / self.weight.iter().sum::<f32>();
        // Rounding may leave it just below zero.
        self.var = (self.var + share * (from_old * (log_ratio - stat.mean) - self.var)).max(0.0);
    }

    /// Keeps `share` of all weights.
    pub(crate) fn fade(&mut self, share: f32) {
        for weight in &mut self.weight {
            *weight *= share;
        }
    }

    /// Forgets those over `transport`.
    pub(crate) fn forget(&mut self, transport: Transport) {
        for arm in Arm::ALL {
            if arm.version.transport() == transport {
                self.mean[arm.index()] = 0.0;
                self.weight[arm.index()] = 0.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Arm, Outcomes, Transport};
    use hikyaku_units::arm::Congestion;

    #[test]
    fn arms_have_means_of_their_own_and_share_a_variance() {
        let [cubic, floor] = [Congestion::Cubic, Congestion::Floor]
            .map(|congestion| Arm::over(Transport::Tcp, congestion));
        let mut outcomes = Outcomes::default();
        for n in 0..200 {
            let noise = if n % 2 == 0 { 0.1 } else { -0.1 };
            outcomes.push(cubic, 1.0 + noise, 1.0, 24.0);
            outcomes.push(floor, -1.0 + noise, 1.0, 24.0);
        }
        let near = |got: f32, want: f32| (got - want).abs() < 0.02;
        let [of_cubic, of_floor] = [cubic, floor].map(|arm| outcomes.of(arm));
        assert!(
            near(of_cubic.mean, 1.0) && near(of_floor.mean, -1.0),
            "{outcomes:?}"
        );
        assert!(
            near(of_cubic.var, 0.01) && of_cubic.var == of_floor.var,
            "{outcomes:?}"
        );
        assert_eq!(of_cubic.weight, 24.0);

        let other = Arm::over(Transport::Quic, Congestion::Bbr);
        assert_eq!(outcomes.of(other).weight, 0.0);
        outcomes.push(other, 0.5, 1.0, 24.0);
        outcomes.forget(Transport::Tcp);
        assert_eq!(outcomes.of(floor).weight, 0.0);
        assert_eq!(outcomes.of(other).mean, 0.5);
    }
}
