//! `hikyaku lab run` of the egress control plane's experiments: agents, daemons and routes without
//! clients. Needs root, `scripts/egress.sh build`, gobgpd and FRR. Without them the tests report a
//! skip and pass.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hikyaku_lab::experiment::{Outcome, Run, read};

use hikyaku_testkit::{binary, skip};

/// Concurrent daemons would delay each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Other programs that are measured, and their sources.
const NEEDED: [(&str, &str); 4] = [
    ("build/hikyaku-egress", "scripts/egress.sh build"),
    ("build/hikyaku-bgp-feed", "scripts/egress.sh build"),
    ("/usr/bin/gobgpd", "Debian's package gobgpd"),
    ("/usr/lib/frr/bgpd", "Debian's package frr"),
];

/// Returns the right to measure; `None`, with a skip, if the test cannot run.
fn alone(test: &str) -> Option<MutexGuard<'static, ()>> {
    if !rustix::process::geteuid().is_root() {
        skip(test, "network namespaces need root");
        return None;
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (program, from) in NEEDED {
        if !sources.join(program).exists() {
            skip(
                test,
                &format!("there is no {program}, which comes with {from}"),
            );
            return None;
        }
    }
    Some(ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Runs an experiment's `[quick]` part, makes its report, and returns its records.
#[track_caller]
fn quick(name: &str) -> Vec<Run> {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().to_str().unwrap();
    for arguments in [
        vec!["run", name, "--quick", "--out", path],
        vec!["report", path],
    ] {
        let output = Command::new(binary())
            .arg("lab")
            .args(&arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
    }
    let report: PathBuf = out.path().join("report.html");
    assert!(fs::read_to_string(report).unwrap().contains("<table"));
    let runs = read(&out.path().join("runs.jsonl")).unwrap();
    for run in &runs {
        assert_eq!(run.outcome, Outcome::Complete, "{name}: {run:?}");
        assert!(run.emulator.is_none(), "{name} has no emulated link");
    }
    runs
}

#[test]
fn routes_follow_the_client_isps_policy() {
    let Some(_alone) = alone("routes_follow_the_client_isps_policy") else {
        return;
    };
    let runs = quick("epe-scenario3");
    let arms: BTreeSet<&str> = runs.iter().map(|run| run.arm.as_str()).collect();
    assert_eq!(arms, ["FRR", "GoBGP"].into());
    assert_eq!(runs.len(), 6);
    for run in &runs {
        for change in ["add", "withdraw"] {
            let of = |what: &str| run.metric(&format!("{what}_{change}_ms")).unwrap();
            let (route, best) = (of("epe"), of("best"));
            assert!(route > 0.0 && best > 0.0, "{run:?}");
            let excess = run.metric(&format!("{change}_excess_ms")).unwrap();
            assert!((route - best - excess).abs() < 0.01, "{run:?}");
        }
    }
}

#[test]
fn no_packet_goes_to_a_peer_that_does_not_advertise_its_prefix() {
    let Some(_alone) = alone("no_packet_goes_to_a_peer_that_does_not_advertise_its_prefix") else {
        return;
    };
    for run in quick("epe-withdraw") {
        let of = |name: &str| run.metric(name).unwrap();
        assert!(
            of("changes") > 50.0 && of("packets_arrived") > 100.0,
            "{run:?}"
        );
        for name in [
            "wrong_peer",
            "wrong_after_server",
            "wrong_path",
            "routes_left",
        ] {
            assert!(of(name) == 0.0, "{name}: {run:?}");
        }
    }
}

#[test]
#[ignore = "long: make test-long"]
fn tables_are_loaded_lost_and_changed() {
    let Some(_alone) = alone("tables_are_loaded_lost_and_changed") else {
        return;
    };
    for run in quick("epe-scale") {
        let of = |name: &str| run.metric(name).unwrap();
        for name in [
            "load_ms",
            "border_memory_bytes",
            "server_memory_bytes",
            "left_ms",
        ] {
            assert!(of(name) > 0.0, "{name}: {run:?}");
        }
        assert!(of("last_packet_ms") <= of("server_cleared_ms"), "{run:?}");
        assert!(of("churn_updates") >= 400.0, "{run:?}");
    }
}
