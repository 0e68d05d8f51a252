//! Readers of the access log understand it by the settings of conf/examples/logs.

use std::collections::BTreeSet;
use std::process::Command;

use hikyaku_testkit::fetch::curl;
use hikyaku_testkit::{Server, Site, eventually, has};
use serde_json::Value;

use super::read;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf/examples/logs");

/// A server that has answered a request of each version of TCP, in this format.
fn logged(format: &str) -> (Server, Site) {
    let site = Site::new(&[("index.html", b"start")]);
    let server = Server::start(&[site.path(), "--set", &format!("log.format={format}")]);
    for (version, path) in [
        ("--http1.1", "/"),
        ("--http2", "/?x=\"1\""),
        ("--http2", "/none"),
    ] {
        let path = path.replace('"', "%22");
        let agent = "a \"quoted\" \\ agent";
        let output = curl(&[version, "-A", agent, "-o", "/dev/null", &server.url(&path)]);
        assert!(output.status.success(), "{output:?}");
    }
    eventually("three lines", || {
        (server.access_lines().len() == 3).then_some(())
    });
    (server, site)
}

#[test]
fn goaccess_reads_the_combined_format() {
    if !has("goaccess_reads_the_combined_format", "goaccess") {
        return;
    }
    let (server, _site) = logged("combined");
    let report = server.dir().join("report.json");
    let output = Command::new("goaccess")
        .arg(server.access_path())
        .args(["--no-global-config", "--no-progress"])
        .arg(format!("--config-file={EXAMPLES}/goaccess.conf"))
        .arg(format!("--output={}", report.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    let general = &report["general"];
    assert_eq!(general["valid_requests"], 3, "{general}");
    assert_eq!(general["failed_requests"], 0, "{general}");
    assert_eq!(general["unique_not_found"], 1, "{general}");
    let requests = report["requests"]["data"].as_array().unwrap();
    let protocols: BTreeSet<_> = requests
        .iter()
        .filter_map(|request| request["protocol"].as_str())
        .collect();
    assert_eq!(
        protocols,
        BTreeSet::from(["HTTP/1.1", "HTTP/2"]),
        "{requests:?}"
    );
    let times = requests
        .iter()
        .filter_map(|request| request["avgts"].as_u64());
    assert!(
        times.count() > 0,
        "the time of a response is read: {requests:?}"
    );
}

/// The fields of a line of the JSON format, and those that a line may have.
fn fields() -> BTreeSet<String> {
    let (server, _site) = logged("json");
    let lines = server.access_lines();
    let line: Value = serde_json::from_str(&lines[0]).unwrap();
    line.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn alloy_and_vector_read_fields_that_the_log_has() {
    let fields = fields();
    let alloy = read("conf/examples/logs/alloy.alloy");
    let expressions = alloy
        .lines()
        .find(|line| line.trim().starts_with("expressions = "));
    let strings: Vec<_> = expressions.unwrap().split('"').skip(1).step_by(2).collect();
    assert!(strings.len() >= 4);
    for name in strings {
        assert!(
            fields.contains(name),
            "alloy.alloy reads `{name}`, which the log lacks"
        );
    }
    let vector: toml::Table = read("conf/examples/logs/vector.toml").parse().unwrap();
    let source = vector["transforms"]["response"]["source"].as_str().unwrap();
    let made = ["message", "timestamp", "duration_s", "min_rtt_s", "failed"];
    let paths = source.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
    let names: Vec<_> = paths.filter_map(|word| word.strip_prefix('.')).collect();
    for name in names
        .into_iter()
        .filter(|name| !name.is_empty() && !made.contains(name))
    {
        assert!(
            fields.contains(name),
            "vector.toml reads `{name}`, which the log lacks"
        );
    }
    let labels = vector["sinks"]["loki"]["labels"].as_table().unwrap();
    let templates = labels.values().filter_map(toml::Value::as_str);
    for name in templates.filter_map(|text| text.strip_prefix("{{ ")?.strip_suffix(" }}")) {
        assert!(
            fields.contains(name),
            "vector.toml labels by `{name}`, which the log lacks"
        );
    }
}

#[test]
fn vectors_parts_lead_from_one_to_the_next() {
    let vector: toml::Table = read("conf/examples/logs/vector.toml").parse().unwrap();
    let section = |name: &str| vector[name].as_table().unwrap().clone();
    let outputs: BTreeSet<_> = ["sources", "transforms"]
        .iter()
        .flat_map(|name| section(name).keys().cloned().collect::<Vec<_>>())
        .collect();
    for kind in ["transforms", "sinks"] {
        for (name, part) in section(kind) {
            for input in part["inputs"].as_array().unwrap() {
                assert!(outputs.contains(input.as_str().unwrap()), "{name}: {input}");
            }
        }
    }
    // Its own test has a line as the server writes it.
    let test = &vector["tests"].as_array().unwrap()[0];
    let line = test["inputs"].as_array().unwrap()[0]["log_fields"]["message"].as_str();
    let line: Value = serde_json::from_str(line.unwrap()).unwrap();
    let fields = fields();
    for name in line.as_object().unwrap().keys() {
        assert!(fields.contains(name), "{name}");
    }
}

#[test]
fn alloys_blocks_are_whole_and_lead_from_one_to_the_next() {
    let text = read("conf/examples/logs/alloy.alloy");
    let code: String = text
        .lines()
        .filter(|line| !line.trim().starts_with("//"))
        .collect();
    let outside: String = code.split('"').step_by(2).collect();
    for (open, close) in [('{', '}'), ('[', ']')] {
        assert_eq!(
            outside.matches(open).count(),
            outside.matches(close).count(),
            "{open}"
        );
    }
    let heads = text.lines().filter_map(|line| line.strip_suffix(" {"));
    let blocks: BTreeSet<_> = heads
        .filter_map(|head| head.split_once(" \""))
        .map(|(kind, name)| format!("{kind}.{}", name.trim_end_matches('"')))
        .collect();
    assert_eq!(blocks.len(), 5, "{blocks:?}");
    let words = outside.split(|c: char| !(c.is_ascii_alphanumeric() || "._".contains(c)));
    let references = words.filter(|word| word.ends_with(".receiver") || word.ends_with(".targets"));
    let references: Vec<_> = references.collect();
    assert_eq!(references.len(), 4);
    for reference in references {
        let (block, _) = reference.rsplit_once('.').unwrap();
        assert!(blocks.contains(block), "{reference}");
    }
}
