//! Certificates by ACME from Pebble: from nothing, over a restart, by each challenge, and where they fail.
#![allow(clippy::unwrap_used)]

mod challenges;
mod failures;
mod fleet;

use std::fs;
use std::path::PathBuf;

use hikyaku_testkit::pebble::{HTTP_PORT, HTTPS_PORT, Pebble};
use hikyaku_testkit::{Server, Site, eventually, get, hikyaku};
use serde_json::Value;

const PAGE: &[u8] = b"<!doctype html><title>start</title>";
const LIFE: u64 = 90 * 24 * 3600;

/// The configuration of a server for Pebble, and what it needs.
struct Setup {
    config: PathBuf,
    root: PathBuf,
    site: Site,
}

impl Setup {
    /// Writes a configuration of these lines, in which `ROOT` is a directory to serve, and which has the rest
    /// by Pebble.
    fn new(pebble: &Pebble, lines: &str) -> Self {
        let site = Site::new(&[("index.html", PAGE)]);
        let setup = Self {
            config: pebble.dir().join("edge.toml"),
            root: pebble.root(),
            site,
        };
        setup.write(pebble, lines);
        setup
    }

    fn write(&self, pebble: &Pebble, lines: &str) {
        let (address, state) = (pebble.address, pebble.dir().join("state"));
        let common = format!(
            "listen = [\"{address}:{HTTPS_PORT}\"]\n\
             state.dir = {state:?}\n\
             acme.directory = \"{}\"\n\
             acme.ca_file = {:?}\n",
            pebble.directory(),
            pebble.ca_file(),
        );
        let text = format!("{common}{}", lines.replace("ROOT", self.site.path()));
        fs::write(&self.config, text).unwrap();
    }

    fn start(&self, pebble: &Pebble) -> Server {
        let listen = format!("{}:{HTTPS_PORT}", pebble.address);
        let config = self.config.to_str().unwrap();
        Server::start(&["--config", config, "--listen", &listen])
    }

    /// The status of a page by HTTP/2 and by HTTP/3, from a client that trusts Pebble's root alone.
    fn get(&self, pebble: &Pebble, name: &str) -> [Value; 2] {
        let url = format!("https://{name}:{HTTPS_PORT}/");
        let resolve = format!("{name}:{HTTPS_PORT}:{}", pebble.address);
        let root = self.root.to_str().unwrap();
        ["2", "3"].map(|version| {
            let args = ["--http", version, "--cacert", root, "--resolve", &resolve];
            let output = hikyaku(&[&["get", "--json"], &args[..], &[&url]].concat());
            let text = String::from_utf8(output.stdout).unwrap();
            let record: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
            record["status"].clone()
        })
    }
}

/// Waits until all certificates by ACME are there, and returns what the admin API reports.
#[track_caller]
fn wait_valid(server: &Server) -> Vec<Value> {
    eventually("all certificates", || {
        let all = server.admin_json("/v1/certificates");
        let all = all.as_array().unwrap().clone();
        let is_valid = |one: &&Value| one["source"] == "acme" && one["acme"]["state"] == "valid";
        let by_acme = all.iter().filter(|one| one["source"] == "acme").count();
        (by_acme > 0 && all.iter().filter(is_valid).count() == by_acme).then_some(all)
    })
}

