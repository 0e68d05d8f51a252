//! The abilities and the settings of the kernel.

use super::System;

/// The abilities and the settings of the kernel. `None` where it has no such setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// Major and minor number.
    pub(crate) release: Option<(u32, u32)>,
    /// It describes its types, as eBPF programs need them.
    pub(crate) has_types: bool,
    /// Congestion controls of TCP that are there.
    pub(crate) available: Vec<String>,
    /// Those that every process may choose.
    pub(crate) allowed: Vec<String>,
    pub(crate) mptcp: Option<bool>,
    pub(crate) receive: Option<Buffers>,
    pub(crate) send: Option<Buffers>,
    /// TCP begins anew after a pause (RFC 5681 §4.1).
    pub(crate) slow_start_after_idle: Option<bool>,
    /// Connections that may wait to be accepted, per address.
    pub(crate) backlog: Option<u64>,
    pub(crate) conntrack: Option<Conntrack>,
    /// IPv6 is there, and not switched off.
    pub(crate) ipv6: bool,
    /// The first port that needs no capability.
    pub(crate) first_open_port: Option<u64>,
}

/// Sizes of TCP's buffers in bytes: least, first and largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffers(pub(crate) [u64; 3]);

/// The kernel's table of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conntrack {
    pub(crate) count: u64,
    pub(crate) max: u64,
    /// Seconds after which it forgets a UDP flow that went both ways.
    pub(crate) udp_timeout: Option<u64>,
}

impl Kernel {
    pub(super) fn of(system: &System) -> Self {
        let words = |key| {
            let text: String = system.sysctl(key).unwrap_or_default();
            text.split_whitespace().map(str::to_owned).collect()
        };
        let is_on = |key| system.number(key).map(|number| number != 0);
        Self {
            release: system.sysctl("kernel.osrelease").and_then(|t| release(&t)),
            has_types: system.has("sys/kernel/btf/vmlinux"),
            available: words("net.ipv4.tcp_available_congestion_control"),
            allowed: words("net.ipv4.tcp_allowed_congestion_control"),
            mptcp: is_on("net.mptcp.enabled"),
            receive: system.sysctl("net.ipv4.tcp_rmem").and_then(|t| buffers(&t)),
            send: system.sysctl("net.ipv4.tcp_wmem").and_then(|t| buffers(&t)),
            slow_start_after_idle: is_on("net.ipv4.tcp_slow_start_after_idle"),
            backlog: system.number("net.core.somaxconn"),
            conntrack: conntrack(system),
            ipv6: system.has("proc/net/if_inet6")
                && is_on("net.ipv6.conf.all.disable_ipv6") != Some(true),
            first_open_port: system.number("net.ipv4.ip_unprivileged_port_start"),
        }
    }
}

fn release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

fn buffers(text: &str) -> Option<Buffers> {
    let numbers = text.split_whitespace().map(|word| word.parse().ok());
    let numbers: Vec<_> = numbers.collect::<Option<_>>()?;
    numbers.try_into().ok().map(Buffers)
}

fn conntrack(system: &System) -> Option<Conntrack> {
    let number = |name: &str| system.number(&format!("net.netfilter.nf_conntrack_{name}"));
    Some(Conntrack {
        count: number("count")?,
        max: number("max")?,
        udp_timeout: number("udp_timeout_stream"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::facts::system::tests::system;

    #[test]
    fn settings_are_read() {
        let (_dir, system) = system(&[
            ("proc/sys/kernel/osrelease", "6.12.3+deb13-amd64\n"),
            ("sys/kernel/btf/vmlinux", ""),
            (
                "proc/sys/net/ipv4/tcp_available_congestion_control",
                "reno cubic bbr\n",
            ),
            (
                "proc/sys/net/ipv4/tcp_allowed_congestion_control",
                "reno cubic\n",
            ),
            ("proc/sys/net/mptcp/enabled", "1\n"),
            ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
            ("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\n"),
            ("proc/sys/net/ipv4/tcp_slow_start_after_idle", "0\n"),
            ("proc/sys/net/core/somaxconn", "4096\n"),
            ("proc/sys/net/netfilter/nf_conntrack_count", "7\n"),
            ("proc/sys/net/netfilter/nf_conntrack_max", "262144\n"),
            ("proc/net/if_inet6", ""),
            ("proc/sys/net/ipv6/conf/all/disable_ipv6", "0\n"),
            ("proc/sys/net/ipv4/ip_unprivileged_port_start", "1024\n"),
        ]);
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let want = Kernel {
            release: Some((6, 12)),
            has_types: true,
            available: list(&["reno", "cubic", "bbr"]),
            allowed: list(&["reno", "cubic"]),
            mptcp: Some(true),
            receive: Some(Buffers([4096, 131_072, 6_291_456])),
            send: None,
            slow_start_after_idle: Some(false),
            backlog: Some(4096),
            conntrack: Some(Conntrack {
                count: 7,
                max: 262_144,
                udp_timeout: None,
            }),
            ipv6: true,
            first_open_port: Some(1024),
        };
        assert_eq!(Kernel::of(&system), want);
    }

    #[test]
    fn nothing_is_known_of_a_kernel_that_shows_nothing() {
        let (_dir, system) = system(&[]);
        assert_eq!(Kernel::of(&system), Kernel::default());
    }

    #[test]
    fn ipv6_can_be_switched_off() {
        let (_dir, system) = system(&[
            ("proc/net/if_inet6", ""),
            ("proc/sys/net/ipv6/conf/all/disable_ipv6", "1\n"),
        ]);
        assert!(!Kernel::of(&system).ipv6);
    }
}
