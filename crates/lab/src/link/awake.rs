//! CPUs of a virtual machine that never halt.

use std::fs;
use std::hint;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::sys;

/// Keeps the CPUs of a virtual machine from halting until it is dropped.
///
/// An idle virtual CPU halts, and the host wakes it late when a timer or a packet is
/// due: by milliseconds where other machines use the host. Here a thread for each CPU
/// spins instead. It has the policy `SCHED_IDLE`, so everything else runs before it.
#[derive(Debug)]
pub(crate) struct KeepAwake {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl KeepAwake {
    /// Starts in a virtual machine; elsewhere nothing is to be done. So it is, too,
    /// where the kernel refuses: what then is late is told by the link's reports.
    pub(crate) fn start() -> Self {
        let cpus = match fs::read_to_string("/proc/cpuinfo") {
            Ok(cpuinfo) if is_virtual(&cpuinfo) => allowed_cpus().unwrap_or_default(),
            _ => Vec::new(),
        };
        Self::on(&cpus)
    }

    fn on(cpus: &[usize]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = cpus.iter().filter_map(|&cpu| {
            let stop = Arc::clone(&stop);
            let builder = thread::Builder::new().name(format!("awake-{cpu}"));
            builder.spawn(move || spin(cpu, &stop)).ok()
        });
        Self {
            threads: threads.collect(),
            stop,
        }
    }
}

impl Drop for KeepAwake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}

fn spin(cpu: usize, stop: &AtomicBool) {
    // With an ordinary policy, or all on one CPU, they would disturb instead.
    if sys::become_idle().is_err() || pin(cpu).is_err() {
        return;
    }
    while !stop.load(Ordering::Relaxed) {
        hint::spin_loop();
    }
}

fn pin(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect())
}

/// Whether `/proc/cpuinfo` is that of a virtual machine.
fn is_virtual(cpuinfo: &str) -> bool {
    let mut flags = cpuinfo.lines().filter(|line| line.starts_with("flags"));
    flags.any(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_virtual_machine_has_the_flag() {
        let cases = [
            ("flags\t\t: fpu hypervisor lahf_lm\n", true),
            ("flags\t\t: fpu lahf_lm\n", false),
            ("model name\t: hypervisor\n", false),
            ("", false),
        ];
        for (cpuinfo, want) in cases {
            assert_eq!(is_virtual(cpuinfo), want, "{cpuinfo}");
        }
    }

    #[test]
    fn a_thread_for_each_cpu_spins_with_the_lowest_priority_and_ends() {
        let cpus = allowed_cpus().unwrap();
        assert!(!cpus.is_empty());
        let awake = KeepAwake::on(&cpus);
        assert_eq!(awake.threads.len(), cpus.len());
        let name = format!("(awake-{})", cpus[0]);
        let began = Instant::now();
        // proc_pid_stat(5): the policy is field 41, `SCHED_IDLE` is 5.
        let idle = || {
            fs::read_dir("/proc/self/task").unwrap().any(|task| {
                let stat = fs::read_to_string(task.unwrap().path().join("stat"));
                stat.is_ok_and(|stat| {
                    stat.contains(&name) && stat.split_whitespace().nth(40) == Some("5")
                })
            })
        };
        while !idle() {
            assert!(began.elapsed() < Duration::from_secs(10));
            thread::sleep(Duration::from_millis(1));
        }
        drop(awake);
        assert!(!idle());
    }
}
