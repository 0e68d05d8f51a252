//! The gain by assignment, from requests to the operator's screen.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use hikyaku_testkit::{PATIENCE, Server, Site, eventually, get, hikyaku, plain_http};
use rustix::process::Signal;
use serde_json::Value;

/// A server behind a proxy on 127.0.0.1, in the clear.
fn start(site: &Site, state: &str, more: &[&str]) -> Server {
    let args = [
        site.path(),
        "--state",
        state,
        "--set",
        "policy.holdback=0.5",
        "--set",
        "behind.trusted=127.0.0.1",
        "--set",
        "http.listen=127.0.0.1:0",
        "--set",
        "http.serve=content",
    ];
    Server::start(&[&args, more].concat())
}

/// Asks for the page once for each client, over one connection of the proxy.
fn visit(proxy: SocketAddr, clients: std::ops::Range<u16>) {
    let stream = TcpStream::connect(proxy).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    for client in clients {
        let [high, low] = client.to_be_bytes();
        let request = format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 10.0.{high}.{low}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut length = 0;
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            assert!(reader.read_line(&mut line).unwrap() > 0, "closed early");
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        reader.read_exact(&mut vec![0; length]).unwrap();
    }
}

fn both(report: &Value, field: &str) -> [u64; 2] {
    let of = |assignment| report[field][assignment].as_u64().unwrap();
    [of("hikyaku"), of("hold_back")]
}

/// Waits until so many responses are counted, and returns the report.
#[track_caller]
fn counted(server: &Server, responses: u64) -> Value {
    eventually(&format!("{responses} responses"), || {
        let report = server.admin_json("/v1/gain?since=1d&by=network");
        let sum: u64 = both(&report, "responses").iter().sum();
        (sum == responses).then_some(report)
    })
}

#[test]
fn the_first_responses_of_all_clients_count_on_both_sides() {
    let site = Site::new(&[("index.html", b"start")]);
    let state = tempfile::tempdir().unwrap();
    let state = state.path().to_str().unwrap();
    let mut server = start(&site, state, &[]);
    visit(server.cleartext[0], 0..600);
    let report = counted(&server, 600);
    let [own, other] = both(&report, "clients");
    assert_eq!(own + other, 600, "{report:#}");
    assert!((240..=360).contains(&other), "{report:#}");
    assert_eq!(both(&report, "responses"), [own, other], "one of each");
    assert_eq!(
        report["ratio"]["low"].as_f64().map(|low| low > 0.0),
        Some(true)
    );
    assert_ne!(report["verdict"], "too_few");
    assert_eq!(report["versions"]["hold_back"]["h1"], 1.0);
    let networks: BTreeMap<_, _> = report["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| {
            (
                group["name"].as_str().unwrap(),
                both(group, "clients").iter().sum(),
            )
        })
        .collect();
    let expected = [
        ("10.0.0.0/24", 256),
        ("10.0.1.0/24", 256),
        ("10.0.2.0/24", 88),
    ];
    assert_eq!(networks, BTreeMap::from(expected));

    let admin = server.admin.to_string();
    let shown = hikyaku(&["gain", "--since", "1d", "--by", "size", "--admin", &admin]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(
        text.contains(report["sentence"].as_str().unwrap()),
        "{text}"
    );
    assert!(text.contains("up to 16 KiB"), "{text}");
    assert!(
        text.lines().skip(1).all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let json = hikyaku(&["gain", "--since", "1d", "--json", "--admin", &admin]).stdout;
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["clients"], report["clients"]);
    let refused = hikyaku(&["gain", "--by", "country", "--admin", &admin]);
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(why.contains("set `gain.countries`"), "{why}");
    let held_back = "hikyaku_gain_clients{assignment=\"hold_back\"}";
    server.wait_metric(held_back, other as f64);
    assert!(server.metric("hikyaku_gain_ratio") > 0.0);

    // The counts outlive the process, and the same clients stay in their groups.
    server.signal(Signal::TERM);
    assert!(server.wait_exit().success());
    let server = start(&site, state, &[]);
    assert_eq!(both(&counted(&server, 600), "clients"), [own, other]);
    visit(server.cleartext[0], 0..10);
    assert_eq!(both(&counted(&server, 610), "clients"), [own, other]);
}

#[test]
fn every_version_counts_and_sites_have_their_own_share() {
    let site = Site::new(&[("index.html", b"start")]);
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("edge.toml");
    let text = format!(
        "listen = \"127.0.0.1:0\"\n[policy]\nholdback = 0.0\n[[site]]\nnames = [\"localhost\"]\nroot = {0:?}\n\
         policy = {{ holdback = 1.0 }}\n[[site]]\nnames = [\"127.0.0.1\"]\nroot = {0:?}\n",
        site.path()
    );
    std::fs::write(&config, text).unwrap();
    let server = Server::start(&["--config", config.to_str().unwrap()]);
    let url = format!("https://localhost:{}/", server.port());
    for version in ["1.1", "2", "3"] {
        for url in [&url, &server.url("/")] {
            let records = get(&["--http", version, url]);
            assert_eq!(records[0]["status"], 200, "HTTP/{version}: {records:?}");
        }
    }
    let report = eventually("6 responses", || {
        let report = server.admin_json("/v1/gain?by=site");
        let sum: u64 = both(&report, "responses").iter().sum();
        (sum == 6).then_some(report)
    });
    assert_eq!(both(&report, "responses"), [3, 3], "{report:#}");
    assert_eq!(report["holdback"], 1.0);
    let names: Vec<_> = report["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| group["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"localhost"), "{names:?}");
    for assignment in ["hikyaku", "hold_back"] {
        let versions = &report["versions"][assignment];
        for version in ["h1", "h2", "h3"] {
            let share = versions[version].as_f64().unwrap();
            assert!((share - 1.0 / 3.0).abs() < 1e-9, "{versions}");
        }
    }
    let by_version = server.admin_json("/v1/gain?by=version");
    assert_eq!(by_version["groups"][2]["verdict"], "not_compared");
}

#[test]
fn wrong_questions_and_settings_have_clear_answers() {
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path()]);
    for (query, why) in [
        ("since=tomorrow", "`since`"),
        ("by=moon", "`moon` is no kind of group"),
    ] {
        let path = format!("/v1/gain?{query}");
        let (status, body) = plain_http(server.admin, "GET", &path, "", "");
        assert_eq!(status, 400, "{body}");
        assert!(body.contains(why), "{body}");
    }
    let report = server.admin_json("/v1/gain");
    assert_eq!(report["verdict"], "too_few", "{report:#}");
    assert_eq!(report["ratio"], Value::Null);
    for (setting, why) in [
        (
            "gain.clients=10",
            "gain.clients: 10 is not between 256 and 65536",
        ),
        ("gain.keep=1h", "gain.keep: 1h is not between 1d and 400d"),
        (
            "gain.countries=/nowhere.mmdb",
            "reading the database of countries /nowhere.mmdb",
        ),
    ] {
        let refused = Server::try_start(&[site.path(), "--set", setting]);
        let log = refused.err().unwrap();
        assert!(log.contains(why), "{log}");
    }
}
