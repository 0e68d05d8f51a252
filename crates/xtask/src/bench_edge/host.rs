//! The machine: its properties, and its work beside the benchmark.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

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
    pub(super) commit: String,
    pub(super) nginx: String,
    pub(super) h2load: String,
    pub(super) curl: String,
    /// RFC 3339.
    pub(super) date: String,
    pub(super) command: String,
}

impl Machine {
    pub(super) fn describe(server_cpu: usize, client_cpu: usize) -> Result<Self> {
        let cpuinfo = read("/proc/cpuinfo")?;
        let models: Vec<&str> = cpuinfo
            .lines()
            .filter_map(|line| line.strip_prefix("model name")?.split_once(": "))
            .map(|(_, model)| model)
            .collect();
        let cores = cpuinfo.matches("processor\t").count();
        let arguments: Vec<String> = env::args().skip(1).collect();
        let ulps = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_ulp").unwrap_or_default();
        Ok(Self {
            cpu: (*models.first().unwrap_or(&env::consts::ARCH)).to_owned(),
            cores,
            siblings: siblings(server_cpu)?.contains(&client_cpu),
            memory_gib: key_kib(&read("/proc/meminfo")?, "MemTotal:")? as f64 / f64::from(1 << 20),
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            system: system(),
            kernel_tls: ulps.split_whitespace().any(|ulp| ulp == "tls"),
            commit: said("git", &["describe", "--always", "--dirty", "--exclude=*"])?,
            nginx: version("nginx", "-v")?,
            h2load: version("h2load", "--version")?,
            curl: version("curl", "--version")?,
            date: OffsetDateTime::now_utc().format(&Rfc3339)?,
            command: match arguments.is_empty() {
                true => "make bench-edge".to_owned(),
                false => format!("make bench-edge ARGS=\"{}\"", arguments.join(" ")),
            },
        })
    }
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

/// Resident memory of a process in bytes, with shared pages counted in part (PSS).
pub(super) fn pss(pid: u32) -> Result<u64> {
    let rollup = read(&format!("/proc/{pid}/smaps_rollup"))?;
    Ok(key_kib(&rollup, "Pss:")? << 10)
}

/// The only child of a process.
pub(super) fn only_child(pid: u32) -> Result<u32> {
    let children = read(&format!("/proc/{pid}/task/{pid}/children"))?;
    match children.split_whitespace().collect::<Vec<_>>()[..] {
        [child] => Ok(child.parse()?),
        ref children => bail!("process {pid} has {} children, not one", children.len()),
    }
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

/// The version that a program prints, such as `nginx/1.22.1`: the first word with a dot in its
/// first line.
fn version(program: &str, option: &str) -> Result<String> {
    let said = said(program, &[option])?;
    let words = said.lines().next().unwrap_or_default().split_whitespace();
    let mut numbered = words.filter(|word| word.contains('.'));
    let version = numbered.next().unwrap_or("unknown");
    Ok(match version.contains('/') {
        true => version.to_owned(),
        false => format!("{program}/{version}"),
    })
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
