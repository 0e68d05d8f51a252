//! Sites by their hosts, each with its certificate.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hikyaku_testkit::fetch::curl;
use hikyaku_testkit::{Server, Site, has, hikyaku};
use rustix::process::Signal;
use serde_json::Value;

/// A server's directory, its configuration and its certificates.
struct Host {
    site: Site,
}

impl Host {
    fn new() -> Self {
        let site = Site::new(&[
            ("other/index.html", b"other"),
            ("a/index.html", b"site a!"),
            ("b/index.html", b"the site b"),
        ]);
        Self { site }
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new(self.site.path()).join(name)
    }

    /// Makes a certificate for `host`, and returns its file.
    fn certify(&self, host: &str) -> PathBuf {
        let made = rcgen::generate_simple_self_signed([host.to_owned()]).unwrap();
        let cert = self.path(&format!("{host}.pem"));
        fs::write(
            self.path(&format!("{host}.key")),
            made.signing_key.serialize_pem(),
        )
        .unwrap();
        fs::write(&cert, made.cert.pem()).unwrap();
        cert
    }

    fn configure(&self, text: &str) {
        let text = text.replace("DIR", self.site.path());
        fs::write(self.path("edge.toml"), text).unwrap();
    }

    fn start(&self) -> Server {
        Server::start(&["--config", self.path("edge.toml").to_str().unwrap()])
    }
}

const A: &str = r#"
[[site]]
names = ["a.example", "*.a.example"]
root = "DIR/a"
tls = { cert = "DIR/a.example.pem", key = "DIR/a.example.key" }
"#;

const B: &str = r#"
[[site]]
names = ["b.example"]
root = "DIR/b"
response_headers = { set = { x-site = "b" } }
"#;

