//! A machine without faults, and the finding that each fault has to give.

mod faults;

use std::collections::BTreeSet;
use std::path::PathBuf;

use hikyaku_edge::{BACKLOG, Config, UDP_BUFFER};

use super::{all, unseen};
use crate::doctor::facts::{
    Bound, Buffers, Conntrack, Container, Dns, Facts, FileSystem, Files, Kernel, Leaf, Link,
    Mapping, Owner, Place, Port, Process, Time, Udp, Upstream,
};
use crate::doctor::finding::{Finding, Severity};

const DAY: i64 = 24 * 3600;
const NOW: i64 = 1_800_000_000;

/// A machine on which nothing is missing.
fn healthy() -> Facts {
    let mut config = Config {
        root: Some("/srv/www".into()),
        ..Config::default()
    };
    config.state.dir = Some("/var/lib/hikyaku".into());
    let port = |transport, text: &str| Port {
        transport,
        address: text.parse().unwrap(),
        bound: Bound::Free,
    };
    Facts {
        config,
        faults: Vec::new(),
        kernel: kernel(),
        process: Process {
            server: None,
            files: Some(524_288),
            capabilities: u64::MAX,
            memory: Some((8 << 30, "/proc/meminfo".to_owned())),
            sees_all: true,
        },
        udp: Udp {
            receive_buffer: UDP_BUFFER,
            send_buffer: UDP_BUFFER,
            send_segments: 64,
            receive_segments: 64,
        },
        ports: vec![port("TCP", ":8443"), port("UDP", ":8443")],
        certificates: vec![files()],
        time: Time {
            now: NOW,
            synchronised: Some(true),
        },
        dns: Dns {
            resolver: Some("192.0.2.53:53".parse().unwrap()),
            names: vec![("www.example.org".to_owned(), Ok(vec!["h2".to_owned()]))],
        },
        container: Container::default(),
        places: vec![place("state.dir"), place("log.access")],
        upstreams: vec![Upstream {
            url: "http://127.0.0.1:3000".to_owned(),
            fault: None,
        }],
    }
}

fn kernel() -> Kernel {
    let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Kernel {
        release: Some((6, 12)),
        has_types: true,
        available: list(&["reno", "cubic", "bbr"]),
        allowed: list(&["reno", "cubic", "bbr"]),
        mptcp: Some(true),
        receive: Some(Buffers([4096, 131_072, 6 << 20])),
        send: Some(Buffers([4096, 16_384, 4 << 20])),
        slow_start_after_idle: Some(false),
        backlog: Some(BACKLOG.unsigned_abs().into()),
        conntrack: Some(Conntrack {
            count: 100,
            max: 262_144,
            udp_timeout: Some(120),
        }),
        ipv6: true,
        first_open_port: Some(1024),
    }
}

fn files() -> Files {
    Files {
        of: "the server".to_owned(),
        cert: "/etc/hikyaku/cert.pem".into(),
        key: "/etc/hikyaku/key.pem".into(),
        is_open: false,
        leaf: Ok(Leaf {
            names: vec!["www.example.org".to_owned()],
            uncovered: Vec::new(),
            from: NOW - 10 * DAY,
            until: NOW + 80 * DAY,
            chain: vec![
                link("CN=www.example.org", "CN=R1"),
                link("CN=R1", "CN=Root"),
            ],
            is_anchored: true,
        }),
    }
}

fn link(subject: &str, issuer: &str) -> Link {
    Link {
        subject: subject.to_owned(),
        issuer: issuer.to_owned(),
    }
}

fn place(key: &'static str) -> Place {
    Place {
        key,
        path: PathBuf::from("/var/lib/hikyaku"),
        fault: None,
        file_system: FileSystem::Lasting,
        free: 10 << 30,
        size: 100 << 30,
    }
}

fn leaf(facts: &mut Facts) -> &mut Leaf {
    facts.certificates[0].leaf.as_mut().unwrap()
}

fn mapping(is_udp: bool, host: u16, container: u16) -> Mapping {
    Mapping {
        is_udp,
        host,
        container,
    }
}

fn owner(name: &str) -> Owner {
    Owner {
        id: 40,
        name: name.to_owned(),
    }
}

