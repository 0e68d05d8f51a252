//! `hikyaku doctor`: faults that are made for real, and the findings on them.
#![allow(clippy::unwrap_used, reason = "tests")]

mod certificates;
mod dns;
mod namespace;

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use certificates::{Authority, pem_of_other_key};
use dns::Responder;
use hikyaku_testkit::{Server, Site, binary};
use serde_json::Value;

/// A site whose certificate is sound. Its name is that of the certificate.
const SOUND: &str = r#"
listen = "127.0.0.1:0"
admin = { listen = "127.0.0.1:0" }
state = { dir = "DIR/state" }
log = { access = "DIR/access.log" }
tls = { cert = "DIR/cert.pem", key = "DIR/key.pem" }
[[site]]
names = ["www.example.test"]
root = "DIR/www"
"#;

/// The directory of a sound site.
fn sound() -> Site {
    let site = Site::new(&[("www/index.html", b"page"), ("file", b"")]);
    let authority = Authority::new();
    let leaf = authority.leaf("www.example.test", -1, 80);
    site.write(
        "cert.pem",
        (leaf.pem.clone() + &authority.chain()).as_bytes(),
    );
    site.write("alone.pem", leaf.pem.as_bytes());
    let expired = authority.leaf("www.example.test", -90, -1);
    site.write("expired.pem", (expired.pem + &authority.chain()).as_bytes());
    site.write("expired.key", expired.key.as_bytes());
    site.write("key.pem", leaf.key.as_bytes());
    site.write("other.key", pem_of_other_key().as_bytes());
    site.write("open.key", leaf.key.as_bytes());
    for (name, mode) in [
        ("key.pem", 0o600),
        ("expired.key", 0o600),
        ("other.key", 0o600),
        ("open.key", 0o644),
    ] {
        let path = Path::new(site.path()).join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    site
}

/// The severity of each check, the worst of its findings.
struct Report {
    findings: BTreeMap<String, String>,
    text: String,
}

impl Report {
    #[track_caller]
    fn of(output: &Output) -> Self {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let json: Value = serde_json::from_str(&text).unwrap_or_else(|error| {
            panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr))
        });
        let order = ["ok", "note", "warn", "fail"];
        let rank = |name: &str| order.iter().position(|&o| o == name).unwrap();
        let mut findings = BTreeMap::<String, String>::new();
        for finding in json["findings"].as_array().unwrap() {
            let [id, severity] = ["id", "severity"].map(|key| finding[key].as_str().unwrap());
            let worst = findings.entry(id.to_owned()).or_insert("ok".to_owned());
            if rank(severity) > rank(worst) {
                severity.clone_into(worst);
            }
        }
        let fails = findings.values().any(|severity| severity == "fail");
        assert_eq!(output.status.success(), !fails, "{text}");
        Self { findings, text }
    }

    #[track_caller]
    fn expect(&self, id: &str, severity: &str) {
        let found = self.findings.get(id).map(String::as_str);
        assert_eq!(found, Some(severity), "{id} in {}", self.text);
    }
}

/// Runs the doctor by a command that becomes it, on a configuration in which DIR is the site's directory.
#[track_caller]
fn doctor_by(by: &[&str], site: &Site, config: &str, args: &[&str]) -> Report {
    site.write("edge.toml", config.replace("DIR", site.path()).as_bytes());
    let path = format!("{}/edge.toml", site.path());
    let words = [by, &[binary(), "doctor", "--json", "--config", &path], args].concat();
    Report::of(&Command::new(words[0]).args(&words[1..]).output().unwrap())
}

/// Runs it with a DNS server that knows no HTTPS records.
#[track_caller]
fn doctor(site: &Site, config: &str) -> Report {
    let dns = Responder::start(&[]);
    doctor_by(&[], site, config, &["--resolver", &dns.address()])
}

/// The checks of things that the sound site has.
const OF_SITE: [&str; 14] = [
    "certificate.chain",
    "certificate.file",
    "certificate.key",
    "certificate.names",
    "certificate.secret",
    "certificate.time",
    "config",
    "dns.https",
    "kernel.release",
    "ports.absent",
    "ports.denied",
    "ports.taken",
    "state.writable",
    "tcp.backlog",
];

#[test]
fn a_sound_site_has_no_fault() {
    let report = doctor(&sound(), SOUND);
    for id in OF_SITE {
        report.expect(id, "ok");
    }
}