/// The status and the bytes of a host's page over a version of HTTP, for a client that trusts `ca`.
fn trusted(server: &Server, host: &str, ca: &[&str], http: &str) -> (u64, u64) {
    let port = server.port();
    let resolve = format!("{host}:{port}:127.0.0.1");
    let url = format!("https://{host}:{port}/");
    let args = ["get", "--json", "--http", http, "--resolve", &resolve, &url];
    let output = hikyaku(&[&args, ca].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let row: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let number = |key: &str| row[key].as_u64().unwrap_or_else(|| panic!("{key}: {row}"));
    (number("status"), number("body_bytes"))
}

/// The page of a host, and the text of its certificate.
fn page(server: &Server, host: &str, http: &str) -> (String, String) {
    let port = server.port();
    let resolve = format!("{host}:{port}:127.0.0.1");
    let url = format!("https://{host}:{port}/");
    let args = [
        http,
        "--resolve",
        &resolve,
        "-w",
        "\n%{http_code} %{certs}",
        &url,
    ];
    let output = String::from_utf8(curl(&args).stdout).unwrap();
    let (page, rest) = output.split_once('\n').unwrap();
    (page.to_owned(), rest.to_owned())
}

#[test]
fn each_site_has_its_certificate_and_its_content() {
    if !has("each_site_has_its_certificate_and_its_content", "curl") {
        return;
    }
    let host = Host::new();
    let a = host.certify("a.example");
    host.configure(&format!("root = \"DIR/other\"\n{A}{B}"));
    let server = host.start();
    for http in ["1.1", "2", "3"] {
        let ca = ["--cacert", a.to_str().unwrap()];
        let got = trusted(&server, "a.example", &ca, http);
        assert_eq!(got, (200, 7), "{http}");
        let got = trusted(&server, "b.example", &["--insecure"], http);
        assert_eq!(got, (200, 10), "{http}");
    }
    for http in ["--http1.1", "--http2"] {
        let cases = [
            ("a.example", "site a!", "DNS:a.example"),
            ("www.a.example", "site a!", "DNS:a.example"),
            ("b.example", "the site b", "DNS:b.example"),
            ("elsewhere.example", "other", "DNS:localhost"),
        ];
        for (name, want, certified) in cases {
            let (page, certs) = page(&server, name, http);
            assert_eq!(page, want, "{name} over {http}");
            assert!(certs.contains(certified), "{name} over {http}: {certs}");
        }
    }

    // The files of a site are read again without a signal.
    let a = host.certify("a.example");
    server.wait_metric("hikyaku_reloads_total{}", 1.0);
    let ca = ["--cacert", a.to_str().unwrap()];
    assert_eq!(trusted(&server, "a.example", &ca, "3"), (200, 7));
    let expiry = "hikyaku_certificate_not_after_seconds{key=\"ecdsa\",site=\"a.example\"}";
    assert!(server.metric(expiry) > 1.7e9);
}

#[test]
fn a_site_has_a_policy_of_its_own_over_every_version() {
    if !has("a_site_has_a_policy_of_its_own_over_every_version", "curl") {
        return;
    }
    let host = Host::new();
    fs::write(host.path("b/big.bin"), vec![0; 2_000_000]).unwrap();
    let pinned = "policy = { version = \"h2\", max_pacing_rate = \"5Mbps\" }";
    host.certify("a.example");
    host.configure(&format!("policy.holdback = 0\n{A}{B}{pinned}"));
    let server = host.start();
    let port = server.port();
    for http in ["--http1.1", "--http2"] {
        for (name, offered) in [("a.example", true), ("b.example", false)] {
            let resolve = format!("{name}:{port}:127.0.0.1");
            let url = format!("https://{name}:{port}/");
            let head = curl(&[http, "-I", "--resolve", &resolve, &url]).stdout;
            let head = String::from_utf8_lossy(&head).to_lowercase();
            assert!(head.contains(" 200"), "{name} over {http}: {head}");
            let offers = head.contains("alt-svc: h3=");
            assert_eq!(offers, offered, "{name} over {http}: {head}");
        }
    }
    for http in ["1.1", "2", "3"] {
        let path = format!("/big.bin?{http}");
        let resolve = format!("b.example:{port}:127.0.0.1");
        let url = format!("https://b.example:{port}{path}");
        let args = ["get", "--http", http, "--resolve", &resolve, "--insecure"];
        let output = hikyaku(&[&args[..], &[&url]].concat());
        assert!(output.status.success(), "{http}: {output:?}");
        let line = server.wait_access(http, |line| line["path"] == path.as_str());
        let goodput = line["goodput_bps"].as_u64().unwrap();
        assert!(goodput < 6_500_000, "{http}: {line}");
    }
}

#[test]
fn a_host_without_a_site_is_refused_and_may_come_with_a_reload() {
    if !has(
        "a_host_without_a_site_is_refused_and_may_come_with_a_reload",
        "curl",
    ) {
        return;
    }
    let host = Host::new();
    host.certify("a.example");
    host.configure(A);
    let server = host.start();
    let greeting = server.log();
    let port = server.port();
    for line in [
        format!("open         https://a.example:{port}/"),
        "sites        a.example".to_owned(),
        format!("curl -k --resolve a.example:{port}:127.0.0.1 https://a.example:{port}/"),
    ] {
        assert!(greeting.contains(&line), "{line}: {greeting}");
    }
    for http in ["--http1.1", "--http2"] {
        let (text, rest) = page(&server, "b.example", http);
        assert_eq!(text, "421 Misdirected Request", "{http}");
        assert!(rest.contains("421"), "{rest}");
    }
    assert_eq!(trusted(&server, "b.example", &["--insecure"], "3").0, 421);
    host.configure(&format!("{A}{B}"));
    server.signal(Signal::HUP);
    server.wait_log("configuration reloaded");
    assert_eq!(page(&server, "b.example", "--http2").0, "the site b");

    // A site whose certificate is missing is refused, and all others stay.
    host.configure(&format!(
        "{A}{B}tls = {{ cert = \"DIR/no.pem\", key = \"DIR/no.key\" }}"
    ));
    server.signal(Signal::HUP);
    server.wait_log("no.pem");
    assert_eq!(page(&server, "b.example", "--http2").0, "the site b");
}

#[test]
fn a_reload_of_many_sites_needs_no_second_descriptor_for_each() {
    const SITES: usize = 300;
    let host = Host::new();
    let site = |number: usize| {
        fs::create_dir(host.path(&format!("site{number}"))).unwrap();
        format!("[[site]]\nnames = [\"site{number}.example\"]\nroot = \"DIR/site{number}\"\n")
    };
    let sites: String = (0..SITES).map(site).collect();
    host.configure(&sites);
    let server = host.start();
    let open = || {
        let all = fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
        all.count()
    };
    let before = open();
    assert!(before > SITES, "{before}");
    // Room for what a reload needs besides.
    let limit = before + SITES / 2;
    let pid = server.pid().to_string();
    let lowered = Command::new("prlimit")
        .args(["--pid", &pid, &format!("--nofile={limit}")])
        .status();
    assert!(lowered.unwrap().success());
    host.configure(&format!(
        "{sites}response_headers = {{ set = {{ x-new = \"1\" }} }}\n"
    ));
    server.signal(Signal::HUP);
    server.wait_metric("hikyaku_reloads_total{}", 1.0);
    assert!(open() < before + 20, "{} of {before}", open());
}

#[test]
fn wrong_sites_are_refused_at_the_start() {
    let host = Host::new();
    let cases = [
        ("[[site]]\nroot = \"DIR/a\"", "has no `names`"),
        (
            "[[site]]\nnames = [\"a.example\"]",
            "`a.example` has nothing to serve",
        ),
        (
            "[[site]]\nnames = [\"a\"]\nroot = \"DIR/a\"\n[[site]]\nnames = [\"A\"]\nroot = \"DIR/b\"",
            "`A` is named twice",
        ),
        (
            "[[site]]\nnames = [\"a\"]\nroot = \"DIR/a\"\npolicy = { version = \"h1\" }",
            "the site `a`: policy.version = \"h1\" is for the whole server",
        ),
        (
            "[[site]]\nnames = [\"a\"]\nroot = \"DIR/a\"\npolicy = { half_life = {} }",
            "unknown field `half_life`",
        ),
        (
            "[[site]]\nnames = [\"a:443\"]\nroot = \"DIR/a\"",
            "`a:443` is no host name",
        ),
    ];
    for (text, want) in cases {
        host.configure(text);
        let config = host.path("edge.toml");
        let output = hikyaku(&["serve", "--config", config.to_str().unwrap()]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{text}");
        assert!(error.contains(want), "{text}: {error}");
    }
}
