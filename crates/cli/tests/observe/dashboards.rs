//! Dashboards and alert rules ask for metrics that there are, in expressions that Prometheus understands.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use hikyaku_testkit::has;
use serde_json::{Value, json};

use super::read;

/// Files that name metrics.
const FILES: [&str; 2] = ["conf/grafana-edge.json", "conf/alerts.yml"];

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    words
        .filter(|word| word.starts_with("hikyaku_") || word.starts_with("process_"))
        .collect()
}

#[test]
fn dashboard_and_alerts_name_metrics_that_there_are() {
    let exposition = read("crates/edge/src/metrics/exposition.txt");
    let samples = exposition.lines().filter(|line| !line.starts_with('#'));
    let exposed: BTreeSet<_> = samples
        .map(|line| line.split(['{', ' ']).next().unwrap())
        .collect();
    let described = read("docs/metrics.md");
    for file in FILES {
        let text = read(file);
        let named = names(&text);
        let missing: Vec<_> = named
            .iter()
            .filter(|name| {
                // The agent's own are checked beside the agent.
                let is_agents = name.starts_with("hikyaku_egress_") && described.contains(**name);
                !exposed.contains(*name) && !is_agents
            })
            .collect();
        assert!(
            missing.is_empty(),
            "{file} names {missing:?}, which no server has"
        );
        assert!(named.len() > 15, "{file} names {named:?} alone");
    }
}

/// The expressions of the edge servers' dashboard, for all servers.
pub(crate) fn expressions() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read(FILES[0])).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array());
    let expressions = targets
        .flatten()
        .map(|target| target["expr"].as_str().unwrap());
    expressions
        .map(|text| {
            let text = text.replace("$__rate_interval", "5m");
            text.replace("$instance", ".*")
        })
        .collect()
}

#[test]
fn panels_have_places_of_their_own() {
    let dashboard: Value = serde_json::from_str(&read(FILES[0])).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        let title = &panel["title"];
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        let of = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(of("x") + of("w") <= 24, "{title}");
        for x in of("x")..of("x") + of("w") {
            for y in of("y")..of("y") + of("h") {
                assert!(cells.insert((x, y)), "{title} is over another panel");
            }
        }
    }
    assert!(expressions().len() > 40);
}

/// Runs `promtool` in `conf`.
fn promtool(arguments: &[&str]) -> (bool, String) {
    let output = Command::new("promtool")
        .current_dir(format!("{}/../../conf", env!("CARGO_MANIFEST_DIR")))
        .args(arguments)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn alerts_are_rules_that_pass_their_tests() {
    if !has("alerts_are_rules_that_pass_their_tests", "promtool") {
        return;
    }
    for arguments in [
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts-test.yml"],
    ] {
        let (is_right, said) = promtool(&arguments);
        assert!(is_right, "{arguments:?}: {said}");
    }
    let (alerts, tests) = (read("conf/alerts.yml"), read("conf/alerts-test.yml"));
    let names = alerts
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let untested: Vec<_> = names
        .filter(|name| !tests.contains(&format!("alertname: {name}\n")))
        .collect();
    assert!(untested.is_empty(), "no test of {untested:?}");
}

#[test]
fn panels_ask_in_promql() {
    if !has("panels_ask_in_promql", "promtool") {
        return;
    }
    // promtool reads expressions in rules; JSON is YAML.
    let rules: Vec<_> = expressions()
        .iter()
        .enumerate()
        .map(|(panel, expression)| json!({"record": format!("panel:{panel}"), "expr": expression}))
        .collect();
    let rules = json!({"groups": [{"name": "panels", "rules": rules}]});
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("panels.yml");
    fs::write(&file, rules.to_string()).unwrap();
    let (is_right, said) = promtool(&["check", "rules", file.to_str().unwrap()]);
    assert!(is_right, "{said}");
}
