//! Each fault, and the finding that it has to give.

use super::*;
use crate::doctor::facts::Unusable;

#[test]
fn faults_of_the_machine_are_found() {
    use Severity::{Note, Warn};
    let cases: &[(Break, &str, Severity, &[&str])] = &[
        (
            |f| f.kernel.ipv6 = false,
            "net.ipv6",
            Note,
            &["disable_ipv6=0"],
        ),
        (
            |f| f.time.synchronised = Some(false),
            "clock",
            Note,
            &["timesyncd"],
        ),
        (
            |f| f.process.files = Some(1024),
            "limits.files",
            Warn,
            &["this process", "1024", "100000", "LimitNOFILE=104096"],
        ),
        (
            |f| (f.process.server, f.process.files) = (Some(7), Some(1024)),
            "limits.files",
            Warn,
            &["the server (process 7)"],
        ),
        (
            |f| f.process.memory = Some((1 << 29, "/sys/fs/cgroup/memory.max".to_owned())),
            "limits.memory",
            Warn,
            &["memory.max", "limits.upload_memory"],
        ),
        (
            |f| f.kernel.conntrack.as_mut().unwrap().count = 220_000,
            "net.conntrack",
            Warn,
            &["220000 of 262144", "nf_conntrack_max=1048576"],
        ),
        (
            |f| f.kernel.conntrack.as_mut().unwrap().udp_timeout = Some(30),
            "net.conntrack",
            Warn,
            &["after 30 s", "udp_timeout_stream=120"],
        ),
        (
            |f| f.udp.receive_buffer = 212_992,
            "udp.buffers",
            Warn,
            &["receive", "213 kB", "net.core.rmem_max=4194304"],
        ),
        (
            |f| f.udp.send_buffer = 1,
            "udp.buffers",
            Warn,
            &["net.core.wmem_max"],
        ),
        (|f| f.udp.send_segments = 1, "udp.offload", Note, &["GSO"]),
        (
            |f| f.udp.receive_segments = 1,
            "udp.offload",
            Note,
            &["GRO"],
        ),
        (
            |f| f.kernel.allowed = vec!["cubic".to_owned()],
            "tcp.congestion",
            Note,
            &["tcp_allowed_congestion_control=reno cubic bbr"],
        ),
        (
            |f| (f.kernel.allowed, f.kernel.available) = (Vec::new(), Vec::new()),
            "tcp.congestion",
            Note,
            &["modprobe tcp_bbr"],
        ),
        (|f| f.kernel.has_types = false, "tcp.floors", Note, &["BTF"]),
        (
            |f| f.kernel.release = Some((6, 9)),
            "tcp.floors",
            Note,
            &["6.10"],
        ),
        (
            |f| f.process.capabilities = 0,
            "tcp.floors",
            Note,
            &["CAP_BPF"],
        ),
        (
            |f| f.kernel.mptcp = Some(false),
            "tcp.mptcp",
            Note,
            &["net.mptcp.enabled=1"],
        ),
        (
            |f| f.kernel.mptcp = None,
            "tcp.mptcp",
            Note,
            &["CONFIG_MPTCP"],
        ),
        (
            |f| f.kernel.send = Some(Buffers([4096, 16_384, 1 << 20])),
            "tcp.send_buffer",
            Warn,
            &["net.ipv4.tcp_wmem=4096 16384 8388608"],
        ),
        (
            |f| f.kernel.receive = Some(Buffers([1, 2, 3])),
            "tcp.receive_buffer",
            Warn,
            &["net.ipv4.tcp_rmem=1 2 8388608"],
        ),
        (
            |f| f.kernel.slow_start_after_idle = Some(true),
            "tcp.idle",
            Note,
            &["tcp_slow_start_after_idle=0"],
        ),
        (
            |f| f.kernel.backlog = Some(128),
            "tcp.backlog",
            Warn,
            &["somaxconn=4096"],
        ),
    ];
    for (fault, id, severity, words) in cases {
        check(*fault, id, *severity, words);
    }
}

#[test]
fn an_old_kernel_lacks_more_than_one_thing() {
    let mut facts = healthy();
    facts.kernel.release = Some((5, 11));
    let faults = all(&facts).into_iter();
    let faults = faults.filter(|fault| fault.severity > Severity::Ok);
    let ids: Vec<_> = faults.map(|fault| (fault.id, fault.severity)).collect();
    let want = [
        ("kernel.release", Severity::Warn),
        ("tcp.floors", Severity::Note),
    ];
    assert_eq!(ids, want);
}