#[test]
fn two_domains_have_certificates_from_nothing_and_keep_them() {
    let Some(pebble) = Pebble::start("two_domains_have_certificates_from_nothing", LIFE) else {
        return;
    };
    // The common lines and these are eight.
    let lines = "site = [\n  \
         { names = [\"a.example\"], root = \"ROOT\", tls = \"acme\" },\n  \
         { names = [\"b.example\"], root = \"ROOT\", tls = \"acme\" },\n]\n";
    let setup = Setup::new(&pebble, lines);
    let written = fs::read_to_string(&setup.config).unwrap();
    assert_eq!(written.lines().count(), 8, "{written}");
    let server = setup.start(&pebble);
    // It serves at once, with a certificate of its own.
    let resolve = format!("a.example:{HTTPS_PORT}:{}", pebble.address);
    let url = format!("https://a.example:{HTTPS_PORT}/");
    assert_eq!(get(&["--resolve", &resolve, &url])[0]["status"], 200);
    let all = wait_valid(&server);
    let sites: Vec<_> = all.iter().map(|one| one["site"].as_str()).collect();
    assert_eq!(sites, [None, Some("a.example"), Some("b.example")]);
    for name in ["a.example", "b.example"] {
        assert_eq!(setup.get(&pebble, name), [200, 200], "{name}");
    }
    assert_eq!(pebble.orders(), 2);
    shown(&server, &all);

    // A restart has them at once, and orders nothing.
    drop(server);
    let server = setup.start(&pebble);
    assert_eq!(setup.get(&pebble, "a.example"), [200, 200]);
    let again = wait_valid(&server);
    let prints = |all: &[Value]| -> Vec<Value> {
        let ours = all.iter().skip(1);
        ours.map(|one| one["certificates"][0]["fingerprint"].clone())
            .collect()
    };
    assert_eq!(prints(&again), prints(&all));
    assert_eq!(pebble.orders(), 2);
    assert_eq!(pebble.accounts(), 1);
}

/// A third of a life of twelve seconds is left after eight.
#[test]
fn short_lived_certificates_are_renewed_while_clients_are_served() {
    let Some(pebble) = Pebble::start("short_lived_certificates_are_renewed", 12) else {
        return;
    };
    let setup = Setup::new(&pebble, "root = \"ROOT\"\ntls.acme = \"a.example\"\n");
    let server = setup.start(&pebble);
    let print = |all: &[Value]| all[0]["certificates"][0]["fingerprint"].clone();
    let first = print(&wait_valid(&server));
    server.wait_metric("hikyaku_acme_orders_total{result=\"issued\"}", 3.0);
    assert_ne!(print(&wait_valid(&server)), first);
    assert_eq!(setup.get(&pebble, "a.example"), [200, 200]);
    assert_eq!(
        server.metric("hikyaku_acme_orders_total{result=\"failed\"}"),
        0.0
    );
    assert_eq!(pebble.accounts(), 1);
}

/// Checks the command and the metrics for two certificates.
fn shown(server: &Server, all: &[Value]) {
    let admin = server.admin.to_string();
    let table = hikyaku(&["certs", "--admin", &admin]);
    let table = String::from_utf8(table.stdout).unwrap();
    let issuer = all[1]["certificates"][0]["issuer"].as_str().unwrap();
    assert!(issuer.starts_with("Pebble Intermediate CA"), "{issuer}");
    let line = table.lines().find(|line| line.starts_with("b.example"));
    let line = line.unwrap_or_else(|| panic!("{table}"));
    for word in ["acme", issuer, "ecdsa", "in 89 days", "in 5", "valid"] {
        assert!(line.contains(word), "{word}: {table}");
    }
    let json = hikyaku(&["certs", "--json", "--admin", &admin]);
    let json: Vec<Value> = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json.len(), 3);
    for name in ["a.example", "b.example"] {
        let not_after =
            format!("hikyaku_certificate_not_after_seconds{{key=\"ecdsa\",site=\"{name}\"}}");
        let next = format!("hikyaku_acme_next_order_seconds{{certificate=\"{name}\"}}");
        let left = server.metric(&not_after) - server.metric(&next);
        assert!((29.0..34.0).contains(&(left / 86_400.0)), "{left}");
        let failures = format!("hikyaku_acme_failures_in_a_row{{certificate=\"{name}\"}}");
        assert_eq!(server.metric(&failures), 0.0);
    }
    let orders =
        |result| server.metric(&format!("hikyaku_acme_orders_total{{result=\"{result}\"}}"));
    assert_eq!((orders("issued"), orders("failed")), (2.0, 0.0));
}
