//! CPUs of a virtual machine that never halt.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use rustix::thread::{CpuSet, sched_getaffinity};

use super::sys;

/// Keeps the CPUs of a virtual machine from halting until it is dropped.
///
/// An idle virtual CPU halts, and the host wakes it late when a timer or a packet is
/// due: by milliseconds where other machines use the host. Where the kernel can poll
/// instead, it is asked to; else a process for each CPU spins, with the policy
/// `SCHED_IDLE`, so that everything else runs before it.
///
/// Each is alone in its session: with `sched_autogroup`, Linux 6.18 let spinning threads
/// of a session that works run for up to seconds before other sessions and kernel threads
/// (`ksoftirqd`, `rcu_preempt`) had their turn.
#[derive(Debug)]
pub struct KeepAwake {
    /// The kernel polls as long as it is open.
    _polling: Option<File>,
    spinning: Vec<Pid>,
}

/// Takes the latency in µs, as an `i32`, that idle CPUs may have until they wake
/// (Linux, Documentation/power/pm_qos_interface.rst).
const WAKE_LATENCY: &str = "/dev/cpu_dma_latency";

/// Names the idle state that a latency of zero selects.
const FIRST_IDLE_STATE: &str = "/sys/devices/system/cpu/cpu0/cpuidle/state0/name";

impl KeepAwake {
    /// Starts in a virtual machine; elsewhere nothing is to be done. So it is, too,
    /// where the kernel refuses: what then is late is told by the link's reports.
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
            // It has nothing to tell. Where it could not be killed, it would be waited for
            // for ever; it ends with this process, too.
            if kill_process(process, Signal::KILL).is_ok() {
                let _ = waitpid(Some(process), WaitOptions::empty());
            }
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