#[test]
fn faults_of_a_site_are_found() {
    let site = sound();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let tcp = format!("\"{}\"", tcp.local_addr().unwrap());
    let udp = format!("\"{}\"", udp.local_addr().unwrap());
    let upstream = format!("upstream = \"http://{closed}\"");
    let any = "\"127.0.0.1:0\"\nadmin";
    let taken = |address: &str| format!("{address}\nadmin");
    // text that is replaced, its replacement, and the finding
    let cases: &[(&str, &str, &str, &str)] = &[
        (
            "cert.pem\", key = \"DIR/key.pem",
            "expired.pem\", key = \"DIR/expired.key",
            "certificate.time",
            "fail",
        ),
        ("cert.pem", "alone.pem", "certificate.chain", "warn"),
        ("key.pem", "other.key", "certificate.key", "fail"),
        ("key.pem", "open.key", "certificate.secret", "warn"),
        ("cert.pem", "none.pem", "certificate.file", "fail"),
        (
            "www.example.test",
            "other.example.test",
            "certificate.names",
            "fail",
        ),
        (any, &taken(&tcp), "ports.taken", "fail"),
        (any, &taken(&udp), "ports.taken", "fail"),
        (any, &taken("\"192.0.2.1:0\""), "ports.absent", "fail"),
        ("DIR/state", "DIR/file/state", "state.writable", "warn"),
        (
            "DIR/access.log",
            "DIR/none/access.log",
            "log.writable",
            "warn",
        ),
        ("root = \"DIR/www\"", &upstream, "upstreams", "warn"),
        ("DIR/www", "DIR/none", "config", "fail"),
    ];
    for (what, by, id, severity) in cases {
        assert!(SOUND.contains(what), "{what}");
        let report = doctor(&site, &SOUND.replace(what, by));
        report.expect(id, severity);
    }
}

#[test]
fn owners_of_ports_are_named() {
    let site = sound();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let config = SOUND.replace("\"127.0.0.1:0\"\nadmin", &format!("\"{address}\"\nadmin"));
    let report = doctor(&site, &config);
    let want = format!("(process {})", std::process::id());
    assert!(report.text.contains(&want), "{}", report.text);
}

#[test]
fn a_server_that_runs_is_no_fault() {
    let site = sound();
    let server = Server::start(&[&format!("{}/www", site.path())]);
    let listen = format!("\"{}\"\nadmin", server.address());
    let config = SOUND.replace("\"127.0.0.1:0\"\nadmin", &listen);
    let report = doctor(&site, &config);
    report.expect("ports.taken", "ok");
    let want = format!("a server runs (process {})", server.pid());
    assert!(report.text.contains(&want), "{}", report.text);
}

#[test]
fn https_records_with_h3_are_found() {
    let site = sound();
    // protocols of the record, and the finding
    let cases: [(&[&str], &str); 3] = [(&[], "ok"), (&["h2"], "ok"), (&["h3", "h2"], "warn")];
    for (protocols, severity) in cases {
        let dns = Responder::start(protocols);
        let report = doctor_by(&[], &site, SOUND, &["--resolver", &dns.address()]);
        report.expect("dns.https", severity);
        assert_eq!(dns.asked(), ["www.example.test."], "{protocols:?}");
    }
}

#[test]
fn machines_are_read_below_a_directory() {
    let site = sound();
    let docker = "docker-proxy\0-proto\0tcp\0-host-port\x00443\0-container-port\x008443\0";
    for (name, text) in [
        ("fake/.dockerenv", ""),
        ("fake/proc/self/cgroup", "0::/\n"),
        ("fake/sys/fs/cgroup/memory.max", "268435456\n"),
        ("fake/proc/90/comm", "docker-proxy\n"),
        ("fake/proc/90/cmdline", docker),
        ("fake/proc/sys/net/netfilter/nf_conntrack_count", "99\n"),
        ("fake/proc/sys/net/netfilter/nf_conntrack_max", "100\n"),
        ("fake/proc/sys/kernel/osrelease", "5.4.0\n"),
    ] {
        site.write(name, text.as_bytes());
    }
    let system = format!("{}/fake", site.path());
    let report = doctor_by(&[], &site, SOUND, &["--system", &system]);
    for (id, severity) in [
        ("container.port", "note"),
        ("container.udp", "warn"),
        ("kernel.release", "warn"),
        ("limits.memory", "warn"),
        ("net.conntrack", "warn"),
        ("tcp.floors", "note"),
        ("tcp.mptcp", "note"),
    ] {
        report.expect(id, severity);
    }
}

#[test]
fn lines_have_a_remedy_for_whoever_reads_them() {
    let site = sound();
    let config = SOUND
        .replace("key.pem", "open.key")
        .replace("DIR", site.path());
    site.write("edge.toml", config.as_bytes());
    let path = format!("{}/edge.toml", site.path());
    let dns = Responder::start(&[]);
    let output =
        hikyaku_testkit::hikyaku(&["doctor", "--config", &path, "--resolver", &dns.address()]);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text
        .lines()
        .skip_while(|line| !line.starts_with("warn  certificate.secret"));
    let [_, clients, mend] = [(); 3].map(|()| lines.next().unwrap_or_default());
    assert!(
        clients.starts_with("      clients  whoever has the key"),
        "{text}"
    );
    let want = format!("      mend     chmod o= {}/open.key", site.path());
    assert_eq!(mend, want, "{text}");
    assert!(text.lines().last().unwrap().contains(" warn, "), "{text}");
}
