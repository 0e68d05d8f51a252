//! CPUs of a virtual machine that never halt.

use std::fs::{self, File, OpenOptions};
use std::hint;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::sys;

/// Keeps the CPUs of a virtual machine from halting until it is dropped.
///
/// An idle virtual CPU halts, and the host wakes it late when a timer or a packet is
/// due: by milliseconds where other machines use the host. Where the kernel can poll
/// instead, it is asked to; else a thread for each CPU spins, with the policy `SCHED_IDLE`,
/// so that everything else runs before it.
///
/// Spinning is second to it because Linux 6.18 with `sched_autogroup` then lets other
/// sessions' threads, and its own (`ksoftirqd`, `rcu_preempt`), wait for seconds.
#[derive(Debug)]
pub(crate) struct KeepAwake {
    /// The kernel polls as long as it is open.
    _polling: Option<File>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Takes the latency in µs, as an `i32`, that idle CPUs may have until they wake
/// (Linux, Documentation/power/pm_qos_interface.rst).
const WAKE_LATENCY: &str = "/dev/cpu_dma_latency";

/// Names the idle state that a latency of zero selects.
const FIRST_IDLE_STATE: &str = "/sys/devices/system/cpu/cpu0/cpuidle/state0/name";

impl KeepAwake {
    /// Starts in a virtual machine; elsewhere nothing is to be done. So it is, too,
    /// where the kernel refuses: what then is late is told by the link's reports.
    pub(crate) fn start() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo");
        if !cpuinfo.is_ok_and(|cpuinfo| is_virtual(&cpuinfo)) {
            return Self::new(None, &[]);
        }
        match poll_when_idle() {
            Ok(file) => Self::new(Some(file), &[]),
            Err(_) => Self::new(None, &allowed_cpus().unwrap_or_default()),
        }
    }

    fn new(polling: Option<File>, spinning: &[usize]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = spinning.iter().filter_map(|&cpu| {
            let stop = Arc::clone(&stop);
            let builder = thread::Builder::new().name(format!("awake-{cpu}"));
            builder.spawn(move || spin(cpu, &stop)).ok()
        });
        Self {
            _polling: polling,
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

/// Has idle CPUs poll as long as the file is open.
fn poll_when_idle() -> io::Result<File> {
    if fs::read_to_string(FIRST_IDLE_STATE)?.trim_end() != "POLL" {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut file = OpenOptions::new().write(true).open(WAKE_LATENCY)?;
    file.write_all(&0_i32.to_ne_bytes())?;
    Ok(file)
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

    use crate::skipped::{skip, this_test};

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
    fn idle_cpus_poll_as_long_as_it_lives() {
        let latency = || {
            let bytes = fs::read(WAKE_LATENCY).unwrap();
            i32::from_ne_bytes(bytes[..4].try_into().unwrap())
        };
        let polling = match poll_when_idle() {
            Ok(file) => file,
            Err(error) => {
                let why = format!("idle CPUs cannot be made to poll here: {error}");
                return skip(&this_test(), &why);
            }
        };
        assert_eq!(latency(), 0, "in µs");
        drop(polling);
    }

    #[test]
    fn a_thread_for_each_cpu_spins_with_the_lowest_priority_and_ends() {
        let cpus = allowed_cpus().unwrap();
        assert!(!cpus.is_empty());
        let awake = KeepAwake::new(None, &cpus);
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
        let wait_until = |wanted: bool| {
            while idle() != wanted {
                assert!(began.elapsed() < Duration::from_secs(10));
                thread::sleep(Duration::from_millis(1));
            }
        };
        wait_until(true);
        drop(awake);
        // The kernel lists a thread for a moment after it has been joined.
        wait_until(false);
    }
}
