//! `hikyaku lab run` on the test bed of several egress routes: the quick part of each experiment.
//! Needs root, gobgpd and `hikyaku-egress`. Without them the tests report a skip and pass.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use hikyaku_lab::experiment::{Axis, Outcome, Run, counted, read};
use tempfile::TempDir;

use hikyaku_testkit::{binary, skip};

/// Concurrent measurements would disturb each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Returns this test's turn; `None`, with a skip, if the test cannot run.
fn turn(test: &str) -> Option<MutexGuard<'static, ()>> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/hikyaku-egress");
    let on_path = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
    };
    let missing = if !rustix::process::geteuid().is_root() {
        "namespaces need root"
    } else if !on_path("gobgpd") {
        "`gobgpd` is not on PATH (scripts/setup.sh test)"
    } else if !built.is_file() {
        "build/hikyaku-egress is not there (scripts/egress.sh build)"
    } else {
        return Some(ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner));
    };
    skip(test, missing);
    None
}

/// Experiments that share a run and its test bed, whose daemons take long to start.
const TOGETHER: [&str; 5] = [
    "epe-scenario1",
    "epe-isps",
    "epe-sizes",
    "epe-parallel",
    "epe-pause",
];

/// The directory of the records of [`TOGETHER`]; the first test makes it.
static SHARED: OnceLock<TempDir> = OnceLock::new();

/// The sessions that count of an experiment's `[quick]` part.
fn quick(name: &str) -> Vec<Run> {
    if !TOGETHER.contains(&name) {
        return sessions(&measured(&[name]), name);
    }
    let shared = SHARED.get_or_init(|| measured(&TOGETHER));
    sessions(shared, name)
}

/// Runs the `[quick]` parts of experiments and makes their reports.
fn measured(names: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let lab = |arguments: &[&OsStr]| {
        let output = Command::new(binary())
            .arg("lab")
            .args(arguments)
            .current_dir(&directory)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
    };
    let mut run: Vec<&OsStr> = vec!["run".as_ref()];
    run.extend(names.iter().map(OsStr::new));
    // Each lane would have a test bed of its own.
    let options = ["--quick", "--lanes", "1"];
    run.extend(options.map(OsStr::new));
    lab(&run);
    for name in names {
        lab(&["report".as_ref(), records(&directory, name).as_ref()]);
    }
    directory
}

/// The directory in which an experiment of this name keeps its records.
fn records(directory: &TempDir, name: &str) -> PathBuf {
    directory.path().join("build/lab").join(name)
}

fn sessions(directory: &TempDir, name: &str) -> Vec<Run> {
    let runs = counted(read(&records(directory, name).join("runs.jsonl")).unwrap());
    for run in &runs {
        assert_eq!(run.outcome, Outcome::Complete, "{run:?}");
        assert!(run.emulator.unwrap().delivered > 0, "{run:?}");
    }
    runs
}

fn find<'a>(runs: &'a [Run], arm: &str, traffic: &str) -> &'a Run {
    let is_it =
        |run: &&Run| run.arm == arm && run.cell.get(Axis::Traffic).unwrap_or(traffic) == traffic;
    runs.iter().find(is_it).unwrap()
}

/// Megabits over a path.
fn sent(run: &Run, path: &str) -> f64 {
    run.metric(&format!("sent_megabits.{path}"))
        .unwrap_or_default()
}

#[test]
#[ignore = "long: make test-long"]
fn each_arm_takes_the_paths_that_it_names() {
    let Some(_turn) = turn("each_arm_takes_the_paths_that_it_names") else {
        return;
    };
    let runs = quick("epe-scenario1");
    for traffic in ["cbr", "bulk"] {
        let [tcp, steered, mptcp] =
            ["tcp", "steered", "mptcp"].map(|arm| find(&runs, arm, traffic));
        let b = |run| sent(run, "transit-b");
        assert!(sent(tcp, "best") > 1.0 && b(tcp) == 0.0, "{tcp:?}");
        // Bytes before the server's decision follow BGP.
        assert!(b(steered) > 10.0 * sent(steered, "best"), "{steered:?}");
        assert!(sent(mptcp, "best") > 1.0 && b(mptcp) > 1.0, "{mptcp:?}");
        // Two paths of 15 and 30 Mbit/s.
        let goodput = |run: &Run| run.metric("goodput_mbps").unwrap();
        assert!(goodput(tcp) < 15.0 && goodput(steered) > 15.0, "{traffic}");
        assert!(goodput(mptcp) > 15.0, "{traffic}");
        assert!(mptcp.series["path_mbps"].len() >= 2, "{mptcp:?}");
        assert_eq!(mptcp.other_links["link-b"].rate().unwrap().mbps(), 30.0);
    }
    let live = find(&runs, "mptcp", "cbr");
    assert!(
        live.metric("least_second_mbps")
            .is_some_and(|least| least > 15.0),
        "{live:?}"
    );
}

