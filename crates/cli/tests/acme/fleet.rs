//! Edges of one fleet: one orders, any answers, all have the certificate.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use hikyaku_testkit::store::{Store, free_port};
use hikyaku_testkit::{Server, Site, eventually, hikyaku, this_test};
use rustix::process::Signal;
use serde_json::Value;

use super::{HTTP_PORT, HTTPS_PORT, LIFE, PAGE, Pebble, wait_valid};

/// Edges that have one authority and one store.
struct Fleet {
    pebble: Pebble,
    site: Site,
    store: String,
}

impl Fleet {
    fn new(test: &str, store: &str) -> Option<Self> {
        let pebble = Pebble::start(test, LIFE)?;
        let fleet = Self {
            pebble,
            site: Site::new(&[("index.html", PAGE)]),
            store: store.to_owned(),
        };
        fleet.write_keys(&["01"]);
        Some(fleet)
    }

    /// Writes the file of secrets that all edges have.
    fn write_keys(&self, digits: &[&str]) {
        let lines = digits.iter().map(|digits| digits.repeat(32) + "\n");
        fs::write(self.keys(), lines.collect::<String>()).unwrap();
        fs::set_permissions(self.keys(), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn keys(&self) -> PathBuf {
        self.pebble.dir().join("fleet.keys")
    }

    /// Starts an edge with these lines of configuration. Authorities ask the one that is `found`.
    fn edge(&self, name: &str, found: bool, lines: &str) -> Server {
        let dir = self.pebble.dir();
        let text = format!(
            "root = {root:?}\n\
             state.dir = {state:?}\n\
             acme.directory = \"{directory}\"\n\
             acme.ca_file = {ca:?}\n\
             fleet.store = \"{store}\"\n\
             fleet.name = \"{name}\"\n\
             fleet.key_file = {keys:?}\n\
             fleet.share_certificates = true\n\
             {lines}\n",
            root = self.site.path(),
            state = dir.join(format!("state-{name}")),
            directory = self.pebble.directory(),
            ca = self.pebble.ca_file(),
            store = self.store,
            keys = self.keys(),
        );
        let file = dir.join(format!("{name}.toml"));
        fs::write(&file, text).unwrap();
        let listen = match found {
            true => format!("{}:{HTTPS_PORT}", self.pebble.address),
            false => "127.0.0.1:0".to_owned(),
        };
        Server::start(&["--config", file.to_str().unwrap(), "--listen", &listen])
    }
}

/// Waits until an edge is in the fleet.
#[track_caller]
fn joins(server: &Server) {
    server.wait_metric("hikyaku_fleet_store_up", 1.0);
}

fn fingerprint(all: &[Value]) -> &Value {
    &all[0]["certificates"][0]["fingerprint"]
}

fn issued(server: &Server) -> f64 {
    server.metric("hikyaku_acme_orders_total{result=\"issued\"}")
}

#[test]
fn one_edge_orders_for_all_and_a_new_one_orders_nothing() {
    let Some(store) = Store::start(&this_test(), &[]) else {
        return;
    };
    let Some(fleet) = Fleet::new(&this_test(), &store.url()) else {
        return;
    };
    let names = "tls.acme = [\"a.example\", \"b.example\"]";
    let [a, b] = [("a", true), ("b", false)].map(|(name, found)| fleet.edge(name, found, names));
    let [of_a, of_b] = [&a, &b].map(wait_valid);
    assert_eq!(fingerprint(&of_a), fingerprint(&of_b));
    assert_eq!((fleet.pebble.orders(), fleet.pebble.accounts()), (1, 1));
    assert_eq!(issued(&a) + issued(&b), 1.0);
    // In another order, the names are the same.
    let turned = "tls.acme = [\"b.example\", \"a.example\"]";
    let late = fleet.edge("late", false, turned);
    let of_late = wait_valid(&late);
    assert_eq!(fingerprint(&of_late), fingerprint(&of_a));
    assert_eq!(fleet.pebble.orders(), 1);
    late.wait_log("taken over from another server of the fleet");
    // It serves the certificate that Pebble has made.
    let root = fleet.pebble.root();
    let url = format!("https://a.example:{}/", late.port());
    let resolve = format!("a.example:{}:127.0.0.1", late.port());
    let args = ["get", "--json", "--cacert", root.to_str().unwrap()];
    let output = hikyaku(&[&args[..], &["--resolve", &resolve, &url]].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("\"status\":200"), "{said}");
    shown(&late, &store);

    // After a restart it has the certificate, although the store is gone.
    let mut late = late;
    drop(store);
    late.signal(Signal::TERM);
    late.wait_exit();
    let again = fleet.edge("late", false, turned);
    assert_eq!(fingerprint(&wait_valid(&again)), fingerprint(&of_a));
    assert_eq!(fleet.pebble.orders(), 1);
}

/// Checks what people and machines see of the common contents: titles and times, and no secret anywhere.
fn shown(edge: &Server, store: &Store) {
    let admin = edge.admin.to_string();
    let table = hikyaku(&["fleet", "--admin", &admin]);
    let table = String::from_utf8(table.stdout).unwrap();
    let line = table.lines().find(|line| line.starts_with("certificate"));
    let line = line.unwrap_or_else(|| panic!("{table}"));
    assert!(line.contains(".example") && line.contains("days"), "{line}");
    assert!(edge.metric("hikyaku_fleet_contents{topic=\"certificate\"}") > 0.5);
    assert!(edge.metric("hikyaku_fleet_contents_unsealed_total{}") < 0.5);
    let keys = store.run(&["KEYS", "*"]);
    let values = keys
        .lines()
        .filter(|key| key.contains(":shared:"))
        .map(|key| store.run(&["--no-raw", "GET", key]));
    let values: String = values.collect();
    let status = edge.admin_json("/v1/fleet").to_string();
    assert!(keys.contains(":shared:{certificate/"), "{keys}");
    for (place, text) in [
        ("the store", [keys, values].concat()),
        ("the admin API", status),
        ("the log", edge.log()),
    ] {
        let is_secret = |word: &&str| text.contains(*word);
        let secrets = ["PRIVATE KEY", "key_pkcs8", "BEGIN CERTIFICATE"];
        assert_eq!(secrets.iter().find(|word| is_secret(word)), None, "{place}");
    }
}

/// The names of b come to a, which has no certificate for them.
#[test]
fn an_edge_answers_for_the_order_of_another() {
    for kind in ["tls-alpn-01", "http-01"] {
        let Some(store) = Store::start(&this_test(), &[]) else {
            return;
        };
        let Some(fleet) = Fleet::new(&this_test(), &store.url()) else {
            return;
        };
        let lines = |name: &str, clear: String| {
            format!(
                "tls.acme = \"{name}.example\"\nacme.challenge = \"{kind}\"\nhttp.listen = [\"{clear}\"]"
            )
        };
        let clear = format!("{}:{HTTP_PORT}", fleet.pebble.address);
        let a = fleet.edge("a", true, &lines("a", clear));
        wait_valid(&a);
        let b = fleet.edge("b", false, &lines("b", "127.0.0.1:0".to_owned()));
        wait_valid(&b);
        assert_eq!((issued(&a), issued(&b)), (1.0, 1.0), "{kind}");
        let failed = "hikyaku_acme_orders_total{result=\"failed\"}";
        assert_eq!(b.metric(failed), 0.0, "{kind}");
        assert_eq!(fleet.pebble.accounts(), 1, "{kind}");
        // Nothing is left of the answers.
        eventually("the answers are taken back", || {
            let held = a.metric("hikyaku_fleet_contents{topic=\"challenge\"}");
            (held < 0.5).then_some(())
        });
        let keys = store.run(&["KEYS", "*:shared:{challenge/*"]);
        assert_eq!(keys, "", "{kind}");
    }
}

#[test]
fn another_edge_takes_over_when_the_one_that_orders_is_killed() {
    let Some(store) = Store::start(&this_test(), &[]) else {
        return;
    };
    let Some(fleet) = Fleet::new(&this_test(), &store.url()) else {
        return;
    };
    let dir = fleet.pebble.dir();
    // The order of a halts in its hook.
    let (hook, process) = (dir.join("halts"), dir.join("process"));
    let script = format!("#!/bin/sh\necho $$ >{process:?}\nexec sleep 600\n");
    fs::write(&hook, script).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let lines = |hook: &PathBuf| format!("tls.acme = \"*.example\"\nacme.hook = {hook:?}");
    let mut a = fleet.edge("a", true, &lines(&hook));
    let halted = eventually("the hook is called", || {
        let text = fs::read_to_string(&process).ok()?;
        text.trim().parse::<u32>().ok()
    });
    let b = fleet.edge("b", false, &lines(&fleet.pebble.hook()));
    joins(&b);
    // A reload makes it look, and it still leaves the order to the other.
    b.signal(Signal::HUP);
    b.wait_log("configuration reloaded");
    assert_eq!(fleet.pebble.orders(), 1);
    a.signal(Signal::KILL);
    a.wait_exit();
    wait_valid(&b);
    assert_eq!((fleet.pebble.orders(), fleet.pebble.accounts()), (2, 1));
    let killed = Command::new("kill").arg(halted.to_string()).status();
    assert!(killed.unwrap().success());
}

#[test]
fn an_edge_gets_certificates_by_itself_while_the_store_is_dead() {
    let dead = format!("redis://127.0.0.1:{}", free_port());
    let Some(fleet) = Fleet::new(&this_test(), &dead) else {
        return;
    };
    let a = fleet.edge("a", true, "tls.acme = \"a.example\"");
    wait_valid(&a);
    assert_eq!(fleet.pebble.orders(), 1);
    assert!(a.metric("hikyaku_fleet_store_up") < 0.5);
}

/// Whoever writes to the store can't have edges use a certificate, and neither can an edge with another file.
#[test]
fn contents_of_other_secrets_are_ignored() {
    let Some(store) = Store::start(&this_test(), &[]) else {
        return;
    };
    let Some(fleet) = Fleet::new(&this_test(), &store.url()) else {
        return;
    };
    let names = "tls.acme = \"a.example\"";
    let a = fleet.edge("a", true, names);
    let of_a = wait_valid(&a);
    eventually("the certificate is in the store", || {
        let keys = store.run(&["KEYS", "*:shared:{certificate/*"]);
        (!keys.is_empty()).then_some(())
    });
    drop(a);
    fleet.write_keys(&["02"]);
    let stranger = fleet.edge("b", true, names);
    stranger.wait_log("is not sealed by a secret of `fleet.key_file`");
    let of_stranger = wait_valid(&stranger);
    assert_ne!(fingerprint(&of_stranger), fingerprint(&of_a));
    assert_eq!(fleet.pebble.orders(), 2);
}
