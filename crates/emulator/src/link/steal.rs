//! CPU time that the machine's host gave to others.

use std::fs;
use std::io;

/// Time of all CPUs since boot, in kernel ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuTime {
    total: u64,
    steal: u64,
}

impl CpuTime {
    /// Reads `/proc/stat`.
    pub(super) fn now() -> io::Result<Self> {
        Ok(Self::parse(&fs::read_to_string("/proc/stat")?))
    }

    /// Share of the time until `later` that was stolen, `0.0..=1.0`.
    pub(super) fn steal_until(self, later: Self) -> f64 {
        let total = later.total.saturating_sub(self.total).max(1);
        later.steal.saturating_sub(self.steal) as f64 / total as f64
    }

    /// Parses the first line, which is `cpu user nice system idle iowait irq softirq steal guest
    /// guest_nice` (proc_stat(5)). The guest times are part of user and nice.
    fn parse(stat: &str) -> Self {
        let first = stat.lines().next().unwrap_or_default();
        let ticks = first.split_whitespace().skip(1).take(8);
        let ticks: Vec<u64> = ticks.flat_map(str::parse).collect();
        Self {
            total: ticks.iter().sum(),
            steal: ticks.get(7).copied().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_all_time_that_passed() {
        let before = CpuTime::parse("cpu  100 0 50 800 10 0 0 40 99 0\ncpu0 1 2 3\n");
        let after = CpuTime::parse("cpu  150 0 60 830 10 0 0 50 120 0\n");
        assert!((before.steal_until(after) - 0.1).abs() < 1e-9);
        assert!(before.steal_until(before).abs() < 1e-9, "no time passed");
    }
}
