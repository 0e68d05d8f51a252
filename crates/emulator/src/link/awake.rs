//! CPUs of a virtual machine that never halt.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use rustix::thread::{CpuSet, sched_getaffinity};

use super::sys;

/// A guard that keeps the CPUs of a virtual machine from halting until it is dropped.
///
/// An idle virtual CPU halts. If other machines use the host, it is woken milliseconds after a
/// timer or packet is due. The guard asks the kernel to poll instead. A kernel without that gets a
/// process for each CPU that spins. Its policy `SCHED_IDLE` lets everything else run before it.
///
/// Each process is alone in its session because of `sched_autogroup`. Linux 6.18 let spinning
/// threads of a busy session run for up to seconds before other sessions had their turn. Kernel
/// threads (`ksoftirqd`, `rcu_preempt`) waited, too.
#[derive(Debug)]
pub struct KeepAwake {
    /// The kernel polls as long as this file is open.
    _polling: Option<File>,
    spinning: Vec<Pid>,
}

/// Takes the wake-up latency in µs, as an `i32`, that idle CPUs may have (Linux,
/// Documentation/power/pm_qos_interface.rst).
const WAKE_LATENCY: &str = "/dev/cpu_dma_latency";

/// Contains the name of the idle state that a latency of zero selects.
const FIRST_IDLE_STATE: &str = "/sys/devices/system/cpu/cpu0/cpuidle/state0/name";

impl KeepAwake {
    /// Keeps the CPUs of a virtual machine awake; on other machines it does nothing. If the kernel
    /// refuses, it does nothing either, and the links' reports show the lateness.
    pub fn start() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo");
        if !cpuinfo.is_ok_and(|cpuinfo| is_virtual(&cpuinfo)) {
            return Self::new(None, &[]);
        }
        match poll_when_idle() {
            Ok(file) => Self::new(Some(file), &[]),
            Err(_) => Self::new(None, &allowed_cpus().unwrap_or_default()),
        }
    }

    fn new(polling: Option<File>, cpus: &[usize]) -> Self {
        let spinning = cpus.iter().filter_map(|&cpu| {
            let mut only = CpuSet::new();
            only.set(cpu);
            sys::start_spinning(&only, getpid()).ok()
        });
        Self {
            _polling: polling,
            spinning: spinning.collect(),
        }
    }
}

impl Drop for KeepAwake {
    fn drop(&mut self) {
        for process in self.spinning.drain(..) {
            // It has no result. An unkillable process would be waited for without end; it ends with
            // this process, too.
            if kill_process(process, Signal::KILL).is_ok() {
                let _ = waitpid(Some(process), WaitOptions::empty());
            }
        }
    }
}

/// Makes idle CPUs poll as long as the file is open.
fn poll_when_idle() -> io::Result<File> {
    if fs::read_to_string(FIRST_IDLE_STATE)?.trim_end() != "POLL" {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut file = OpenOptions::new().write(true).open(WAKE_LATENCY)?;
    file.write_all(&0_i32.to_ne_bytes())?;
    Ok(file)
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
    use std::thread;
    use std::time::{Duration, Instant};

    use hikyaku_testkit::{skip, this_test};

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
    fn a_process_for_each_cpu_spins_alone_and_ends() {
        let cpus = allowed_cpus().unwrap();
        assert!(!cpus.is_empty());
        let awake = KeepAwake::new(None, &cpus);
        let processes = awake.spinning.clone();
        assert_eq!(processes.len(), cpus.len());
        let stat =
            |process: Pid| fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid()));
        for (&process, cpu) in processes.iter().zip(cpus) {
            let began = Instant::now();
            // proc_pid_stat(5): after the name, the session is field 6, the CPU 39, and the policy
            // 41, where `SCHED_IDLE` is 5.
            let spins = |stat: &str| {
                let fields = stat.rsplit_once(") ").unwrap().1;
                let field = |number: usize| fields.split_whitespace().nth(number - 3).unwrap();
                let own = process.as_raw_pid().to_string();
                field(6) == own && field(39) == cpu.to_string() && field(41) == "5"
            };
            while !spins(&stat(process).unwrap()) {
                assert!(began.elapsed() < Duration::from_secs(10));
                thread::sleep(Duration::from_millis(1));
            }
            let open = fs::read_dir(format!("/proc/{}/fd", process.as_raw_pid())).unwrap();
            assert_eq!(open.count(), 0, "files that it keeps open");
        }
        drop(awake);
        for process in processes {
            assert!(stat(process).is_err(), "{process:?} is still there");
        }
    }

    #[test]
    fn it_ends_when_its_parent_is_another() {
        let all = sched_getaffinity(None).unwrap();
        let process = sys::start_spinning(&all, Pid::INIT).unwrap();
        let (_, status) = waitpid(Some(process), WaitOptions::empty())
            .unwrap()
            .unwrap();
        assert_eq!(status.exit_status(), Some(0));
    }
}
