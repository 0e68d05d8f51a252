//! `hikyaku lab run` and `list`: the shipped binary measures itself. Most tests need root. Without
//! it they report a skip and pass.
#![allow(clippy::unwrap_used, reason = "tests")]

mod fleet;
mod interrupted;
mod messages;
mod peers;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_lab::experiment::{Outcome, Run, read};
use rustix::process::{Pid, Signal, kill_process};

use hikyaku_testkit::{binary, skip, skip_part};

/// Concurrent measurements would disturb each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone(test: &str) -> Option<MutexGuard<'static, ()>> {
    if !rustix::process::geteuid().is_root() {
        skip(test, "emulated links need root");
        return None;
    }
    Some(ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner))
}

fn lab(arguments: &[&str]) -> Command {
    // The tests may run under nohup, where the signal is ignored.
    let mut command = Command::new("env");
    command
        .args(["--default-signal=HUP", binary(), "lab"])
        .args(arguments);
    command
}

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&all).into_owned()
}

/// Runs a command that must succeed, and returns its output.
#[track_caller]
fn done(arguments: &[&str]) -> String {
    let output = lab(arguments).output().unwrap();
    let said = text(&output);
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

/// Runs an experiment's `[quick]` part, makes its report, and returns its records.
fn quick(name: &str) -> Vec<Run> {
    let out = tempfile::tempdir().unwrap();
    quick_into(name, out.path())
}

fn quick_into(name: &str, out: &Path) -> Vec<Run> {
    let path = out.to_str().unwrap();
    done(&["run", name, "--quick", "--out", path]);
    done(&["report", path]);
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("<svg") || page.contains("<table"), "{name}");
    let runs = read(&out.join("runs.jsonl")).unwrap();
    let copy = fs::read_to_string(out.join("experiment.toml")).unwrap();
    assert!(copy.contains("title = "), "{name}");
    for run in &runs {
        assert_eq!(run.outcome, Outcome::Complete, "{name}: {run:?}");
        assert!(run.metric("load_ms").unwrap() > 0.0, "{name}: {run:?}");
        assert!(run.conditions.quick && !run.conditions.binary_sha256.is_empty());
        assert!(run.emulator.unwrap().delivered > 0, "{name}: {run:?}");
    }
    runs
}

/// Records of attempts that count, by arm.
fn by_arm(runs: Vec<Run>) -> BTreeMap<String, Vec<Run>> {
    let mut arms: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    for run in hikyaku_lab::experiment::counted(runs) {
        arms.entry(run.arm.clone()).or_default().push(run);
    }
    arms
}

/// An experiment of a few seconds.
const SLOW: &str = r#"
title = "Slow downloads"
question = "Do they survive a kill?"
backend = "link"
repeats = 12
timeout = "30s"

[link]
rate = "4Mbps"
one_way_delay = "5ms"

[workload]
files = [{ name = "file.bin", size = "200kB" }]

[[arm]]
name = "h2"
set = { "policy.version" = "h2" }
http = "2"
"#;

#[test]
fn fixed_arms_use_their_version_and_pay_for_the_link() {
    let Some(_alone) = alone("fixed_arms_use_their_version_and_pay_for_the_link") else {
        return;
    };
    let arms = by_arm(quick("version-sweep"));
    assert_eq!(arms.len(), 2);
    for (arm, runs) in arms {
        assert_eq!(runs.len(), 8, "{arm}");
        for run in runs {
            assert_eq!(run.label("http"), arm.strip_prefix('h'), "{run:?}");
            // Handshake and request: two round trips at least.
            let min_load = 2.0 * run.link.rtt().as_secs_f64() * 1e3;
            assert!(run.metric("load_ms").unwrap() > min_load, "{run:?}");
            let measured = run.metric("server_min_rtt_ms");
            let measured = measured.unwrap_or_else(|| panic!("no RTT: {run:?}"));
            // quinn takes the time before it reads a packet. If it waits for a CPU in between, the
            // packet seems to arrive before it was sent.
            let rtt = min_load / 2.0;
            assert!((0.9 * rtt..rtt + 50.0).contains(&measured), "{run:?}");
        }
    }
}

#[test]
fn an_adaptive_arm_has_warm_up_sessions_and_reports_its_reasons() {
    let Some(_alone) = alone("an_adaptive_arm_has_warm_up_sessions_and_reports_its_reasons") else {
        return;
    };
    let arms = by_arm(quick("version-eval"));
    for arm in ["adaptive", "adaptive-race", "adaptive-returning"] {
        let warmup: Vec<bool> = arms[arm].iter().map(|run| run.warmup).collect();
        assert_eq!(warmup, [true, false, false], "{arm}");
        for run in &arms[arm] {
            assert!(
                run.label("reason").is_some_and(|reason| reason != "pinned"),
                "{run:?}"
            );
            assert!(run.label("decision").is_some(), "{run:?}");
        }
    }
    // A new client waits for HTTP/3; one that returns begins with it.
    assert_eq!(arms["adaptive"][0].label("http_first"), Some("2"));
    assert_eq!(arms["adaptive"][0].label("http"), Some("3"));
    assert_eq!(arms["adaptive-returning"][1].label("http_first"), Some("3"));
    assert!(
        arms["h2"]
            .iter()
            .all(|run| !run.warmup && run.label("reason").is_none())
    );
}

