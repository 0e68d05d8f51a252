//! `hikyaku lab sim` through the shipped binary: without privileges, and against real
//! programs over emulated links (root).
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use hikyaku_lab::experiment::{Outcome, counted, read};

use hikyaku_testkit::{binary, hikyaku, skip};

/// Repeats of each cell; both sides have the same seeds.
const REPEATS: &str = "9";
/// The largest difference of load times, in the median over the repeats. The difference is the time
/// of processes, sockets and threads, most of all in a debug build.
const LIMIT: f64 = 0.2;

#[test]
fn simulation_agrees_with_real_programs() {
    if !rustix::process::geteuid().is_root() {
        skip(
            "simulation_agrees_with_real_programs",
            "emulated links need root",
        );
        return;
    }
    // A busy machine slows real programs down in all repeats of a cell for a while. So two of three
    // must agree.
    let (mut agreed, mut differ) = (0, Vec::new());
    while agreed < 2 {
        let differences = differences();
        assert_eq!(differences.len(), 5);
        if differences
            .values()
            .all(|difference| difference.abs() <= LIMIT)
        {
            agreed += 1;
            continue;
        }
        let line = |(cell, difference)| format!("{cell}: {:+.1} %\n", difference * 100.0);
        differ.push(differences.iter().map(line).collect::<String>());
        assert!(
            differ.len() < 2,
            "simulation against links:\n{}",
            differ.join("\n")
        );
    }
}

/// The differences of simulated load times from those of real programs, in each cell.
fn differences() -> BTreeMap<String, f64> {
    let [links, simulated] = [(), ()].map(|()| tempfile::tempdir().unwrap());
    let experiment = |command: &[&str], out: &Path| {
        // Runs ahead of the machine's other work; the fast cells run one after another.
        let output = Command::new("nice")
            .args(["-n", "-15", binary(), "lab"])
            .args(command)
            .args(["cross-check", "--repeats", REPEATS, "--out"])
            .arg(out)
            .output();
        succeeded(&output.unwrap());
    };
    experiment(&["run", "--capacity", "150"], links.path());
    experiment(&["sim", "--cross-check"], simulated.path());

    let (links, simulated) = (load_times(links.path()), load_times(simulated.path()));
    let median = |(cell, times): (String, Vec<f64>)| {
        let pairs = times.iter().zip(&simulated[&cell]);
        let mut differences: Vec<f64> = pairs.map(|(link, sim)| sim / link - 1.0).collect();
        differences.sort_by(f64::total_cmp);
        (cell, differences[differences.len() / 2])
    };
    links.into_iter().map(median).collect()
}

#[test]
fn shipped_simulations_run_without_privileges() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(binary());
    let out = dir.path().join("out");
    command.args(["lab", "sim", "floor-min", "--quick", "--out"]);
    command.arg(&out);
    if rustix::process::geteuid().is_root() {
        // All privileges of a root process are dropped.
        let without = Command::new("setpriv")
            .args(["--bounding-set=-all", "--inh-caps=-all", binary()])
            .args(command.get_args())
            .output();
        succeeded(&without.unwrap());
    } else {
        succeeded(&command.output().unwrap());
    }
    let runs = read(&out.join("runs.jsonl")).unwrap();
    assert_eq!(runs.len(), 6);
    assert!(runs.iter().all(|run| run.outcome == Outcome::Complete));
    let goodput = |arm: &str| {
        let mut runs = runs.iter().filter(|run| run.arm == arm);
        let lossy = runs.find(|run| run.cell.to_string() == "loss 1%").unwrap();
        lossy.metric("goodput_mbps").unwrap()
    };
    // FLOOR figure 7: about ten times.
    let gain = goodput("256xMSS") / goodput("default");
    assert!(gain > 3.0, "{gain}");
}

#[test]
fn faults_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let out = ["--out", dir.path().to_str().unwrap()];
    for (args, why) in [
        (&["version-eval"][..], "run it by `hikyaku lab run`"),
        (&["nothing"], "there is no experiment `nothing`"),
        (&["floor-min", "--only", "loss=3%"], "no such cell"),
        (&["floor-min", "--arms", "h2"], "has no arm `h2`"),
    ] {
        let output = hikyaku(&[&["lab", "sim"], args, &out].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(
            said.starts_with("error: ") && said.contains(why),
            "{args:?}: {said}"
        );
    }
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 0, "nothing is written for what cannot be simulated");
}

/// The load times of each cell in ms, in the order of repeats.
fn load_times(out: &Path) -> BTreeMap<String, Vec<f64>> {
    let mut runs = counted(read(&out.join("runs.jsonl")).unwrap());
    runs.sort_by_key(|run| run.repeat);
    let mut times: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in runs {
        assert_eq!(run.outcome, Outcome::Complete, "{:?}", run.error);
        let time = run.metric("load_ms").unwrap();
        times.entry(run.cell.to_string()).or_default().push(time);
    }
    times
}

#[track_caller]
fn succeeded(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
}
