//! Packet loss on the wire.

use rand_chacha::ChaCha8Rng;

use crate::config::Loss;
use crate::rng::{Purpose, hit, stream};

/// Decides for each packet, in the order of the wire, whether it is lost.
#[derive(Debug)]
pub(crate) struct LossProcess {
    loss: Loss,
    bad: bool,
    rng: ChaCha8Rng,
}

impl LossProcess {
    pub(crate) fn new(loss: Loss, seed: u64) -> Self {
        Self {
            loss,
            bad: false,
            rng: stream(seed, Purpose::Loss),
        }
    }

    /// Changes the loss of the next packets. The state of a burst stays.
    pub(crate) fn set(&mut self, loss: Loss) {
        self.loss = loss;
    }

    pub(crate) fn loses_next(&mut self) -> bool {
        match self.loss {
            Loss::None => false,
            Loss::Bernoulli(rate) => hit(&mut self.rng, rate.ppm()),
            Loss::GilbertElliott {
                p_ppm,
                r_ppm,
                loss_good,
                loss_bad,
            } => {
                let (loss, leave) = if self.bad {
                    (loss_bad, r_ppm)
                } else {
                    (loss_good, p_ppm)
                };
                let lost = hit(&mut self.rng, loss.ppm());
                if hit(&mut self.rng, leave) {
                    self.bad = !self.bad;
                }
                lost
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hikyaku_units::LossRate;

    use super::*;

    const PACKETS: u32 = 1_000_000;

    fn loss_of(ppm: u32) -> LossRate {
        LossRate::from_ppm(ppm).unwrap()
    }

    fn lost_packets(loss: Loss, seed: u64) -> Vec<bool> {
        let mut process = LossProcess::new(loss, seed);
        (0..PACKETS).map(|_| process.loses_next()).collect()
    }

    fn share(lost: &[bool]) -> f64 {
        lost.iter().filter(|&&lost| lost).count() as f64 / lost.len() as f64
    }

    #[test]
    fn bernoulli_loses_its_share() {
        for ppm in [0, 1_000, 10_000, 50_000, 1_000_000] {
            let rate = f64::from(ppm) / 1e6;
            let three_sigma = 3.0 * (rate * (1.0 - rate) / f64::from(PACKETS)).sqrt();
            let got = share(&lost_packets(Loss::Bernoulli(loss_of(ppm)), 7));
            assert!((got - rate).abs() <= three_sigma, "{ppm} ppm: {got}");
        }
    }

    #[test]
    fn gilbert_elliott_loses_in_bursts() {
        // The bad state begins at one packet in 51, lasts 10 packets on average,
        // and loses all of them.
        let loss = Loss::GilbertElliott {
            p_ppm: 2_000,
            r_ppm: 100_000,
            loss_good: loss_of(0),
            loss_bad: loss_of(1_000_000),
        };
        let lost = lost_packets(loss, 7);
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        let mean_burst = share(&lost) * f64::from(PACKETS) / bursts;
        assert!(
            (share(&lost) - 2.0 / 102.0).abs() < 0.001,
            "{}",
            share(&lost)
        );
        assert!((mean_burst - 10.0).abs() < 0.5, "{mean_burst}");
    }

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let loss = Loss::Bernoulli(loss_of(10_000));
        assert_eq!(lost_packets(loss, 7), lost_packets(loss, 7));
        assert_ne!(lost_packets(loss, 7), lost_packets(loss, 8));
    }
}
