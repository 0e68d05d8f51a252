//! What is measured, and in which order.

use std::time::Duration;

use hikyaku_core::arm::{Arm, Congestion, Version};
use hikyaku_core::units::{LossRate, Rate};
use hikyaku_lab::link::LinkPair;
use hikyaku_netsim::{LinkConfig, Loss, QueueLimit, derive_seed};
use serde::{Deserialize, Serialize};

/// The grid, and how often each point is measured.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) rtts_ms: Vec<u32>,
    pub(crate) losses_ppm: Vec<u32>,
    pub(crate) rates_mbps: Vec<u32>,
    pub(crate) sizes: Vec<Size>,
}

/// A response size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) bytes: u64,
    pub(crate) repeats: u32,
}

/// A path as the link is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Path {
    pub(crate) rtt_ms: u32,
    /// Loss on the wire, in each direction.
    pub(crate) loss_ppm: u32,
    pub(crate) rate_mbps: u32,
}

/// One download on a fresh connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) arm: Arm,
    #[serde(flatten)]
    pub(crate) path: Path,
    /// Bytes of the response's body.
    pub(crate) size: u64,
    pub(crate) repeat: u32,
}

/// How long a packet may wait in the bottleneck's queue.
const QUEUE: Duration = Duration::from_millis(50);

/// All arms that the model compares.
pub(crate) const ARMS: [Arm; 4] = [
    Arm::new(Version::H2, Congestion::Cubic),
    Arm::new(Version::H3, Congestion::Cubic),
    Arm::new(Version::H2, Congestion::Bbr),
    Arm::new(Version::H3, Congestion::Bbr),
];

impl Plan {
    /// The whole grid: about half an hour on two cores.
    pub(crate) fn full() -> Self {
        Self {
            rtts_ms: vec![1, 10, 25, 50, 100, 200],
            losses_ppm: vec![0, 1_000, 5_000, 10_000, 25_000, 50_000],
            rates_mbps: vec![5, 20, 50, 200, 600],
            sizes: sizes([3, 2, 2, 1]),
        }
    }

    /// The corners of a small grid.
    pub(crate) fn quick() -> Self {
        Self {
            rtts_ms: vec![10, 50],
            losses_ppm: vec![0, 10_000],
            rates_mbps: vec![20, 200],
            sizes: sizes([1, 1, 1, 1]),
        }
    }

    /// All paths, the rate changing fastest.
    pub(crate) fn paths(&self) -> impl Iterator<Item = Path> {
        self.rtts_ms.iter().flat_map(move |&rtt_ms| {
            self.losses_ppm.iter().flat_map(move |&loss_ppm| {
                let rates = self.rates_mbps.iter();
                rates.map(move |&rate_mbps| Path {
                    rtt_ms,
                    loss_ppm,
                    rate_mbps,
                })
            })
        })
    }

    /// All runs. The fastest come first, so that they find the machine alone; of
    /// those equally fast, the first repeat of each. Within that the order is
    /// random and the arms are mixed, so that the machine's drift hits all alike.
    pub(crate) fn jobs(&self, seed: u64) -> Vec<Job> {
        let mut jobs = Vec::new();
        for path in self.paths() {
            for arm in ARMS {
                for &Size { bytes, repeats } in &self.sizes {
                    jobs.extend((0..repeats).map(|repeat| Job {
                        arm,
                        path,
                        size: bytes,
                        repeat,
                    }));
                }
            }
        }
        let mut order: Vec<_> = jobs.into_iter().enumerate().collect();
        order.sort_by_cached_key(|&(i, job)| {
            (
                u64::MAX - job.weight() as u64,
                job.repeat,
                derive_seed(seed, &[i as u64]),
            )
        });
        order.into_iter().map(|(_, job)| job).collect()
    }
}

fn sizes(repeats: [u32; 4]) -> Vec<Size> {
    let bytes = [10_000, 100_000, 1_000_000, 10_000_000];
    bytes
        .into_iter()
        .zip(repeats)
        .map(|(bytes, repeats)| Size { bytes, repeats })
        .collect()
}

