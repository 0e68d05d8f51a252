//! Simulated weeks: clients of unlike networks that come back, with responses of unlike sizes.

use std::time::Duration;

use hikyaku_units::arm::Version;
use hikyaku_units::mix::mix;

use crate::choice::Assignment;
use crate::gain::Response;

/// Hours of a week.
pub(super) const HOURS: usize = 168;
/// Networks of clients.
pub(super) const NETWORKS: usize = 12;

/// Random numbers from a seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// From 0 to below 1.
    pub(super) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(1);
        (mix(mix(self.0)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Normally distributed with mean 0 and variance 1 (Box, Muller 1958).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// A client of a week.
pub(super) struct Visitor {
    pub(super) assignment: Assignment,
    pub(super) network: usize,
    /// Hours of its visits, ascending.
    pub(super) visits: Vec<usize>,
    rtt_secs: f64,
    bytes_per_sec: f64,
}

impl Visitor {
    /// A client that comes in some hour, most of them once, some for days again and again.
    pub(super) fn new(random: &mut Random, holdback: f64) -> Self {
        let network = (random.unit() * NETWORKS as f64) as usize;
        // From 15 ms and 50 Mbit/s to 150 ms and 2 Mbit/s, and clients of a network scatter.
        let far = network as f64 / 11.0;
        let rtt_secs = 0.015 * 10_f64.powf(far) * (0.4 * random.normal()).exp();
        let bytes_per_sec = 6.25e6 / 25_f64.powf(far) * (0.5 * random.normal()).exp();
        let first = (random.unit() * HOURS as f64) as usize;
        // Pareto with exponent 1.3: a mean of 4 visits, and some have hundreds.
        let visits = (1.0 - random.unit()).powf(-1.0 / 1.3).min(400.0) as usize;
        let mut visits: Vec<usize> = (0..visits)
            .map(|n| match n {
                0 => first,
                _ => first + (random.unit() * (HOURS - first) as f64) as usize,
            })
            .collect();
        visits.sort_unstable();
        Self {
            assignment: match random.unit() < holdback {
                true => Assignment::HoldBack,
                false => Assignment::Hikyaku,
            },
            network,
            visits,
            rtt_secs,
            bytes_per_sec,
        }
    }

    /// One response, whose time is `factor` times that of the client's path.
    pub(super) fn response(&self, random: &mut Random, factor: f64) -> Response {
        // Pareto with exponent 1.1: the mean is that of the few large ones.
        let bytes = 4000.0 * (1.0 - random.unit()).powf(-1.0 / 1.1);
        let bytes = bytes.min(1e9);
        let path = 2.0 * self.rtt_secs + bytes / self.bytes_per_sec;
        // One in fifty waits for a lost packet, up to many times as long.
        let noise = (0.5 * random.normal()).exp();
        let lost = match random.unit() < 0.02 {
            true => (1.0 - random.unit()).powf(-0.8),
            false => 0.0,
        };
        Response {
            version: Version::H2,
            bytes: bytes as u64,
            time: Duration::from_secs_f64((path * noise + lost).min(200.0) * factor),
            complete: true,
        }
    }
}
