//! Containers, and the ports that are mapped into them.

use super::System;

/// Whether this is a container, and the ports that this machine maps into containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Container {
    /// This process is in a container.
    pub(crate) inside: bool,
    /// Ports of this machine that Docker hands on.
    pub(crate) mappings: Vec<Mapping>,
}

/// A port that Docker hands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) is_udp: bool,
    /// Of this machine.
    pub(crate) host: u16,
    /// Of the container.
    pub(crate) container: u16,
}

impl Container {
    pub(super) fn of(system: &System) -> Self {
        const RUNTIMES: [&str; 4] = ["docker", "kubepods", "containerd", "libpod"];
        let groups = system.text("proc/1/cgroup").unwrap_or_default();
        let named = RUNTIMES.iter().any(|name| groups.contains(name));
        let marked = system.has(".dockerenv") || system.has("run/.containerenv");
        let ids = system.processes().into_iter();
        let proxies = ids.filter(|id| system.name(*id).as_deref() == Some("docker-proxy"));
        let lines = proxies.filter_map(|id| system.text(&format!("proc/{id}/cmdline")));
        Self {
            inside: named || marked,
            mappings: lines.filter_map(|line| mapping(&line)).collect(),
        }
    }
}

/// The mapping that a command line of `docker-proxy` asks for.
fn mapping(line: &str) -> Option<Mapping> {
    let words: Vec<_> = line.split('\0').collect();
    let value = |option: &str| {
        let at = words.iter().position(|word| *word == option)?;
        words.get(at + 1)
    };
    Some(Mapping {
        is_udp: *value("-proto")? == "udp",
        host: value("-host-port")?.parse().ok()?,
        container: value("-container-port")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::facts::system::tests::system;

    #[test]
    fn containers_are_known_by_their_files() {
        let cases: [(&[(&str, &str)], bool); 5] = [
            (&[], false),
            (&[("proc/1/cgroup", "0::/init.scope\n")], false),
            (&[(".dockerenv", "")], true),
            (&[("run/.containerenv", "")], true),
            (&[("proc/1/cgroup", "0::/kubepods/pod7\n")], true),
        ];
        for (files, want) in cases {
            let (_dir, system) = system(files);
            assert_eq!(Container::of(&system).inside, want, "{files:?}");
        }
    }

    #[test]
    fn mappings_are_read_from_docker_proxies() {
        let tcp = "/usr/bin/docker-proxy\0-proto\0tcp\0-host-ip\x000.0.0.0\0-host-port\x00443\0\
                   -container-ip\x00172.17.0.2\0-container-port\x008443\0";
        let (_dir, system) = system(&[
            ("proc/90/comm", "docker-proxy\n"),
            ("proc/90/cmdline", tcp),
            ("proc/91/comm", "docker-proxy\n"),
            ("proc/91/cmdline", "docker-proxy\0--version\0"),
            ("proc/92/comm", "other\n"),
            ("proc/92/cmdline", tcp),
        ]);
        let want = Mapping {
            is_udp: false,
            host: 443,
            container: 8443,
        };
        assert_eq!(Container::of(&system).mappings, [want]);
    }
}
