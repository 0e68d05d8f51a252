//! Faults of a whole machine, made in namespaces of their own.

use std::path::Path;
use std::process::Command;

use hikyaku_testkit::{Site, has, skip, skip_part, this_test};

use super::{Report, SOUND, doctor_by, sound};

/// A machine without faults, as far as a network namespace has settings of its own.
const HEALTHY: &str = "
    ip link set lo up
    set_to 4096 net/core/somaxconn
    set_to '4096 16384 4194304' net/ipv4/tcp_wmem
    set_to '4096 131072 6291456' net/ipv4/tcp_rmem
    set_to 0 net/ipv4/tcp_slow_start_after_idle
    set_to 1 net/mptcp/enabled
    set_to 0 net/ipv6/conf/all/disable_ipv6
    set_to 1024 net/ipv4/ip_unprivileged_port_start
";

/// Whether namespaces can be made; reports a skip if not.
fn can_unshare() -> bool {
    let test = this_test();
    let can = has(&test, "unshare") && has(&test, "setpriv") && has(&test, "prlimit");
    let made = || {
        let args = ["--net", "--mount", "true"];
        let tried = Command::new("unshare").args(args).output();
        tried.is_ok_and(|output| output.status.success())
    };
    if can && !made() {
        skip(&test, "namespaces need root");
        return false;
    }
    can
}

/// Runs the doctor on a machine after `setup`, by the command `by`.
fn doctor_after(setup: &str, by: &str, site: &Site, config: &str) -> Report {
    let script = format!(
        "set -e
        set_to() {{ [ ! -e /proc/sys/$2 ] || echo \"$1\" > /proc/sys/$2; }}
        {HEALTHY}
        {}
        exec {by} \"$@\"",
        setup.replace("DIR", site.path())
    );
    let words = ["unshare", "--net", "--mount", "sh", "-c", &script, "sh"];
    // Nobody answers in the namespace, so nobody is asked.
    let system = format!("{}/without-dns", site.path());
    let _ = std::fs::create_dir_all(&system);
    for name in ["proc", "sys"] {
        let _ = std::os::unix::fs::symlink(format!("/{name}"), format!("{system}/{name}"));
    }
    doctor_by(&words, site, config, &["--system", &system])
}

#[test]
fn faults_of_a_machine_are_found() {
    if !can_unshare() {
        return;
    }
    let site = sound();
    let listen = "\"[::]:443\"\nlimits = { connections = 100 }\nadmin";
    let wildcard = SOUND.replace("\"127.0.0.1:0\"\nadmin", listen);
    // setting of the kernel if there is one, setup, command, finding
    let cases = [
        ("", "", "prlimit --nofile=256:256", ("limits.files", "warn")),
        (
            "net/core/somaxconn",
            "set_to 128 net/core/somaxconn",
            "",
            ("tcp.backlog", "warn"),
        ),
        (
            "net/ipv4/tcp_wmem",
            "set_to '4096 16384 65536' net/ipv4/tcp_wmem",
            "",
            ("tcp.send_buffer", "warn"),
        ),
        (
            "net/ipv4/tcp_rmem",
            "set_to '4096 16384 65536' net/ipv4/tcp_rmem",
            "",
            ("tcp.receive_buffer", "warn"),
        ),
        (
            "",
            "set_to 1 net/ipv4/tcp_slow_start_after_idle",
            "",
            ("tcp.idle", "note"),
        ),
        (
            "net/mptcp/enabled",
            "set_to 0 net/mptcp/enabled",
            "",
            ("tcp.mptcp", "note"),
        ),
        (
            "net/ipv6/conf/all/disable_ipv6",
            "set_to 1 net/ipv6/conf/all/disable_ipv6",
            "",
            ("net.ipv6", "note"),
        ),
        (
            "",
            "",
            "setpriv --bounding-set=-net_bind_service",
            ("ports.denied", "fail"),
        ),
        (
            "",
            "",
            "setpriv --bounding-set=-bpf,-perfmon,-sys_admin",
            ("tcp.floors", "note"),
        ),
        (
            "",
            "mkdir -p DIR/state; mount -t tmpfs none DIR/state",
            "",
            ("state.lasting", "warn"),
        ),
        (
            "",
            "mkdir -p DIR/state; mount -t tmpfs -o size=1m none DIR/state; \
             head -c 1m /dev/zero > DIR/state/full || true",
            "",
            ("disk.space", "warn"),
        ),
        (
            "",
            "mkdir -p DIR/state; mount -t tmpfs -o ro none DIR/state",
            "",
            ("state.writable", "warn"),
        ),
    ];
    let healthy = doctor_after("", "", &site, &wildcard);
    for (setting, setup, by, (id, severity)) in cases {
        if !setting.is_empty() && !Path::new("/proc/sys").join(setting).exists() {
            skip_part(&this_test(), &format!("this kernel has no {setting}"));
            continue;
        }
        // Other machines may lack what the server's programs in the kernel need.
        if !matches!(id, "tcp.floors" | "state.lasting") {
            healthy.expect(id, "ok");
        }
        let broken = doctor_after(setup, by, &site, &wildcard);
        broken.expect(id, severity);
    }
}