#[test]
fn a_healthy_machine_has_no_fault() {
    let facts = healthy();
    let faults = all(&facts).into_iter();
    let faults: Vec<_> = faults.filter(|f| f.severity > Severity::Ok).collect();
    assert_eq!(faults, []);
    assert_eq!(unseen(&facts), [""; 0]);
}

type Break = fn(&mut Facts);

/// Finds `id` once `fault` is there, and no other fault. The finding has all of `words`.
#[track_caller]
fn check(fault: Break, id: &str, severity: Severity, words: &[&str]) {
    let mut facts = healthy();
    fault(&mut facts);
    let found: Vec<_> = all(&facts)
        .into_iter()
        .filter(|finding| finding.severity > Severity::Ok)
        .collect();
    let ids: Vec<_> = found
        .iter()
        .map(|found| (found.id, found.severity))
        .collect();
    assert_eq!(ids, [(id, severity)], "{found:#?}");
    let Finding {
        state,
        effect,
        mend,
        ..
    } = &found[0];
    assert!(!effect.is_empty() && !mend.is_empty(), "{found:#?}");
    for word in words {
        let has = [state, effect, mend].iter().any(|text| text.contains(word));
        assert!(has, "no `{word}` in {found:#?}");
    }
}

/// Facts that look like faults, and are none.
#[test]
fn a_doctor_cries_no_wolf() {
    let cases: &[(&str, Break)] = &[
        ("its own server", |f| {
            f.ports[0].bound = Bound::Taken(vec![owner("hikyaku")]);
            f.process.server = Some(40);
        }),
        ("any number of files", |f| f.process.files = None),
        ("certificates by ACME", |f| {
            f.certificates.clear();
            f.config.tls.acme = vec!["www.example.org".to_owned()];
        }),
        ("both are mapped", |f| {
            f.container.mappings = vec![mapping(false, 443, 8443), mapping(true, 443, 8443)];
        }),
        ("a mapping of others", |f| {
            f.container.mappings = vec![mapping(false, 5432, 5432)];
        }),
        ("a container that advertises", |f| {
            f.container.inside = true;
            f.config.behind.advertise = Some(":443".parse().unwrap());
        }),
        ("MPTCP is not wanted", |f| {
            (f.config.mptcp, f.kernel.mptcp) = (false, None);
        }),
        ("no IPv6 is listened on", |f| {
            f.config.listen = vec!["0.0.0.0:8443".parse().unwrap()];
            f.kernel.ipv6 = false;
        }),
        ("TLS that ends elsewhere", |f| {
            f.config.listen.clear();
            f.certificates.clear();
            f.udp.receive_buffer = 4096;
            f.udp.receive_segments = 1;
        }),
        ("a private root that is known", |f| {
            leaf(f).chain.truncate(1);
        }),
        ("a short life", |f| {
            (leaf(f).from, leaf(f).until) = (NOW - DAY, NOW + 5 * DAY);
        }),
        ("a log in memory", |f| {
            f.places[1].file_system = FileSystem::Memory;
        }),
        ("a small disk", |f| {
            (f.places[0].free, f.places[0].size) = (8 << 20, 16 << 20);
        }),
        ("no conntrack", |f| f.kernel.conntrack = None),
        ("a clock that nobody knows of", |f| {
            f.time.synchronised = None;
        }),
        ("no DNS server", |f| f.dns = Dns::default()),
    ];
    for (name, change) in cases {
        let mut facts = healthy();
        change(&mut facts);
        let faults = all(&facts).into_iter();
        let faults: Vec<_> = faults.filter(|f| f.severity > Severity::Ok).collect();
        assert_eq!(faults, [], "{name}");
    }
}

#[test]
fn whoever_is_not_root_is_shown_the_gaps() {
    let mut facts = healthy();
    facts.process.sees_all = false;
    let gaps = unseen(&facts);
    assert!(
        gaps.iter().any(|gap| gap.contains("have a port")),
        "{gaps:?}"
    );
    assert!(
        gaps.iter().all(|gap| gap.ends_with("run it as root")),
        "{gaps:?}"
    );
}

#[test]
fn names_of_checks_are_words() {
    let mut facts = healthy();
    facts.container.inside = true;
    let ids: BTreeSet<_> = all(&facts).iter().map(|finding| finding.id).collect();
    assert!(ids.len() >= 24, "{ids:?}");
    for id in ids {
        let is_word =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '_';
        assert!(id.chars().all(is_word), "{id}");
    }
}
