//! `cargo xtask bench`, from the command line to the report.
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hikyaku_testkit::{binary, eventually, skip, this_test};
use serde_json::Value;
use tempfile::TempDir;

fn repository() -> PathBuf {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_root.ancestors().nth(2).unwrap().to_owned()
}

/// A directory on a disk, for what a measurement leaves.
fn directory() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A quick measurement in `directory`, with this build as its own predecessor.
fn quick(directory: &Path, rows: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["bench", "--quick", "--rows", rows, "--peers", "none"]);
    command.args([
        "--binary",
        binary(),
        "--before",
        &format!("same={}", binary()),
    ]);
    command.arg("--dir").arg(directory);
    command.arg("--out").arg(directory.join("edge.md"));
    command.current_dir(repository());
    command
}

/// Whether measurements can run here; prints a skip if they cannot.
fn ready() -> bool {
    let client = repository().join("build/peers/bench-client");
    let namespace = Command::new("unshare")
        .args(["--net", "--pid", "--fork", "true"])
        .status();
    let missing = match namespace {
        _ if !Path::new(binary()).exists() => "hikyaku is not built: cargo build -p hikyaku",
        _ if !client.exists() => "its client is not built: scripts/peers.sh client",
        Ok(status) if status.success() => return true,
        _ => "it needs root for a namespace",
    };
    skip(&this_test(), missing);
    false
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Processes whose command line names `directory`.
fn processes_of(directory: &Path) -> usize {
    let name = directory.to_str().unwrap();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).contains(name))
        .count()
}

#[test]
fn a_small_measurement_from_the_namespace_to_the_report() {
    if !ready() {
        return;
    }
    let directory = directory();
    let mtu = || fs::read("/sys/class/net/lo/mtu").unwrap();
    let before = mtu();
    let rows = "h3-32x4,tcp-resumed,quic-full,idle-h2,tail-h1";
    let output = quick(directory.path(), rows).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));

    assert_eq!(
        mtu(),
        before,
        "the machine's loopback is not the benchmark's"
    );
    assert!(!directory.path().join("work").exists());
    assert_eq!(processes_of(directory.path()), 0);
    let report = fs::read_to_string(directory.path().join("edge.md")).unwrap();
    for part in [
        "## Summary",
        "## Beside same",
        "## h3-32x4",
        "MTU 1500 bytes",
        "quic-go/v",
    ] {
        assert!(report.contains(part), "no {part} in {report}");
    }
    let lines = fs::read_to_string(directory.path().join("edge.jsonl")).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let runs: Vec<Value> = lines.filter(|line| line["type"] == "run").collect();
    assert_eq!(runs.len(), 2 * rows.split(',').count());
    for run in &runs {
        assert!(run["server_cpu_s"].as_f64().unwrap() > 0.0, "{run}");
        let bytes = 1024 * run["requests"].as_u64().unwrap();
        assert_eq!(run["body_bytes"], bytes, "{run}");
    }
    let idle = runs.iter().find(|run| run["row"] == "idle-h2").unwrap();
    assert!(idle["memory_bytes"].as_u64().unwrap() > 0, "{idle}");
}

#[test]
fn nothing_is_left_of_a_measurement_that_is_killed() {
    if !ready() {
        return;
    }
    let directory = directory();
    let mut command = quick(directory.path(), "h1-small");
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    // Its own process, the program in the namespace, and a server.
    eventually("a server", || {
        (processes_of(directory.path()) > 2).then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the end of all", || {
        (processes_of(directory.path()) == 0).then_some(())
    });
    // The next one removes its files, and is not kept waiting.
    let output = quick(directory.path(), "tcp-full").output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(!directory.path().join("work").exists());
}

#[test]
fn faults_of_the_command_line_are_explained() {
    if !Path::new(binary()).exists() {
        return skip(&this_test(), "hikyaku is not built: cargo build -p hikyaku");
    }
    let before = format!("hikyaku={}", binary());
    let cases: &[(&[&str], &str)] = &[
        (&["--rows", "h4"], "no row is called `h4`"),
        (&["--short"], "--before"),
        (&["--server-cpu", "1"], "need a CPU each"),
        (&["--before", &before], "two builds are called `hikyaku`"),
        (&["--before", "x="], "NAME=FILE"),
        (&["--before", "/no/such"], "finding /no/such"),
        (&["--peers", "apache"], "invalid value 'apache'"),
        (&["--rounds", "0"], "--rounds"),
        (
            &["--peers", "nginx"],
            "nginx is missing: install it by `bash scripts/setup.sh bench`",
        ),
        (&["--peers", "none"], "bench-client is missing"),
    ];
    // Nothing is built or installed there.
    let empty = directory();
    for (arguments, want) in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["bench", "--binary", binary()])
            .args(*arguments)
            .current_dir(empty.path())
            .output()
            .unwrap();
        let said = said(&output);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(said.contains(want), "{arguments:?}: {said}");
    }
}
