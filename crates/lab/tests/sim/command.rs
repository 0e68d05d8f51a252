//! `hikyaku lab sim`.

use std::path::Path;

use hikyaku_lab::experiment::{self, Outcome, Run};
use hikyaku_lab::sim::{SimArgs, run};

const EXPERIMENT: &str = r#"
title = "Test"
question = "Does it run?"
backend = "simulation"
repeats = 2
timeout = "10s"

[link]
rate = "50Mbps"
one_way_delay = "20ms"

[axes]
loss = ["0%", "1%"]

[workload]
files = [{ name = "file.bin", size = "300kB" }]
series = true

[[arm]]
name = "plain"

[[arm]]
name = "floor"
set = { "policy.min_cwnd" = "100xMSS" }
"#;

fn args(experiment: &str, out: &Path) -> SimArgs {
    SimArgs {
        experiments: vec![experiment.to_owned()],
        quick: false,
        seed: None,
        out: Some(out.to_owned()),
        repeats: None,
        only: Vec::new(),
        arms: Vec::new(),
        cross_check: false,
        threads: None,
    }
}

/// Runs an experiment of this text. Returns the output, or the error.
fn sim(text: &str, out: &Path, change: impl FnOnce(&mut SimArgs)) -> Result<String, String> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("test.toml");
    std::fs::write(&file, text).unwrap();
    let mut args = args(file.to_str().unwrap(), out);
    change(&mut args);
    let mut output = Vec::new();
    match run(&args, &mut output) {
        Ok(status) => {
            assert_eq!(status, 0);
            Ok(String::from_utf8(output).unwrap())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the records, without the fields that may differ between two measurements.
fn records(out: &Path) -> Vec<Run> {
    let mut runs = experiment::read(&out.join("runs.jsonl")).unwrap();
    for run in &mut runs {
        run.began.clear();
        // The path of a temporary file.
        run.conditions.arguments.clear();
    }
    runs.sort_by_key(|run| (run.cell.clone(), run.arm.clone(), run.repeat));
    runs
}

#[test]
fn records_repeat_bit_for_bit_and_are_not_made_twice() {
    let [one, other] = [(), ()].map(|()| tempfile::tempdir().unwrap());
    let output = sim(EXPERIMENT, one.path(), |_| {}).unwrap();
    assert!(output.contains("8 of 8 sessions to go"), "{output}");
    sim(EXPERIMENT, other.path(), |args| {
        args.threads = 1.try_into().ok();
    })
    .unwrap();
    let runs = records(one.path());
    assert_eq!(runs, records(other.path()));
    assert_eq!(runs.len(), 8);
    assert!(runs.iter().all(|run| run.outcome == Outcome::Complete));
    assert!(runs.iter().all(|run| run.series["cwnd_bytes"].len() > 1));
    assert_eq!(runs[0].metric("size_bytes"), Some(300_000.0));
    // Both arms meet the same losses.
    assert_eq!(runs[0].seed, runs[2].seed);

    let output = sim(EXPERIMENT, one.path(), |_| {}).unwrap();
    assert!(output.contains("0 of 8 sessions to go"), "{output}");
    assert_eq!(records(one.path()), runs);
}

#[test]
fn a_failure_repeats_and_is_not_tried_again() {
    let out = tempfile::tempdir().unwrap();
    sim(EXPERIMENT, out.path(), |_| {}).unwrap();
    let path = out.path().join("runs.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let failed = "\"outcome\":\"failed\"";
    let text = text.replacen("\"outcome\":\"complete\"", failed, 1);
    std::fs::write(&path, text).unwrap();
    let output = sim_with_failures(EXPERIMENT, out.path());
    assert!(output.contains("0 of 8 sessions to go"), "{output}");
}

/// Runs an experiment as [`sim`] does, but sessions fail.
fn sim_with_failures(text: &str, out: &Path) -> String {
    let file = out.join("test.toml");
    std::fs::write(&file, text).unwrap();
    let mut output = Vec::new();
    let status = run(&args(file.to_str().unwrap(), out), &mut output).unwrap();
    assert_eq!(status, 1);
    String::from_utf8(output).unwrap()
}

#[test]
fn a_session_that_takes_too_long_is_a_record() {
    let out = tempfile::tempdir().unwrap();
    let text = EXPERIMENT.replace("300kB", "100MB");
    sim(&text, out.path(), |args| {
        args.arms = vec!["plain".to_owned()];
        args.only = vec!["loss=1%".to_owned()];
        args.repeats = Some(1);
    })
    .unwrap();
    let [run] = &records(out.path())[..] else {
        panic!("one record");
    };
    assert_eq!(run.outcome, Outcome::TimedOut);
    assert_eq!(run.metric("load_ms"), Some(10_000.0));
    assert_eq!(run.label("censored"), Some("true"));
    assert!(run.metric("response_ms").unwrap() > 10_000.0);
}

#[test]
fn flows_are_distinguished() {
    let out = tempfile::tempdir().unwrap();
    let text = EXPERIMENT
        .split("[workload]")
        .next()
        .unwrap()
        .replace("loss = [\"0%\", \"1%\"]", "queue = [\"1bdp\"]")
        + r#"
[workload]
kind = "flows"
duration = "5s"
stagger = "500ms"

[[arm]]
name = "three"
flows = [
    { name = "cubic", transport = "quic", congestion = "cubic", count = 2 },
    { name = "bbr", transport = "quic", congestion = "bbr" },
]
"#;
    sim(&text, out.path(), |_| {}).unwrap();
    for run in records(out.path()) {
        let metric = |name| run.metric(name).unwrap();
        assert!(metric("utilisation") > 0.7);
        assert!(metric("queue_delay_p50_ms") <= metric("queue_delay_p95_ms"));
        assert!(run.series.is_empty());
        let broken = metric("broken_flows") > 0.0;
        assert_eq!(broken, run.label("broken").is_some());
        assert_eq!(
            run.label("flows"),
            Some(if broken { "broke" } else { "lasted" })
        );
        assert_eq!(broken, run.metric("jain").is_none());
        if broken {
            continue;
        }
        let shares = ["share.cubic-1", "share.cubic-2", "share.bbr"].map(metric);
        let sum: f64 = shares.iter().sum();
        assert!((sum - 1.0).abs() < 1e-5, "{shares:?}");
        assert!((1.0 / 3.0..=1.0).contains(&metric("jain")));
    }
}

#[test]
fn impossible_simulations_are_reported() {
    let tcp = r#"[[arm]]
name = "tcp"
flows = [{ name = "one", transport = "tcp", congestion = "cubic" }]
"#;
    let flows = |arm: &str| {
        let head = EXPERIMENT.split("[workload]").next().unwrap();
        format!("{head}[workload]\nkind = \"flows\"\nduration = \"1s\"\n{arm}")
    };
    let replaced = |from, to: &str| EXPERIMENT.replace(from, to);
    let key = "\"policy.min_cwnd\" = \"100xMSS\"";
    let cases = [
        (
            "links",
            replaced("\"simulation\"", "\"link\""),
            "`hikyaku lab run`",
        ),
        ("TCP flow", flows(tcp), "flow `one` is TCP"),
        (
            "HTTP/2",
            replaced("name = \"plain\"", "name = \"plain\"\nhttp = \"2\""),
            "arm `plain`: only HTTP/3",
        ),
        (
            "unknown key",
            replaced(key, "\"limits.streams\" = \"9\""),
            "nothing of `limits.streams`",
        ),
        (
            "unknown algorithm",
            replaced(key, "\"policy.congestion\" = \"reno\""),
            "`reno` is no congestion control",
        ),
        (
            "impossible floor",
            replaced("100xMSS", "1GiB"),
            "more than the 12582912",
        ),
        (
            "wrong floor",
            replaced("100xMSS", "many"),
            "no minimum congestion",
        ),
        (
            "peer",
            replaced("name = \"plain\"", "name = \"plain\"\nserver = \"nginx\""),
            "other programs",
        ),
    ];
    let out = tempfile::tempdir().unwrap();
    for (case, text, why) in cases {
        let error = sim(&text, out.path(), |_| {}).unwrap_err();
        assert!(error.contains(why), "{case}: {error}");
    }
    let error = sim(EXPERIMENT, out.path(), |args| {
        args.arms = vec!["x".to_owned()];
    });
    assert!(error.unwrap_err().contains("no arm `x`"));
    let error = sim(EXPERIMENT, out.path(), |args| {
        args.only = vec!["loss=7%".to_owned()];
    });
    assert!(error.unwrap_err().contains("--only loss=7%"));
}

#[test]
fn downloads_over_links_are_simulated_for_comparison() {
    let out = tempfile::tempdir().unwrap();
    let text = EXPERIMENT
        .replace("\"simulation\"", "\"link\"")
        .replace("name = \"plain\"", "name = \"plain\"\nhttp = \"2\"")
        .replace("name = \"floor\"", "name = \"floor\"\nhttp = \"3\"");
    let output = sim(&text, out.path(), |args| args.cross_check = true).unwrap();
    assert!(
        output.contains("arm `plain` left out: only HTTP/3"),
        "{output}"
    );
    let runs = records(out.path());
    assert_eq!(runs.len(), 4);
    assert!(runs.iter().all(|run| run.arm == "floor"));
}