impl Path {
    /// The link: both directions alike.
    pub(crate) fn links(self) -> LinkPair {
        let direction = LinkConfig {
            rate: Rate::from_mbps(self.rate_mbps.into()).into(),
            one_way_delay: Duration::from_micros(u64::from(self.rtt_ms) * 500),
            loss: LossRate::from_ppm(self.loss_ppm).map_or(Loss::None, Loss::Bernoulli),
            queue: QueueLimit::Time(QUEUE),
            ..LinkConfig::default()
        };
        LinkPair {
            up: direction.clone(),
            down: direction,
        }
    }
}

impl Job {
    /// Seed of the link's random streams. It leaves out the arm: all arms meet
    /// the same losses, as far as they send the same packets.
    pub(crate) fn seed(&self, seed: u64) -> u64 {
        let Path {
            rtt_ms,
            loss_ppm,
            rate_mbps,
        } = self.path;
        let coordinates = [rtt_ms, loss_ppm, rate_mbps, self.repeat].map(u64::from);
        derive_seed(derive_seed(seed, &coordinates), &[self.size])
    }

    /// Load on the machine, as a rate in Mbit/s: what the download may reach.
    ///
    /// An estimate suffices, since it only decides what may run side by side.
    /// Loss limits CUBIC to `1.22 MSS / (RTT √loss)` (Mathis et al. 1997); a
    /// small response is over before it is fast, but starting two processes and
    /// a connection costs as much CPU as some 50 Mbit/s.
    pub(crate) fn weight(&self) -> f64 {
        const LEAST: f64 = 50.0;
        if self.size < 1_000_000 {
            return LEAST;
        }
        let rate = f64::from(self.path.rate_mbps);
        let limited = match self.arm.congestion {
            Congestion::Cubic if self.path.loss_ppm > 0 => {
                let rtt = f64::from(self.path.rtt_ms) / 1e3;
                1.22 * 1_448.0 * 8e-6 / (rtt * (f64::from(self.path.loss_ppm) / 1e6).sqrt())
            }
            _ => rate,
        };
        limited.min(rate).max(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_point_is_measured_as_often_as_it_should_be() {
        let plan = Plan::full();
        let jobs = plan.jobs(1);
        assert_eq!(jobs.len(), 6 * 6 * 5 * 4 * (3 + 2 + 2 + 1));
        assert_eq!(jobs.iter().collect::<HashSet<_>>().len(), jobs.len());
    }

    #[test]
    fn the_fast_runs_come_first_and_the_order_repeats() {
        let jobs = Plan::full().jobs(1);
        let weights: Vec<u64> = jobs.iter().map(|job| job.weight() as u64).collect();
        assert!(weights.is_sorted_by(|a, b| a >= b));
        assert_eq!(jobs, Plan::full().jobs(1));
        assert_ne!(jobs, Plan::full().jobs(2));
    }

    #[test]
    fn loss_makes_cubic_light_and_leaves_bbr_heavy() {
        let job = |congestion, rtt_ms, loss_ppm, size| Job {
            arm: Arm::new(Version::H2, congestion),
            path: Path {
                rtt_ms,
                loss_ppm,
                rate_mbps: 600,
            },
            size,
            repeat: 0,
        };
        let cases = [
            ("no loss", job(Congestion::Cubic, 50, 0, 10_000_000), 600.0),
            ("loss", job(Congestion::Cubic, 50, 10_000, 10_000_000), 50.0),
            (
                "loss, BBR",
                job(Congestion::Bbr, 50, 10_000, 10_000_000),
                600.0,
            ),
            ("small", job(Congestion::Bbr, 1, 0, 10_000), 50.0),
        ];
        for (name, job, want) in cases {
            assert_eq!(job.weight(), want, "{name}");
        }
    }

    #[test]
    fn arms_share_their_seeds_and_nothing_else_does() {
        let jobs = Plan::full().jobs(1);
        let seeds: HashSet<u64> = jobs.iter().map(|job| job.seed(1)).collect();
        assert_eq!(seeds.len(), jobs.len() / ARMS.len());
    }
}
