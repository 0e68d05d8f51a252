//! Fleets of edges with a real store. Without one installed, the tests report a skip and pass.

use super::interrupted::{namespaces, wait_for};
use super::*;
use hikyaku_testkit::store;

/// Visits of two edges that share a store. Nothing begins or ends for a minute after the first.
const LONG: &str = r#"
title = "Visits of two edges"
question = "Do the edges and their store survive a kill?"
backend = "link"
repeats = 1
timeout = "60s"

[link]
rate = "50Mbps"
one_way_delay = "5ms"

[workload]
kind = "fleet"
files = [{ name = "file.bin", size = "20kB" }]
pause = "60s"

[[arm]]
name = "h3"
http = "3"
fleet = { visits = ["a", "b"], keys = true, stores = "fleet" }
"#;

/// Returns the test's turn, if it can run.
fn turn(test: &str) -> Option<MutexGuard<'static, ()>> {
    let turn = alone(test)?;
    (!store::programs(test).is_empty()).then_some(turn)
}

/// The last edge's sources of knowledge in all sessions of an arm.
fn known_from<'a>(runs: &'a BTreeMap<String, Vec<Run>>, arm: &str) -> Vec<BTreeSet<&'a str>> {
    let sources = |run: &'a Run| {
        let all = run.label("known_from").unwrap_or_default();
        all.split(',').filter(|name| !name.is_empty()).collect()
    };
    runs[arm].iter().map(sources).collect()
}

#[test]
fn another_edge_knows_what_the_arm_lets_it_know() {
    let Some(_alone) = turn("another_edge_knows_what_the_arm_lets_it_know") else {
        return;
    };
    let arms = by_arm(quick("fleet-visit"));
    let cases: [(&str, &[&str], &[&str]); 8] = [
        // arm, sources that it must have, and sources that it can't have
        ("h3-b-carry", &["ticket"], &["pop", "fleet"]),
        ("h3-b-store", &["pop"], &["ticket"]),
        ("h3-b-both", &["pop", "ticket"], &[]),
        ("h3-b-cold", &[], &["pop", "fleet", "ticket"]),
        ("h3-c-return", &[], &["pop", "fleet"]),
        ("h3-c-both", &["ticket", "fleet"], &["pop"]),
        ("h2-a-return", &[], &["pop", "fleet"]),
        ("h2-b-carry", &["ticket"], &["pop", "fleet"]),
    ];
    for (arm, must, must_not) in cases {
        for known in known_from(&arms, arm) {
            let has = |source: &&str| known.contains(source);
            assert!(must.iter().all(has), "{arm}: {known:?}");
            assert!(!must_not.iter().any(has), "{arm}: {known:?}");
        }
        let run = &arms[arm][0];
        assert_eq!(run.label("http"), arm.get(1..2), "{run:?}");
        assert!(run.metric("first_visit_ms").is_some(), "{run:?}");
        let rtt = if arm.contains("-c-") { 45 } else { 25 };
        assert_eq!(run.link.rtt(), Duration::from_millis(rtt), "{run:?}");
    }
}

#[test]
fn a_fleet_serves_on_while_its_store_fails() {
    let Some(_alone) = turn("a_fleet_serves_on_while_its_store_fails") else {
        return;
    };
    // Each session is complete: `quick` sees to that.
    let arms = by_arm(quick("fleet-outage"));
    assert_eq!(arms.len(), 9);
    for (arm, known) in [
        ("h3-healthy", true),
        ("h3-restart", true),
        ("h3-restart-alone", false),
    ] {
        let measured = arms[arm].iter().zip(known_from(&arms, arm));
        for (run, sources) in measured.filter(|(run, _)| !run.warmup) {
            assert_eq!(sources.contains("pop"), known, "{run:?}");
        }
    }
}

#[test]
fn a_killed_fleet_is_removed_with_its_stores() {
    let Some(_alone) = turn("a_killed_fleet_is_removed_with_its_stores") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("long.toml");
    fs::write(&file, LONG).unwrap();
    let mut child = lab(&["run", file.to_str().unwrap(), "--out"])
        .arg(directory.path().join("out"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id();
    wait_for("three edges and a store", || {
        let names = namespaces(pid);
        let is_up = |node: &str| {
            names
                .iter()
                .any(|name| name.ends_with(node) && runs_in(name))
        };
        ["-store", "-edge-a", "-edge-b", "-edge-c"]
            .into_iter()
            .all(is_up)
    });
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    let removed = done(&["clean"]);
    for program in ["(hikyaku)", "-edge-c", "-store"] {
        assert!(removed.contains(program), "{program}: {removed}");
    }
    let is_store = ["(redis-server)", "(valkey-server)"].map(|name| removed.contains(name));
    assert!(is_store.contains(&true), "{removed}");
    assert_eq!(namespaces(pid), BTreeSet::new());
}

/// Whether a process runs in a namespace.
fn runs_in(namespace: &str) -> bool {
    let mut command = Command::new("ip");
    let output = command.args(["netns", "pids", namespace]).output().unwrap();
    !output.stdout.is_empty()
}
