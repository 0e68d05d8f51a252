//! The section `[gain]` of the configuration.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use hikyaku_core::gain::{CLIENTS, REPORTED};
use serde::Deserialize;

/// Counts of responses, to show the gain.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GainConfig {
    /// Database of countries in MaxMind's format, for `hikyaku gain --by country`. Default: none.
    pub countries: Option<PathBuf>,
    /// For how long days are kept, at least a day. Default `35d`.
    #[serde(with = "hikyaku_units::duration")]
    pub keep: Duration,
    /// Clients of each day and group that are kept, a uniform random sample of all: from 256 to 65536.
    /// Default 8192.
    pub clients: usize,
}

impl Default for GainConfig {
    fn default() -> Self {
        Self {
            countries: None,
            keep: Duration::from_secs(35 * DAY),
            clients: CLIENTS,
        }
    }
}

impl GainConfig {
    /// The values that are wrong.
    pub(crate) fn faults(&self) -> Vec<String> {
        let days =
            Duration::from_secs(*DAYS.start() * DAY)..=Duration::from_secs(*DAYS.end() * DAY);
        let mut faults = Vec::new();
        if !days.contains(&self.keep) {
            faults.push(format!(
                "gain.keep: {} is not between {}d and {}d",
                hikyaku_units::duration::display(self.keep),
                DAYS.start(),
                DAYS.end()
            ));
        }
        if !SAMPLES.contains(&self.clients) {
            faults.push(format!(
                "gain.clients: {} is not between {} and {}",
                self.clients,
                SAMPLES.start(),
                SAMPLES.end()
            ));
        }
        faults
    }
}

const DAY: u64 = 86_400;
const DAYS: RangeInclusive<u64> = 1..=400;
const SAMPLES: RangeInclusive<usize> = 256..=REPORTED;
