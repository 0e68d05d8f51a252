//! The memory and CPU time of processes.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Ticks in a second, the same on all of Linux's architectures (proc_pid_stat(5)).
const USER_HZ: u32 = 100;

/// The resources that a process has used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Bytes of memory, with shared pages counted in part (PSS).
    pub(crate) memory: u64,
    pub(crate) cpu: Duration,
}

impl Usage {
    /// Reads the resources of a process without its children.
    ///
    /// # Errors
    /// If there is no such process.
    pub(crate) fn of(process: u32) -> Result<Self> {
        let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
        let pss = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kib = pss.and_then(|pss| pss.trim().strip_suffix(" kB"));
        let memory = kib.context("no `Pss`")?.parse::<u64>()? << 10;
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        // The name, in parentheses, may hold any character. utime and stime are the 14th and 15th
        // field.
        let (_, fields) = stat.rsplit_once(") ").context("no name")?;
        let ticks = fields
            .split(' ')
            .skip(11)
            .take(2)
            .flat_map(str::parse::<u32>);
        let cpu = Duration::from_secs(1) * ticks.sum::<u32>() / USER_HZ;
        Ok(Self { memory, cpu })
    }
}
