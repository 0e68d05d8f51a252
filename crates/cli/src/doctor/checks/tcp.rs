//! TCP, which carries HTTP/1.1 and HTTP/2.

use hikyaku_edge::BACKLOG;
use hikyaku_units::ByteSize;
use hikyaku_units::human::size;

use super::{Facts, Finding, sysctl};
use crate::doctor::facts::{Buffers, Capability};

/// The largest buffer below which a far client gets less than its path carries: 4 MiB are 320 Mbit/s at
/// 100 ms.
const BUFFER: u64 = 4 << 20;

pub(super) fn settings(facts: &Facts) -> Vec<Finding> {
    let kernel = &facts.kernel;
    let send = ("tcp.send_buffer", "net.ipv4.tcp_wmem", "responses to");
    let receive = ("tcp.receive_buffer", "net.ipv4.tcp_rmem", "uploads of");
    let all = [
        Some(congestion(facts)),
        Some(floors(facts)),
        mptcp(facts),
        kernel.send.map(|buffers| buffer(send, buffers)),
        kernel.receive.map(|buffers| buffer(receive, buffers)),
        kernel.slow_start_after_idle.map(idle),
        kernel.backlog.map(backlog),
    ];
    all.into_iter().flatten().collect()
}

fn congestion(facts: &Facts) -> Finding {
    const ID: &str = "tcp.congestion";
    let kernel = &facts.kernel;
    let has = |names: &[String]| names.iter().any(|name| name == "bbr");
    let effect = "clients get BBR over HTTP/3 alone";
    match (has(&kernel.available), has(&kernel.allowed)) {
        (_, true) => Finding::ok(ID, "the kernel offers BBR to every process"),
        (true, false) => Finding::note(
            ID,
            "the kernel has BBR, and not every process may choose it",
        )
        .so(effect)
        .mend(sysctl(
            "net.ipv4.tcp_allowed_congestion_control",
            "reno cubic bbr",
        )),
        (false, false) => Finding::note(ID, "the kernel offers no BBR")
            .so(effect)
            .mend(format!(
                "modprobe tcp_bbr; echo tcp_bbr > /etc/modules-load.d/bbr.conf; {}",
                sysctl("net.ipv4.tcp_allowed_congestion_control", "reno cubic bbr")
            )),
    }
}

/// Window floors of TCP, which are eBPF programs.
fn floors(facts: &Facts) -> Finding {
    const ID: &str = "tcp.floors";
    let (kernel, process) = (&facts.kernel, &facts.process);
    let is_allowed = (process.has(Capability::Bpf) && process.has(Capability::Perfmon))
        || process.has(Capability::SysAdmin);
    let (missing, mend) = match kernel.release {
        _ if !kernel.has_types => (
            "the kernel does not describe its types",
            "a kernel with /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF), such as Debian's",
        ),
        Some(release) if release < (6, 10) => (
            "the kernel is older than 6.10",
            "a newer kernel, such as that of Debian 13",
        ),
        _ if !is_allowed => (
            "CAP_BPF and CAP_PERFMON are missing",
            "AmbientCapabilities=CAP_NET_BIND_SERVICE CAP_BPF CAP_PERFMON and \
             SystemCallFilter=@system-service bpf in the unit (docs/deploy.md)",
        ),
        _ => return Finding::ok(ID, "the kernel takes the server's congestion controls"),
    };
    Finding::note(ID, format!("no window floors on TCP: {missing}"))
        .so("paths that lose packets at random are slower over HTTP/2 than they could be")
        .mend(mend)
}

fn mptcp(facts: &Facts) -> Option<Finding> {
    const ID: &str = "tcp.mptcp";
    if !facts.config.mptcp {
        return None;
    }
    let effect = "clients with several access lines use one of them";
    Some(match facts.kernel.mptcp {
        Some(true) => Finding::ok(ID, "MPTCP is on"),
        Some(false) => Finding::note(ID, "MPTCP is switched off")
            .so(effect)
            .mend(sysctl("net.mptcp.enabled", 1)),
        None => Finding::note(ID, "the kernel has no MPTCP")
            .so(effect)
            .mend("a kernel with CONFIG_MPTCP; or mptcp = false, and this note goes"),
    })
}

fn buffer((id, key, what): (&'static str, &str, &str), buffers: Buffers) -> Finding {
    let Buffers([least, first, max]) = buffers;
    let human = |bytes| size(ByteSize::from_bytes(bytes)).to_string();
    let state = format!("{key} is {} at most", human(max));
    match max < BUFFER {
        false => Finding::ok(id, state),
        true => Finding::warn(id, state)
            .so(format!(
                "{what} far clients over TCP are slow: at 100 ms at most {} a second",
                human(max * 10)
            ))
            .mend(sysctl(key, format!("{least} {first} {}", BUFFER * 2))),
    }
}

fn idle(slow_start: bool) -> Finding {
    const ID: &str = "tcp.idle";
    match slow_start {
        false => Finding::ok(ID, "TCP keeps its window over pauses"),
        true => Finding::note(ID, "TCP begins anew after each pause")
            .so("a page that follows a pause loads slower over HTTP/2")
            .mend(sysctl("net.ipv4.tcp_slow_start_after_idle", 0)),
    }
}

fn backlog(max: u64) -> Finding {
    const ID: &str = "tcp.backlog";
    let wanted = BACKLOG.unsigned_abs().into();
    match max < wanted {
        false => Finding::ok(ID, format!("{wanted} connections may wait to be accepted")),
        true => Finding::warn(ID, format!("{max} connections may wait to be accepted"))
            .so("in a burst of clients the kernel drops some, which then wait a second or more")
            .mend(sysctl("net.core.somaxconn", wanted)),
    }
}