#[test]
fn faults_of_the_configuration_are_found() {
    use Severity::{Fail, Note, Warn};
    let cases: &[(Break, &str, Severity, &[&str])] = &[
        (|f| f.config.root = None, "config", Note, &["--config FILE"]),
        (
            |f| f.faults = vec!["wrong key".to_owned()],
            "config",
            Fail,
            &["wrong key"],
        ),
        (
            |f| f.ports[0].bound = Bound::Taken(vec![owner("nginx")]),
            "ports.taken",
            Fail,
            &["TCP [::]:8443 belongs to nginx (process 40)", "`listen`"],
        ),
        (
            |f| f.ports[1].bound = Bound::Taken(Vec::new()),
            "ports.taken",
            Fail,
            &["UDP [::]:8443 belongs to a process that this user may not see"],
        ),
        (
            |f| f.ports[0].bound = Bound::Failed("why".to_owned()),
            "ports.taken",
            Fail,
            &["can't be bound: why"],
        ),
        (
            |f| f.ports[0].bound = Bound::Denied,
            "ports.denied",
            Fail,
            &["CAP_NET_BIND_SERVICE", "below 1024"],
        ),
        (
            |f| f.ports[0].bound = Bound::Absent,
            "ports.absent",
            Fail,
            &["ip address"],
        ),
        (
            |f| f.config.state.dir = None,
            "state.writable",
            Note,
            &["--state"],
        ),
        (
            |f| f.places[0].fault = Some("Read-only file system".to_owned()),
            "state.writable",
            Warn,
            &["state.dir", "Read-only"],
        ),
        (
            |f| f.places[1].fault = Some("why".to_owned()),
            "log.writable",
            Warn,
            &["log.access"],
        ),
        (
            |f| f.places[0].file_system = FileSystem::Memory,
            "state.lasting",
            Warn,
            &["until the machine stops"],
        ),
        (
            |f| f.places[0].file_system = FileSystem::Layer,
            "state.lasting",
            Warn,
            &["docker run --volume"],
        ),
        (
            |f| f.places[1].free = 1 << 20,
            "disk.space",
            Warn,
            &["df -h", "log.access"],
        ),
        (
            |f| f.upstreams[0].fault = Some("Connection refused".to_owned()),
            "upstreams",
            Warn,
            &["http://127.0.0.1:3000", "refused", "502"],
        ),
    ];
    for (fault, id, severity, words) in cases {
        check(*fault, id, *severity, words);
    }
}

#[test]
fn faults_of_certificates_are_found() {
    use Severity::{Fail, Note, Warn};
    let cases: &[(Break, &str, Severity, &[&str])] = &[
        (
            |f| f.certificates.clear(),
            "certificate.file",
            Note,
            &["self-signed"],
        ),
        (
            |f| f.certificates[0].leaf = Err(Unusable::File("no such file".to_owned())),
            "certificate.file",
            Fail,
            &["no such file"],
        ),
        (
            |f| f.certificates[0].leaf = Err(Unusable::Denied("denied".to_owned())),
            "certificate.file",
            Warn,
            &["chgrp hikyaku /etc/hikyaku/key.pem"],
        ),
        (
            |f| f.certificates[0].leaf = Err(Unusable::Key("other".to_owned())),
            "certificate.key",
            Fail,
            &["openssl x509"],
        ),
        (
            |f| leaf(f).until = NOW - 3 * DAY,
            "certificate.time",
            Fail,
            &["expired 3 days ago", "certbot renew"],
        ),
        (
            |f| leaf(f).from = NOW + DAY,
            "certificate.time",
            Fail,
            &["valid only in 1 day", "timedatectl"],
        ),
        (
            |f| leaf(f).until = NOW + 4 * DAY,
            "certificate.time",
            Warn,
            &["expires in 4 days"],
        ),
        (
            |f| leaf(f).uncovered = vec!["a.example".to_owned(), "b.example".to_owned()],
            "certificate.names",
            Fail,
            &["not for a.example, b.example", "-d a.example -d b.example"],
        ),
        (
            |f| {
                leaf(f).chain.truncate(1);
                leaf(f).is_anchored = false;
            },
            "certificate.chain",
            Warn,
            &["ends before its issuer `CN=R1`", "fullchain.pem"],
        ),
        (
            |f| leaf(f).chain = vec![link("CN=a", "CN=a")],
            "certificate.chain",
            Note,
            &["self-signed"],
        ),
        (
            |f| leaf(f).chain.insert(1, link("CN=R2", "CN=R3")),
            "certificate.chain",
            Warn,
            &["`CN=www.example.org` is not followed by its issuer `CN=R1`"],
        ),
        (
            |f| f.certificates[0].is_open = true,
            "certificate.secret",
            Warn,
            &["chmod o= /etc/hikyaku/key.pem"],
        ),
    ];
    for (fault, id, severity, words) in cases {
        check(*fault, id, *severity, words);
    }
}

#[test]
fn faults_around_the_server_are_found() {
    use Severity::{Note, Warn};
    let cases: &[(Break, &str, Severity, &[&str])] = &[
        (
            |f| f.dns.names[0].1 = Ok(vec!["h2".to_owned(), "h3".to_owned()]),
            "dns.https",
            Warn,
            &["www.example.org has alpn=h2,h3", "alpn=\"h2\""],
        ),
        (
            |f| f.dns.names[0].1 = Err("timed out".to_owned()),
            "dns.https",
            Note,
            &["192.0.2.53:53", "timed out", "dig www.example.org HTTPS"],
        ),
        (
            |f| f.container.inside = true,
            "container.port",
            Note,
            &["--publish 443:8443/udp", "behind.advertise"],
        ),
        (
            |f| f.container.mappings = vec![mapping(false, 443, 80), mapping(false, 443, 80)],
            "container.udp",
            Warn,
            &["TCP 443 to 80", "--publish 443:80/udp"],
        ),
        (
            |f| f.container.mappings = vec![mapping(false, 9443, 8443), mapping(true, 443, 8443)],
            "container.udp",
            Warn,
            &["TCP 9443 to 8443"],
        ),
    ];
    for (fault, id, severity, words) in cases {
        check(*fault, id, *severity, words);
    }
}
