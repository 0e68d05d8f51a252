//! The JSON has the fields of `docs/get.md`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::crowd::crowd;
use crate::get;
use crate::server::{ALL, Server};

/// The fields in the table of the section `### \`name\``.
fn documented(name: &str) -> BTreeSet<String> {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/get.md");
    let text = std::fs::read_to_string(docs).unwrap();
    let (_, section) = text.split_once(&format!("### `{name}`\n")).unwrap();
    let section = section.split("\n#").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.flat_map(|row| {
        let cell = row.split('|').next().unwrap();
        cell.split(',')
            .map(|field| field.trim_matches([' ', '`']).to_owned())
    })
    .collect()
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn every_field_is_documented_and_every_documented_field_is_there() {
    let server = Server::start(ALL);
    let (records, _) = get(&format!(
        "{} --page {}",
        server.trust(),
        server.url("/bytes/100")
    ));
    for kind in ["request", "connection", "run", "summary"] {
        assert_eq!(keys(records.one(kind)), documented(kind), "{kind}");
    }
    assert_eq!(keys(&records.one("request")["path"]), documented("path"));
    assert_eq!(
        keys(&records.one("summary")["total_us"]),
        documented("distribution")
    );
    let line = format!(
        "{} --requests 10 {}",
        server.trust(),
        server.url("/bytes/100")
    );
    let (records, _) = get(&line);
    assert_eq!(keys(records.one("load")), documented("load"));
    let (records, _) = crowd(&server, "/bytes/100", &[("a", "127.0.0.2", "2")]);
    assert_eq!(keys(records.one("client")), documented("client"));
}

#[test]
fn a_failed_request_has_the_same_fields() {
    let (records, _) = get("https://nowhere.invalid/");
    assert_eq!(keys(records.one("request")), documented("request"));
    let error = keys(&records.one("request")["error"]);
    assert_eq!(
        error,
        BTreeSet::from(["hint", "kind", "message"].map(str::to_owned))
    );
}