#[test]
fn the_link_changes_between_and_within_sessions() {
    let Some(_alone) = alone("the_link_changes_between_and_within_sessions") else {
        return;
    };
    for (arm, runs) in by_arm(quick("version-switch")) {
        let losses: BTreeMap<u32, u32> = runs
            .iter()
            .map(|run| (run.session, run.link.loss().ppm()))
            .collect();
        let want = [0, 0, 50_000, 50_000, 50_000, 0];
        assert_eq!(losses.into_values().collect::<Vec<_>>(), want, "{arm}");
        let lost = |session: u32| {
            let run = runs.iter().find(|run| run.session == session).unwrap();
            run.emulator.unwrap().lost
        };
        assert!(lost(1) == 0 && lost(3) > 0 && lost(5) == 0, "{arm}");
    }
}

#[test]
fn udp_can_be_taken_away() {
    let Some(_alone) = alone("udp_can_be_taken_away") else {
        return;
    };
    let arms = by_arm(quick("udp-blackhole"));
    for runs in arms.values() {
        assert!(
            runs.iter().all(|run| run.label("http") == Some("2")),
            "{runs:?}"
        );
    }
    // A client that waits for HTTP/3 pays for that.
    let waited = arms["adaptive-waiting"][0].metric("load_ms").unwrap();
    assert!(waited > 1_000.0, "{waited}");
    assert_eq!(
        arms["adaptive-waiting"].last().unwrap().label("decision"),
        Some("h2")
    );
}

#[test]
fn pages_come_over_the_connections_of_their_arm() {
    let Some(_alone) = alone("pages_come_over_the_connections_of_their_arm") else {
        return;
    };
    let arms = by_arm(quick("conns-loss"));
    for (arm, http) in [("h1-6", "1.1"), ("h2-1", "2"), ("h3-1", "3")] {
        let run = &arms[arm][0];
        assert_eq!(run.label("http"), Some(http), "{run:?}");
        // 12 images of 100 kB.
        let bytes = run.metric("goodput_mbps").unwrap() * run.metric("load_ms").unwrap() / 8e-3;
        assert!((1.2e6..1.21e6).contains(&bytes), "{arm}: {bytes}");
    }
}

#[test]
#[ignore = "long: make test-long"]
fn pages_are_spread_over_the_shards_of_their_arm() {
    let Some(_alone) = alone("pages_are_spread_over_the_shards_of_their_arm") else {
        return;
    };
    let arms = by_arm(quick("conns-shards"));
    for (arm, connections) in [("h2-1", 1.0), ("pinned-3", 3.0)] {
        let run = &arms[arm][0];
        assert_eq!(run.metric("connections"), Some(connections), "{run:?}");
        let bytes = run.metric("goodput_mbps").unwrap() * run.metric("load_ms").unwrap() / 8e-3;
        assert!((1.2e6..1.21e6).contains(&bytes), "{arm}: {bytes}");
    }
    let decision = arms["adaptive"][0].label("connections_decision");
    assert!(decision.is_some(), "{:?}", arms["adaptive"]);
}

#[test]
fn flows_share_the_bottleneck() {
    let Some(_alone) = alone("flows_share_the_bottleneck") else {
        return;
    };
    for (arm, runs) in by_arm(quick("fairness")) {
        let run = &runs[0];
        let metric = |name: &str| {
            run.metric(name)
                .unwrap_or_else(|| panic!("{arm}: no {name}"))
        };
        let (ours, other) = (metric("goodput_mbps.ours"), metric("goodput_mbps.other"));
        assert!(ours > 0.0 && other > 0.0, "{arm}");
        // 50 Mbit/s, from which each packet loses 14 B.
        let utilisation = metric("utilisation");
        assert!((0.5..=1.0).contains(&utilisation), "{arm}: {utilisation}");
        assert!((0.5..=1.0).contains(&metric("jain")), "{arm}");
        // One BDP is 40 ms.
        assert!(metric("queue_delay_p95_ms") < 45.0, "{arm}");
        assert!(run.series["goodput_mbps.ours"].len() > 20, "{arm}");
    }
}