/// The class of content decides which subflows carry it.
#[test]
#[ignore = "long: make test-long"]
fn each_class_has_its_subflows() {
    let Some(_turn) = turn("each_class_has_its_subflows") else {
        return;
    };
    let runs = quick("epe-classes");
    let of = |pattern: &str, arm: &str, traffic: &str| {
        let its = |run: &&Run| run.cell.get(Axis::Pattern) == Some(pattern);
        let its: Vec<Run> = runs.iter().filter(its).cloned().collect();
        find(&its, arm, traffic).clone()
    };
    // The path by transit B is the short one.
    let [class, kernel] = ["class", "kernel"].map(|arm| of("far-best", arm, "interactive"));
    assert!(
        sent(&class, "transit-b") > 5.0 * sent(&class, "best"),
        "{class:?}"
    );
    assert!(
        sent(&kernel, "best") > sent(&kernel, "transit-b"),
        "{kernel:?}"
    );
    let median = |run: &Run| run.metric("response_p50_ms").unwrap();
    assert!(median(&class) < median(&kernel), "{class:?} {kernel:?}");
    for traffic in ["live", "bulk"] {
        let class = of("far-best", "class", traffic);
        let least = sent(&class, "best").min(sent(&class, "transit-b"));
        assert!(least > 1.0, "both carry data: {class:?}");
    }
    // A path that goes silent is left for the backup. The kernel alone takes 200 ms at least to notice,
    // and several times that before it uses a backup.
    let silent = of("dead-near", "lowest-rtt", "live");
    assert!(sent(&silent, "transit-b") > 1.0, "{silent:?}");
}

#[test]
fn links_change_in_mid_transfer() {
    let Some(_turn) = turn("links_change_in_mid_transfer") else {
        return;
    };
    let runs = quick("epe-scenario2");
    // The stream's best path carries 30 Mbit/s for 1.5 s, then 15.
    let plain = find(&runs, "tcp", "cbr");
    let goodput: Vec<f64> = plain.series["goodput_mbps"]
        .iter()
        .map(|(_, mbps)| *mbps)
        .collect();
    let most = goodput.iter().copied().fold(0.0, f64::max);
    let least = plain.metric("least_second_mbps").unwrap();
    assert!(most > 18.0 && least < 16.0, "{plain:?}");
}

#[test]
#[ignore = "long: make test-long"]
fn a_path_that_fails_in_mid_transfer_is_left() {
    let Some(_turn) = turn("a_path_that_fails_in_mid_transfer_is_left") else {
        return;
    };
    let runs = quick("epe-fail");
    let mut events = BTreeSet::new();
    for run in runs.iter().filter(|run| !run.warmup) {
        let event = run.cell.get(Axis::Pattern).unwrap();
        events.insert((event, run.arm.as_str()));
        // The stream ended over the other path. BGP's best route takes that, too, once the peer is
        // lost or its path is drained.
        let by_other = sent(run, "transit-b") > 1.0;
        let bgp_leaves = ["peer-down", "drain", "flap"].contains(&event);
        assert!(by_other || (bgp_leaves && run.arm != "mptcp"), "{run:?}");
        assert!(
            run.metric("longest_gap_ms").is_some_and(|gap| gap > 0.0),
            "{run:?}"
        );
        match event {
            "peer-down" => assert_eq!(run.metric("wrong_peer_bytes"), Some(0.0), "{run:?}"),
            "policy" | "policy-longer" => assert!(run.metric("moved_ms").is_some(), "{run:?}"),
            _ => {}
        }
    }
    // Three arms each, but fewer for policies, to which MPTCP is not subject.
    assert_eq!(events.len(), 6 * 3 - 2, "{events:?}");
}

/// BGP knows nothing of the border's death, and would keep its paths for 90 s at least.
#[test]
#[ignore = "long: make test-long"]
fn loads_go_on_when_a_border_dies() {
    let Some(_turn) = turn("loads_go_on_when_a_border_dies") else {
        return;
    };
    let runs = quick("epe-dead-border");
    let mut arms = BTreeSet::new();
    for run in &runs {
        let pattern = run.cell.get(Axis::Pattern).unwrap();
        arms.insert((pattern, run.arm.as_str()));
        let survivor = match pattern {
            "dead" => sent(run, "transit-b"),
            _ => sent(run, "transit-a") + sent(run, "best"),
        };
        assert!(survivor > 1.0, "{run:?}");
        assert!(run.metric("detected_ms").is_some(), "{run:?}");
    }
    assert_eq!(arms.len(), 4 + 3, "{arms:?}");
}

#[test]
#[ignore = "long: make test-long"]
fn clients_behind_unlike_paths_and_with_parallel_connections_are_measured() {
    let Some(_turn) = turn("clients_behind_unlike_paths") else {
        return;
    };
    let isps = quick("epe-isps");
    assert!(
        isps.iter()
            .all(|run| run.metric("goodput_mbps").unwrap() > 1.0)
    );
    let sizes: BTreeSet<u64> = quick("epe-sizes")
        .iter()
        .map(|run| run.metric("size_bytes").unwrap() as u64)
        .collect();
    assert_eq!(sizes, BTreeSet::from([300_000, 3_000_000]));
    let parallel = quick("epe-parallel");
    let connections = |run: &Run| run.metric("connections").unwrap() as u32;
    let mut plain: Vec<u32> = parallel
        .iter()
        .filter(|run| run.arm == "tcp")
        .map(connections)
        .collect();
    plain.sort_unstable();
    assert_eq!(plain, [1, 3]);
}

#[test]
#[ignore = "long: make test-long"]
fn links_that_pause_are_taken_again() {
    let Some(_turn) = turn("links_that_pause_are_taken_again") else {
        return;
    };
    for run in quick("epe-pause") {
        assert!(run.metric("longest_gap_ms").unwrap() > 50.0, "{run:?}");
        // A client that left it for ever would have two thirds from the other.
        let all = sent(&run, "best") + sent(&run, "transit-b");
        assert!(sent(&run, "best") > 0.6 * all, "{run:?}");
    }
}
