//! CPU time that a hypervisor gave to other machines.

use std::fs;

use super::error::{Attempt, RunError};

/// Ticks of all CPUs since boot.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuTime {
    total: u64,
    steal: u64,
}

impl CpuTime {
    pub(super) fn now() -> Result<Self, RunError> {
        let stat = fs::read_to_string("/proc/stat").attempt(|| "reading /proc/stat".to_owned())?;
        Ok(Self::parse(&stat))
    }

    fn parse(stat: &str) -> Self {
        let first = stat.lines().next().unwrap_or_default();
        // proc_stat(5): user nice system idle iowait irq softirq steal
        let words = first.split_whitespace().skip(1).take(8);
        let ticks: Vec<u64> = words.flat_map(str::parse).collect();
        Self {
            total: ticks.iter().sum(),
            steal: ticks.get(7).copied().unwrap_or(0),
        }
    }

    /// Share of the time until `later` that was stolen. A single tick proves nothing.
    pub(super) fn steal_until(&self, later: &Self) -> f64 {
        let total = later.total.saturating_sub(self.total).max(1);
        match later.steal.saturating_sub(self.steal) {
            0 | 1 => 0.0,
            steal => steal as f64 / total as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_column() {
        let before = CpuTime::parse("cpu  10 0 10 80 0 0 0 5 0 0\ncpu0 1 2 3\n");
        let later = CpuTime::parse("cpu  20 0 20 150 0 0 0 15 0 0\n");
        assert_eq!(before.steal_until(&later), 0.1);
        assert_eq!(before.steal_until(&before), 0.0);
    }
}