#[test]
#[ignore = "long: make test-long"]
fn visits_of_a_crowd_are_timed_and_the_server_is_asked_for_its_gain() {
    let name = "visits_of_a_crowd_are_timed_and_the_server_is_asked_for_its_gain";
    let Some(_alone) = alone(name) else {
        return;
    };
    let arms = by_arm(quick("gain"));
    for arm in ["assigned", "hikyaku", "plain"] {
        let [run] = &arms[arm][..] else {
            panic!("{:?}", arms[arm]);
        };
        let loads: BTreeMap<&str, f64> = run
            .metrics
            .iter()
            .filter_map(|(key, ms)| Some((key.strip_prefix("load_ms.")?, *ms)))
            .collect();
        assert_eq!(loads.len(), 8, "{run:?}");
        // A client of 2 Mbit/s needs 120 ms for 30 kB, and a handshake before.
        assert!(loads["dsl-auto-1"] > 150.0, "{loads:?}");
        // A client that is 250 ms away needs three round trips more.
        assert!(loads["far-auto-1"] > loads["dsl-auto-1"], "{loads:?}");
        // Eight clients are too few to report a gain.
        assert_eq!(run.metric("gain_ratio"), None, "{run:?}");
    }
}

#[test]
#[ignore = "long: make test-long"]
fn every_client_of_a_crowd_is_measured_beside_itself_alone() {
    let Some(_alone) = alone("every_client_of_a_crowd_is_measured_beside_itself_alone") else {
        return;
    };
    let arms = by_arm(quick("crowd"));
    let goodputs = |run: &Run| -> BTreeMap<String, f64> {
        let own = run.metrics.iter();
        own.filter_map(|(key, mbps)| Some((key.strip_prefix("goodput_mbps.")?.to_owned(), *mbps)))
            .collect()
    };
    let [run] = &arms["crowd"][..] else {
        panic!("{:?}", arms["crowd"]);
    };
    let crowd = goodputs(run);
    let names = [
        "dsl-h2-1",
        "dsl-h3-1",
        "far-h2-1",
        "far-h3-1",
        "mobile-h2-1",
        "mobile-h3-1",
    ];
    assert_eq!(crowd.keys().collect::<Vec<_>>(), names);
    // No client gets more than its own link carries, apart from late data of before; all together
    // get most of it. (One may get little in so short a time: a file takes the slowest link
    // longer.)
    let mut links = 0.0;
    for (name, mbps) in &crowd {
        let rate = match name.split('-').next() {
            Some("dsl") => 0.3,
            Some("mobile") => 0.2,
            _ => 0.15,
        };
        links += rate;
        assert!((0.01 * rate..1.5 * rate).contains(mbps), "{name}: {mbps}");
    }
    assert!(run.metric("goodput_mbps").unwrap() > 0.6 * links, "{run:?}");
    assert!(run.metric("server_cpu_percent").unwrap() > 0.0, "{run:?}");
    // Each of the four links with both versions, in its own session.
    let alone: BTreeSet<String> = arms["alone"]
        .iter()
        .flat_map(|run| goodputs(run).into_keys())
        .collect();
    assert_eq!((arms["alone"].len(), alone.len()), (8, 8));
    assert!(alone.contains("wifi-h3"), "{alone:?}");
}

#[test]
fn a_floor_is_set_on_real_connections() {
    let Some(_alone) = alone("a_floor_is_set_on_real_connections") else {
        return;
    };
    let runs = quick("floor-link");
    let goodput = |floor: &str| {
        let of = |run: &&Run| run.cell.to_string().contains(floor);
        let runs: Vec<&Run> = runs.iter().filter(of).collect();
        assert!(!runs.is_empty(), "{floor}");
        let sum: f64 = runs
            .iter()
            .filter_map(|run| run.metric("goodput_mbps"))
            .sum();
        sum / runs.len() as f64
    };
    // FLOOR figure 7: about ten times at 1 %, for long downloads; these are short.
    let gain = goodput("256xMSS") / goodput("off");
    assert!(gain > 1.0, "{gain}");
}

#[test]
#[ignore = "long: make test-long"]
fn the_choice_is_held_against_every_fixed_arm() {
    let Some(_alone) = alone("the_choice_is_held_against_every_fixed_arm") else {
        return;
    };
    let arms = by_arm(quick("regret"));
    let names = ["adaptive", "h2-cubic", "h3-cubic"];
    assert_eq!(arms.keys().collect::<Vec<_>>(), names);
    let cells = |arm: &str| -> BTreeSet<String> {
        arms[arm].iter().map(|run| run.cell.to_string()).collect()
    };
    assert_eq!(cells("adaptive").len(), 2);
    assert!(names.iter().all(|arm| cells(arm) == cells("adaptive")));
}

#[test]
#[ignore = "long: make test-long"]
fn measurements_become_a_model() {
    let Some(_alone) = alone("measurements_become_a_model") else {
        return;
    };
    let out = tempfile::tempdir().unwrap();
    quick_into("model", out.path());
    let model = out.path().join("model.json");
    let [data, model] = [out.path(), &model].map(|path| path.to_str().unwrap());
    let said = done(&["fit", data, "-o", model]);
    assert!(said.contains("96 responses over 8 paths"), "{said}");
    let said = done(&["fit", data, "--check-only", model]);
    assert!(said.contains("cubic, one size"), "{said}");
}
