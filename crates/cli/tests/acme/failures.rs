//! Messages for an operator whose certificates do not come.

use std::fs;

use hikyaku_testkit::{Server, Site, eventually, get, hikyaku};
use serde_json::json;

use super::{LIFE, PAGE, Pebble, Setup};

#[test]
fn a_failing_challenge_is_reported_and_the_site_is_served() {
    let Some(pebble) = Pebble::start("a_failing_challenge_is_reported", LIFE) else {
        return;
    };
    let nobody = json!({ "host": "a.example", "addresses": ["127.99.99.99"] });
    pebble.dns("add-a", &nobody);
    let lines = "root = \"ROOT\"\ntls.acme = \"a.example\"\n";
    let setup = Setup::new(&pebble, lines);
    let server = setup.start(&pebble);
    let log = server.wait_log("no certificate for a.example");
    let line = log
        .lines()
        .find(|line| line.contains("no certificate for"))
        .unwrap();
    for want in [
        "a.example by tls-alpn-01: ",
        "Failed to connect to 127.99.99.99:5001",
        "the next try is at ",
    ] {
        assert!(line.contains(want), "{want}: {line}");
    }
    let admin = server.admin.to_string();
    let table = eventually("the failure in the table", || {
        let output = hikyaku(&["certs", "--admin", &admin]);
        let table = String::from_utf8(output.stdout).unwrap();
        table.contains("failing (1)").then_some(table)
    });
    assert!(table.contains("last failure: "), "{table}");
    assert!(table.contains("a.example by tls-alpn-01: "), "{table}");
    let failures = "hikyaku_acme_failures_in_a_row{certificate=\"a.example\"}";
    assert_eq!(server.metric(failures), 1.0);
    assert_eq!(
        server.metric("hikyaku_acme_orders_total{result=\"failed\"}"),
        1.0
    );
    assert_eq!(get(&[&server.url("/")])[0]["status"], 200);
}

#[test]
fn what_does_not_fit_together_is_refused_and_checked() {
    let site = Site::new(&[("index.html", PAGE)]);
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("edge.toml");
    let state = format!("state.dir = {:?}\n", dir.path().join("state"));
    let hook = format!("acme.hook = {config:?}\n");
    let cases = [
        ("tls.acme = \"a.example\"\n".to_owned(), "need `state.dir`"),
        (
            format!("{state}tls.acme = \"*.a.example\"\n"),
            "`*.a.example` is a wildcard, whose control dns-01 alone proves: set `acme.hook`",
        ),
        (
            format!("{state}tls.acme = \"192.0.2.1\"\n"),
            "`192.0.2.1` is an address",
        ),
        (
            format!("{state}tls.acme = \"a.example\"\n{hook}"),
            "checking the program `acme.hook`",
        ),
        (
            format!("{state}tls = {{ acme = \"a.example\", cert = \"c\", key = \"k\" }}\n"),
            "both `tls.acme` and `tls.cert` are set",
        ),
        (
            format!("{state}tls.acme = \"a.example\"\nacme.ca_file = \"/nonexistent\"\n"),
            "reading `acme.ca_file` from /nonexistent",
        ),
        (
            "acme.challenge = \"http-01\"\n".to_owned(),
            "http-01, which needs HTTP in the clear: set `http.listen`",
        ),
        (
            "acme.email = \"nobody\"\n".to_owned(),
            "`acme.email` holds `nobody`",
        ),
        (
            "[[site]]\nnames = [\"b\"]\nroot = \"/\"\ntls = \"acne\"\n".to_owned(),
            "expected \"acme\" or a table",
        ),
        (
            "[[site]]\nnames = [\"b\"]\nroot = \"/\"\ntls = { acmee = true }\n".to_owned(),
            "unknown field `acmee`",
        ),
    ];
    for (lines, want) in cases {
        let root = format!("root = {:?}\n", site.path());
        fs::write(&config, format!("{root}{lines}")).unwrap();
        let path = config.to_str().unwrap();
        let checked = hikyaku(&["check", "--config", path, "--listen", "127.0.0.1:0"]);
        let said = String::from_utf8(checked.stderr).unwrap();
        assert!(said.contains(want), "check {lines}: {said}");
        assert!(!checked.status.success(), "{lines}");
        let log = Server::try_start(&["--config", path]).err();
        let log = log.unwrap_or_else(|| panic!("it started: {lines}"));
        assert!(log.contains(want), "serve {lines}: {log}");
    }
    let fine = format!(
        "root = {:?}\n{state}tls.acme = \"a.example\"\n",
        site.path()
    );
    fs::write(&config, fine).unwrap();
    let path = config.to_str().unwrap();
    let checked = hikyaku(&["check", "--config", path, "--listen", "127.0.0.1:0"]);
    let said = String::from_utf8(checked.stderr).unwrap();
    assert!(checked.status.success(), "{said}");
    let want = "tls-alpn-01 comes to port 443 of a name, which is not in `listen`";
    assert!(said.contains(want), "{said}");
}
