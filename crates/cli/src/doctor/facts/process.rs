//! The process whose limits count: the server if it runs, else the doctor itself.

use super::System;

/// Limits and rights of the process that serves, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    /// The id of a server that runs; without one, the rest is of the doctor's own process.
    pub(crate) server: Option<u32>,
    /// Files that it may have open at most; `None` for any number.
    pub(crate) files: Option<u64>,
    /// A bit for each effective one (capabilities(7)).
    pub(crate) capabilities: u64,
    /// Bytes of memory that it may have, and the file that says so.
    pub(crate) memory: Option<(u64, String)>,
    /// The doctor may look at the processes and files of others.
    pub(crate) sees_all: bool,
}

/// A capability by its number (`linux/capability.h`).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Capability {
    SysAdmin = 21,
    Perfmon = 38,
    Bpf = 39,
}

impl Process {
    pub(super) fn of(system: &System, server: Option<u32>) -> Self {
        let id = server.map_or_else(|| "self".to_owned(), |id| id.to_string());
        let file = |name: &str| {
            system
                .text(&format!("proc/{id}/{name}"))
                .unwrap_or_default()
        };
        Self {
            server,
            files: open_files(&file("limits")),
            capabilities: capabilities(&file("status")),
            memory: memory(system, &file("cgroup")),
            sees_all: rustix::process::geteuid().is_root(),
        }
    }

    /// Whether it has a capability.
    pub(crate) fn has(&self, capability: Capability) -> bool {
        self.capabilities >> capability as u64 & 1 == 1
    }

    /// In words.
    pub(crate) fn name(&self) -> String {
        match self.server {
            Some(id) => format!("the server (process {id})"),
            None => "this process (no server runs)".to_owned(),
        }
    }
}

/// The hard limit, up to which the server raises its own.
fn open_files(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|l| l.strip_prefix("Max open files"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
        .unwrap_or_default()
}

/// The least of the machine's memory and the limits of the control groups that a process is in (cgroups(7)).
fn memory(system: &System, groups: &str) -> Option<(u64, String)> {
    let machine = system.text("proc/meminfo").and_then(|text| {
        let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some((kib * 1024, "/proc/meminfo".to_owned()))
    });
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next(), parts.next().unwrap_or("/"));
        let (root, name) = match controllers {
            Some("") => ("/sys/fs/cgroup", "memory.max"),
            Some("memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return Vec::new(),
        };
        let ancestors = std::path::Path::new(path).ancestors();
        let files = ancestors.map(|group| {
            let group = group.display().to_string();
            format!("{root}{}/{name}", group.trim_end_matches('/'))
        });
        let limit = |file: String| Some((system.text(&file)?.parse().ok()?, file));
        files.filter_map(limit).collect()
    });
    limits.chain(machine).min_by_key(|(bytes, _)| *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::facts::system::tests::system;

    #[test]
    fn limits_of_the_server_count_where_it_runs() {
        let limits = |hard| {
            format!("Limit  Soft Limit  Hard Limit  Units\nMax open files   1024   {hard}  files\n")
        };
        let (_dir, system) = system(&[
            ("proc/self/limits", &limits("4096")),
            ("proc/7/limits", &limits("unlimited")),
            ("proc/self/status", "Name:\tx\nCapEff:\t0000000000200000\n"),
            ("proc/7/status", "CapEff:\t000000c000000000\n"),
        ]);
        let own = Process::of(&system, None);
        assert_eq!(
            (own.files, own.name()),
            (Some(4096), "this process (no server runs)".into())
        );
        assert!(own.has(Capability::SysAdmin) && !own.has(Capability::Bpf));
        let server = Process::of(&system, Some(7));
        assert_eq!(server.files, None);
        assert_eq!(server.name(), "the server (process 7)");
        assert!(server.has(Capability::Bpf) && server.has(Capability::Perfmon));
        assert!(!server.has(Capability::SysAdmin));
    }

    #[test]
    fn the_least_limit_of_memory_counts() {
        let machine = ("proc/meminfo", "MemTotal:        1000 kB\nMemFree: 1 kB\n");
        let group = ("proc/self/cgroup", "0::/a/b\n");
        let old = ("proc/self/cgroup", "9:cpu:/x\n8:memory:/a\n0::/\n");
        // files, and the limit in bytes with its file
        let cases: [(&[(&str, &str)], Option<(u64, &str)>); 5] = [
            (&[], None),
            (&[machine], Some((1_024_000, "/proc/meminfo"))),
            (
                &[machine, group, ("sys/fs/cgroup/a/memory.max", "5000")],
                Some((5000, "/sys/fs/cgroup/a/memory.max")),
            ),
            (
                &[
                    machine,
                    group,
                    ("sys/fs/cgroup/a/memory.max", "5000"),
                    ("sys/fs/cgroup/a/b/memory.max", "max"),
                    ("sys/fs/cgroup/memory.max", "4000"),
                ],
                Some((4000, "/sys/fs/cgroup/memory.max")),
            ),
            (
                &[
                    machine,
                    old,
                    ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "6000"),
                ],
                Some((6000, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes")),
            ),
        ];
        for (files, want) in cases {
            let (_dir, system) = system(files);
            let want = want.map(|(bytes, file)| (bytes, file.to_owned()));
            assert_eq!(Process::of(&system, None).memory, want, "{files:?}");
        }
    }
}
