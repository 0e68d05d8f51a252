//! The machine: its properties, and its work beside the benchmark.

use std::collections::HashMap;
use std::process::Command;
use std::time::Duration;
use std::{env, fs, io};

use anyhow::{Context, Result};
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::arms::Arm;
use super::server::Cpus;
use super::{namespace, sys};

/// The facts that a reader needs to judge or repeat the figures.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Machine {
    pub(super) cpu: String,
    pub(super) cores: usize,
    /// Whether server and load generator ran on two threads of one core.
    pub(super) siblings: bool,
    pub(super) memory_gib: f64,
    pub(super) kernel: String,
    pub(super) system: String,
    /// Whether the kernel encrypts TLS (`tls` among its upper layer protocols).
    pub(super) kernel_tls: bool,
    /// MTU of loopback in bytes.
    pub(super) mtu: u32,
    pub(super) commit: String,
    /// Servers by the names of the report, with what they say of themselves.
    pub(super) servers: Vec<(String, String)>,
    pub(super) clients: Vec<String>,
    /// RFC 3339.
    pub(super) date: String,
    pub(super) command: String,
}

impl Machine {
    pub(super) fn describe(cpus: Cpus, arms: &[Arm]) -> Result<Self> {
        let cpuinfo = read("/proc/cpuinfo")?;
        let model = cpuinfo
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        // The first is `xtask bench`.
        let arguments: Vec<String> = env::args().skip(2).collect();
        let ulps = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_ulp").unwrap_or_default();
        let servers = arms
            .iter()
            .map(|arm| (arm.name.clone(), arm.version.clone()));
        Ok(Self {
            cpu: model
                .map_or(env::consts::ARCH, |(_, model)| model)
                .to_owned(),
            cores: cpu_count(),
            siblings: siblings(cpus.server)?.contains(&cpus.client),
            memory_gib: key_kib(&read("/proc/meminfo")?, "MemTotal:")? as f64 / f64::from(1 << 20),
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            system: system(),
            kernel_tls: ulps.split_whitespace().any(|ulp| ulp == "tls"),
            mtu: namespace::MTU,
            commit: said("git", &["describe", "--always", "--dirty", "--exclude=*"])?,
            servers: servers.collect(),
            clients: vec![
                version("h2load", &["h2load", "--version"]),
                version("curl", &["curl", "--version"]),
                version("ngtcp2-client", &["dpkg-query", "-W", "ngtcp2-client"]),
                go_client(),
            ],
            date: OffsetDateTime::now_utc().format(&Rfc3339)?,
            command: match arguments.is_empty() {
                true => "make bench".to_owned(),
                false => format!("make bench ARGS=\"{}\"", arguments.join(" ")),
            },
        })
    }
}

/// The libraries of the Go client, as its module names them.
fn go_client() -> String {
    let module = include_str!("../../client/go.mod");
    let version = |start: &str| {
        let found = module
            .lines()
            .find_map(|line| line.trim().strip_prefix(start));
        found.unwrap_or("?").trim().to_owned()
    };
    format!(
        "quic-go/{}, net/http of Go {}",
        version("require github.com/quic-go/quic-go "),
        version("go ")
    )
}

/// The number of CPUs of the machine.
pub(super) fn cpu_count() -> usize {
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    cpuinfo.matches("processor\t").count()
}

/// Ticks of each CPU since boot (proc_stat(5)).
#[derive(Clone, Debug)]
pub(super) struct CpuTicks(HashMap<usize, [u64; 8]>);

/// Ticks in a second, the same on all of Linux's architectures.
const USER_HZ: f64 = 100.0;

impl CpuTicks {
    pub(super) fn now() -> Result<Self> {
        let stat = read("/proc/stat")?;
        let cpus = stat.lines().filter_map(|line| {
            let mut fields = line.strip_prefix("cpu")?.split_whitespace();
            // The first line sums all CPUs and has no number.
            let number = fields.next().filter(|_| !line.starts_with("cpu "))?;
            let ticks: Vec<u64> = fields.take(8).flat_map(str::parse).collect();
            Some((number.parse().ok()?, ticks.try_into().ok()?))
        });
        Ok(Self(cpus.collect()))
    }

    /// Seconds of `cpu` since `before`: stolen by the hypervisor, and busy.
    pub(super) fn since(&self, before: &Self, cpu: usize) -> (f64, f64) {
        const IDLE: usize = 3;
        const IOWAIT: usize = 4;
        const STEAL: usize = 7;
        let (Some(now), Some(then)) = (self.0.get(&cpu), before.0.get(&cpu)) else {
            return (0.0, 0.0);
        };
        let seconds = |field: usize| now[field].saturating_sub(then[field]) as f64 / USER_HZ;
        let busy = (0..8).filter(|field| ![IDLE, IOWAIT, STEAL].contains(field));
        (seconds(STEAL), busy.map(seconds).sum())
    }
}

/// Resident memory of a process and its children in bytes, with shared pages counted in part (PSS).
pub(super) fn pss(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for pid in family(pid) {
        let rollup = read(&format!("/proc/{pid}/smaps_rollup"))?;
        sum += key_kib(&rollup, "Pss:")? << 10;
    }
    Ok(sum)
}

/// CPU time of a process and its living children so far, user and kernel.
pub(super) fn cpu_time(pid: u32) -> Result<Duration> {
    let times = family(pid).into_iter().map(sys::cpu_time);
    let sum: io::Result<Duration> = times.sum();
    sum.with_context(|| format!("reading the CPU time of process {pid} and its children"))
}

/// A process, its children and theirs.
fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    for task in tasks.flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let children = children.split_whitespace().flat_map(str::parse);
        all.extend(children.flat_map(family));
    }
    all
}

fn key_kib(text: &str, key: &str) -> Result<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(key));
    let value = value.and_then(|value| value.trim().strip_suffix(" kB"));
    Ok(value.with_context(|| format!("no `{key}`"))?.parse()?)
}

fn siblings(cpu: usize) -> Result<Vec<usize>> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let mut cpus = Vec::new();
    for range in read(&path)?.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.parse::<usize>()?..=last.parse()?);
    }
    Ok(cpus)
}

fn system() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| "unknown".to_owned(), |name| name.replace('"', ""))
}

/// The version that a program prints, such as `nghttp2/1.52.0`: the first word with a digit and a
/// dot.
fn version(program: &str, command: &[&str]) -> String {
    let said = said(command[0], &command[1..]).unwrap_or_default();
    let numbered = |word: &&str| word.contains('.') && word.contains(|c: char| c.is_ascii_digit());
    match said.split_whitespace().find(numbered) {
        Some(version) if version.contains('/') => version.to_owned(),
        Some(version) => format!("{program}/{version}"),
        None => format!("{program} of unknown version"),
    }
}

/// The output of a command, on either stream.
fn said(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("running {program}"))?;
    let said = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_children_and_theirs() {
        let mut shell = Command::new("sh")
            .args(["-c", "sh -c 'sleep 60 & wait' & wait"])
            .spawn()
            .unwrap();
        let pid = shell.id();
        while family(pid).len() < 3 {
            std::thread::yield_now();
        }
        assert!(pss(pid).unwrap() > 0);
        let all = family(pid);
        for pid in all.into_iter().rev() {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        shell.wait().unwrap();
    }
}
