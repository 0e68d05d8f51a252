//! Reports on experiments of a synthetic world, from directory to page.
#![allow(clippy::unwrap_used)]

mod html;
mod synthetic;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use hikyaku_lab::experiment::{Outcome, Run};
use hikyaku_lab::report::{self, ReportArgs};

const EXPERIMENTS: [(&str, &str); 5] = [
    ("sweep", include_str!("sweep.toml")),
    ("eval", include_str!("eval.toml")),
    ("floor", include_str!("floor.toml")),
    ("fairness", include_str!("fairness.toml")),
    ("switch", include_str!("switch.toml")),
];

/// Two fixed arms and an adaptive one, ten sessions each.
const SMALL: &str = r#"
title = "Small enough to be checked by hand"
question = "Is it computed right?"
backend = "link"
repeats = 10
timeout = "2s"

[link]
rate = "12112kbps"

[axes]
loss = ["0%", "1%"]

[workload]
files = [{ name = "file", size = "1448000B" }]

[[arm]]
name = "h2"
[[arm]]
name = "h3"
[[arm]]
name = "adaptive"

[[figure]]
kind = "choice"
title = "Choice"
adaptive = ["adaptive"]
goal = { excess_worst = "<= 10%", right_share = ">= 95%" }
paper_values = [
  { cell = { loss = "0%" }, arm = "h2", value = 1000 },
  { cell = { loss = "0%" }, arm = "h3", value = 1100 },
  { cell = { loss = "0%" }, arm = "adaptive", value = 1050, share = 12.5 },
]

[[figure]]
kind = "regret"
title = "Regret"
adaptive = ["adaptive"]
goal = { regret_mean = "<= 8%", saving_least = ">= 10%" }

[[figure]]
kind = "cdf"
title = "Times"

[quick]
"#;

fn args(dirs: &[PathBuf]) -> ReportArgs {
    ReportArgs {
        dirs: dirs.to_vec(),
        output: None,
        figures: None,
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// Returns records of [`SMALL`] with load times by arm, cell and repeat, in ms.
fn small(load: impl Fn(&str, &str, u32) -> f64) -> Vec<Run> {
    let mut runs = synthetic::runs("small", SMALL);
    for run in &mut runs {
        let cell = run.cell.to_string();
        let ms = load(&run.arm, &cell, run.repeat);
        run.outcome = if ms < 2000.0 {
            Outcome::Complete
        } else {
            Outcome::TimedOut
        };
        run.metrics.insert("load_ms".to_owned(), ms.min(2000.0));
        let http = if run.arm == "h2" || run.repeat < 2 {
            "2"
        } else {
            "3"
        };
        run.labels.insert("http".to_owned(), http.to_owned());
    }
    runs
}

/// Returns the report on records, as HTML and Markdown.
fn report(experiment: &str, runs: &[Run]) -> (html::Page, String) {
    let dir = tempfile::tempdir().unwrap();
    synthetic::save(dir.path(), experiment, runs);
    report::run(&args(&[dir.path().to_owned()]), &mut vec![]).unwrap();
    let page = html::check(&text(&dir.path().join("report.html")));
    (page, text(&dir.path().join("report.md")))
}

/// Returns the line of a table that begins with these cells, without its bars.
fn row(markdown: &str, begin: &str) -> Vec<String> {
    let found = markdown
        .lines()
        .find(|line| line.starts_with(&format!("| {begin} |")));
    let line = found.unwrap_or_else(|| panic!("no row `{begin}` in\n{markdown}"));
    line.trim_matches('|')
        .split('|')
        .map(|cell| cell.trim().to_owned())
        .collect()
}

#[test]
fn every_kind_of_figure_is_drawn_and_needs_nothing_else() {
    // Kept below the directory that `REPORT_OUT` names, for a look at it.
    let temporary = tempfile::tempdir().unwrap();
    let place = std::env::var_os("REPORT_OUT").map_or(temporary.path().to_owned(), PathBuf::from);
    let dirs: Vec<PathBuf> = EXPERIMENTS
        .iter()
        .map(|(name, _)| place.join(name))
        .collect();
    for ((name, text), dir) in EXPERIMENTS.iter().zip(&dirs) {
        synthetic::save(dir, text, &synthetic::runs(name, text));
    }
    let mut out = vec![];
    assert_eq!(report::run(&args(&dirs), &mut out).unwrap(), 0);
    let charts = [7, 6, 5, 3, 2];
    for ((dir, charts), (name, spec)) in dirs.iter().zip(charts).zip(EXPERIMENTS) {
        let page = html::check(&text(&dir.join("report.html")));
        assert_eq!(page.charts, charts, "{name}");
        let markdown = text(&dir.join("report.md"));
        for title in spec
            .lines()
            .filter_map(|line| line.strip_prefix("title = "))
        {
            assert!(
                markdown.contains(title.trim_matches('"')),
                "{name}: {title}"
            );
            assert!(
                page.text.contains(&title.trim_matches('"')[..8]),
                "{name}: {title}"
            );
        }
    }
    let index = html::check(&text(&place.join("index.html")));
    let links = EXPERIMENTS.map(|(name, _)| format!("{name}/report.html"));
    assert_eq!(index.links, links);
    let output = String::from_utf8(out).unwrap();
    assert_eq!(output.lines().count(), 6, "{output}");
    assert!(
        output.contains("sweep/report.html: 1080 sessions, 0 of 2 goals reached"),
        "{output}"
    );
}

/// Two kinds of clients, in crowds of three.
const CROWD: &str = r#"
title = "A crowd that can be checked by hand"
question = "Is it computed right?"
backend = "link"
repeats = 2
timeout = "2s"
link = { rate = "10Mbps" }
axes = { clients = ["3"] }

[workload]
kind = "crowd"
files = [{ name = "file", size = "1MB" }]
duration = "8s"
stagger = "2s"

[[workload.client]]
name = "near"
http = ["2", "3"]

[[arm]]
name = "crowd"
[[arm]]
name = "alone"
alone = true

[[figure]]
kind = "shares"
title = "Shares"
crowd = "crowd"
alone = "alone"
goal = { share_least = ">= 90%", share_median = ">= 90%" }
"#;

#[test]
fn each_client_of_a_crowd_is_held_against_its_kind_alone() {
    let mut runs = vec![];
    // Clients of one kind are not those of another whose name begins alike.
    let crowd = [("near-h2-1", 0.95), ("near-h2-2", 0.80), ("near-h3-1", 2.0)];
    for run in synthetic::runs("crowd", CROWD) {
        let mut own = run.clone();
        own.metrics.clear();
        let f = f64::from(run.repeat);
        match (run.arm.as_str(), run.session) {
            ("alone", 0) => drop(
                own.metrics
                    .insert("goodput_mbps.near-h2".into(), 0.99 + 0.02 * f),
            ),
            ("alone", _) => drop(own.metrics.insert("goodput_mbps.near-h3".into(), 2.0)),
            _ => own
                .metrics
                .extend(crowd.map(|(name, mbps)| (format!("goodput_mbps.{name}"), mbps))),
        }
        runs.push(own);
    }
    let (page, markdown) = report(CROWD, &runs);
    assert_eq!(page.charts, 1);
    let near = row(&markdown, "near-h2");
    assert_eq!(
        near[2..],
        ["99 %", "875 kbit/s", "87.5 %", "80 %", "80 %", "4"]
    );
    let all = row(&markdown, "all");
    assert_eq!(all[4..], ["95 %", "80 %", "80 %", "6"]);
    assert!(markdown.contains("least of all clients"), "{markdown}");
    assert!(markdown.contains("80.0 %"), "{markdown}");
}

#[test]
fn arms_are_held_against_the_sum_of_others() {
    let figure = "[[figure]]\nkind = \"ratio\"\ntitle = \"Ratio\"\nof = [\"h2\", \"h3\"]\n\
                  goal = { ratio_least = \">= 50%\" }\n\n[quick]";
    let experiment = SMALL.replace("[quick]", figure);
    let mut runs = small(|arm, cell, _| match (arm, cell) {
        ("adaptive", "loss 1%") => 600.0,
        ("adaptive", _) => 900.0,
        ("h2", _) => 1000.0,
        _ => 500.0,
    });
    let (_, markdown) = report(&experiment, &runs);
    let (_, section) = markdown.split_once("## Ratio").unwrap();
    let row = row(section, "0 %");
    assert_eq!(row[1..], ["1.50 s", "900 ms [900–900]", "60 %", "10"]);
    assert!(
        markdown.contains("load time, of h2 + h3, least"),
        "{markdown}"
    );
    assert!(markdown.contains("40.0 %"), "{markdown}");
    // Without one of the others a comparison is impossible.
    runs.retain(|run| run.arm != "h3");
    let (_, markdown) = report(&experiment, &runs);
    assert!(!markdown.contains("| adaptive, of that |"), "{markdown}");
}

#[test]
fn goals_without_data_are_neither_reached_nor_missed() {
    // Either arm is right where they do not differ.
    let (page, markdown) = report(SMALL, &small(|_, _, _| 900.0));
    let goal = row(&markdown, "adaptive: right choice where arms differ");
    assert_eq!(goal[1..], ["at least 95 %", "not measured", ""]);
    let missed = page.text.matches("✗ missed").count();
    assert_eq!(missed, markdown.matches("| **no** |").count());
}

#[test]
fn the_same_records_give_the_same_report() {
    let runs = synthetic::runs("eval", EXPERIMENTS[1].1);
    let (first, second) = (
        report(EXPERIMENTS[1].1, &runs),
        report(EXPERIMENTS[1].1, &runs),
    );
    assert_eq!((first.0.text, first.1), (second.0.text, second.1));
}

#[test]
fn a_choice_is_held_against_the_best_fixed_arm() {
    let runs = small(|arm, cell, _| match (arm, cell) {
        ("h2", "loss 0%") => 1000.0,
        ("h3", "loss 0%") => 1040.0,
        ("h2", _) => 1500.0,
        ("h3", _) => 1200.0,
        (_, "loss 0%") => 1100.0,
        _ => 1260.0,
    });
    let (page, markdown) = report(SMALL, &runs);
    // Excess 10 % and 5 %. Without loss the arms differ by 4 %, so either is right. With loss
    // HTTP/3 is right, which eight of the ten sessions chose.
    assert_eq!(
        row(&markdown, "0 %"),
        [
            "0 %",
            "1.00 s [1.00–1.00]",
            "1.04 s [1.04–1.04]",
            "1.10 s [1.10–1.10]",
            "+10 % [+10 to +10]",
            "80 %",
            "either",
            "+5.0 %",
            "12.5 %",
            "10"
        ]
    );
    assert_eq!(
        row(&markdown, "1 %")[4..7],
        ["+5.0 % [+5.0 to +5.0]", "80 %", "80 %"]
    );
    assert_eq!(
        row(&markdown, "adaptive"),
        [
            "adaptive",
            "+7.5 %",
            "+10 %",
            "80 %",
            "49 % to 94.3 %",
            "80 %"
        ]
    );
    assert_eq!(
        row(&markdown, "adaptive: worst excess over the best fixed arm")[1..],
        ["at most 10 %", "10.0 %", "yes"]
    );
    assert_eq!(
        row(&markdown, "adaptive: right choice where arms differ")[1..],
        ["at least 95 %", "80.0 %", "**no**"]
    );
    assert_eq!(
        row(&markdown, "adaptive: mean regret")[1..],
        ["at most 8 %", "7.50 %", "yes"]
    );
    assert!(page.text.contains("✗ missed") && page.text.contains("✓ reached"));
}

#[test]
fn sessions_of_an_hour_are_counted_by_the_server_s_clock() {
    // Ten sessions of 0.5 s and pauses of 1 s: 15 s, an hour of a clock 240 times as fast.
    let text = SMALL
        .replace("repeats = 10", "repeats = 2")
        .replace("[workload]", "[workload]\nsessions = 10\npause = \"1s\"")
        .replace(
            "[quick]",
            r#"[[figure]]
kind = "sessions"
title = "Probes"
arms = ["h3"]
share = { label = "http", value = "2" }
clock = 240
goal = { per_hour_worst = "<= 2" }

[quick]"#,
        );
    let mut runs = synthetic::runs("small", &text);
    for run in &mut runs {
        run.outcome = Outcome::Complete;
        run.metrics.insert("load_ms".to_owned(), 500.0);
        let http = if run.session < 2 + run.repeat {
            "2"
        } else {
            "3"
        };
        run.labels.insert("http".to_owned(), http.to_owned());
    }
    let (_, markdown) = report(&text, &runs);
    let probes = markdown.split("## Probes").nth(1).unwrap();
    assert!(probes.contains("240 times as fast"), "{probes}");
    let hours = row(probes, "loss 0 % | h3");
    assert_eq!(hours[2..], ["2.50 [2.00–3.00]", "3.00", "2"]);
    let goal = row(&markdown, "sessions with http 2 per hour, most of a run");
    assert_eq!(goal[1..], ["at most 2", "3", "**no**"]);
}

#[test]
fn regret_is_held_against_the_best_arm_and_the_physical_limit() {
    // 1000 packets of 1 ms, without delay: the limit is 1 s, and 1/0.99 s with loss.
    let runs = small(|arm, cell, _| match (arm, cell) {
        ("adaptive", "loss 0%") => 1100.0,
        ("adaptive", _) => 1500.0,
        (_, "loss 0%") => 1000.0,
        _ => 1600.0,
    });
    let (_, markdown) = report(SMALL, &runs);
    let of_regret = markdown.split("## Regret").nth(1).unwrap();
    // Regrets of 10 % and, where it was faster than both, 0.
    let adaptive = row(of_regret, "adaptive");
    assert_eq!(adaptive[1..6], ["2", "5 %", "5 %", "9.5 %", "10 %"]);
    assert_eq!(adaptive[6..], ["+1.9 %", "+29 %"]);
    assert_eq!(
        row(of_regret, "loss 0 %")[3..],
        ["h2", "+10 % [+10 to +10]", "+10 %"]
    );
    // 10 % lost in one cell, 6.25 % saved in the other.
    let saved = of_regret.split("Share of each fixed").nth(1).unwrap();
    assert_eq!(row(saved, "h2"), ["h2", "2", "−1.88 %"]);
    assert_eq!(
        row(
            &markdown,
            "adaptive: smallest mean saving against a fixed arm"
        )[1..],
        ["at least 10 %", "−1.88 %", "**no**"]
    );
}

#[test]
fn a_timed_out_median_meets_no_goal() {
    // 5 % over the best arm at the time limit, which is less than the goals allow.
    let runs = small(|arm, cell, _| match (arm, cell) {
        (_, "loss 0%") => 1000.0,
        ("adaptive", _) => 9999.0,
        _ => 1905.0,
    });
    let (_, markdown) = report(SMALL, &runs);
    assert_eq!(
        row(&markdown, "adaptive: worst excess over the best fixed arm")[1..],
        ["at most 10 %", "> 4.99 %", "**no**"]
    );
    assert_eq!(
        row(&markdown, "adaptive: mean regret")[1..],
        ["at most 8 %", "> 2.49 %", "**no**"]
    );
    let of_regret = markdown.split("## Regret").nth(1).unwrap();
    let adaptive = row(of_regret, "adaptive");
    assert_eq!(adaptive[5..7], ["> 5 %", "> +2.5 %"]);
}

#[test]
fn sessions_that_did_not_end_are_shown_and_rank_last() {
    let mut runs = small(|arm, _, repeat| match arm {
        "h2" if repeat < 6 => 9999.0,
        _ => 1000.0 + f64::from(repeat),
    });
    for run in runs
        .iter_mut()
        .filter(|run| run.arm == "h3" && run.repeat == 0)
    {
        run.outcome = Outcome::Failed;
        run.metrics.clear();
        run.error = Some("the <server> did not start".to_owned());
    }
    runs[0].disturbed = Some("steal of 9 %".to_owned());
    let (page, markdown) = report(SMALL, &runs);
    let first = row(&markdown, "0 %");
    assert_eq!(first[1], "> 2.00 s [1.01 s – > 2.00 s]");
    // Nine values and a failed one: the median is between the fifth and the sixth.
    assert_eq!(first[2], "1.01 s [1.00–1.01]");
    assert!(
        markdown.contains("60 sessions, 12 timed out, 2 failed, 1 disturbed."),
        "{markdown}"
    );
    for text in [
        "One reason: the <server> did not start",
        "One reason: steal of 9 %",
    ] {
        assert!(page.text.contains(text), "{text}");
        assert!(markdown.contains(&text.replace('<', "&lt;")), "{text}");
    }
}

#[test]
fn records_of_other_conditions_and_earlier_attempts_are_left_out_and_reported() {
    let runs = small(|_, _, _| 1000.0);
    let mut all = runs.clone();
    for run in &mut all {
        run.conditions.binary_sha256 = "00".repeat(32);
        run.metrics.insert("load_ms".to_owned(), 1.0);
    }
    let disturbed = Run {
        disturbed: Some("late".to_owned()),
        ..runs[0].clone()
    };
    let failed = Run {
        attempt: 1,
        outcome: Outcome::Failed,
        error: Some("connection reset".to_owned()),
        ..runs[0].clone()
    };
    let again = Run {
        attempt: 2,
        ..runs[0].clone()
    };
    all.extend([disturbed, failed]);
    all.extend(runs[1..].iter().cloned());
    all.push(again);
    let (_, markdown) = report(SMALL, &all);
    assert!(
        markdown.contains("60 records of another binary"),
        "{markdown}"
    );
    assert!(markdown.contains("60 sessions.\n"), "{markdown}");
    assert!(
        markdown.contains("| repeated because disturbed | 1 session |"),
        "{markdown}"
    );
    assert!(
        markdown.contains("| failed, then repeated | 1 session |"),
        "{markdown}"
    );
    assert!(
        markdown.contains("Failed, then repeated: 1 session. The last attempt counts. One reason: connection reset"),
        "{markdown}"
    );
    assert_eq!(row(&markdown, "0 %")[1], "1.00 s [1.00–1.00]");
}

#[test]
fn a_quick_run_shows_its_sessions_and_a_warning() {
    let text = EXPERIMENTS[1].1;
    let mut runs = synthetic::runs("eval", text);
    runs.retain(|run| run.cell.to_string().contains("loss 5%") && run.repeat == 0);
    for run in &mut runs {
        run.conditions.quick = true;
        run.backend = hikyaku_lab::experiment::Backend::Simulation;
        let arguments = ["my own/eval.toml", "--only", "loss=5%", "--cross-check"];
        run.conditions.arguments = arguments.map(str::to_owned).into();
    }
    let (page, markdown) = report(text, &runs);
    assert!(markdown.contains("> Measured with --quick"), "{markdown}");
    let command = "hikyaku lab sim 'my own/eval.toml' --only loss=5% --cross-check --quick --seed 1  \
                   # hikyaku of commit 0123456789ab`";
    assert!(markdown.contains(command), "{markdown}");
    assert!(markdown.contains("simulation in virtual time"));
    // A figure of cells that were not run, and a series without records.
    let spread = markdown.split("## Spread without loss").nth(1).unwrap();
    assert!(
        spread
            .trim_start()
            .starts_with("Nothing to show: no session"),
        "{spread}"
    );
    assert!(page.text.contains("no session has the series `cwnd_bytes`"));
}

#[test]
fn names_are_text_and_not_markup() {
    let text = SMALL.replace("Small enough", "<script>alert(1)</script> & <b>small</b>");
    let (page, _) = report(&text, &small(|_, _, _| 1000.0));
    assert!(
        page.text
            .contains("<script>alert(1)</script> & <b>small</b>")
    );
}

#[test]
fn other_figures_can_be_shown_of_the_same_records() {
    let dir = tempfile::tempdir().unwrap();
    synthetic::save(dir.path(), SMALL, &small(|_, _, _| 1000.0));
    let figures = dir.path().join("figures.toml");
    let others = SMALL.replace("title = \"Times\"", "title = \"Another title\"");
    fs::write(&figures, others).unwrap();
    let output = dir.path().join("page.html");
    let shown = ReportArgs {
        dirs: vec![dir.path().to_owned()],
        output: Some(output.clone()),
        figures: Some(figures.display().to_string()),
    };
    report::run(&shown, &mut vec![]).unwrap();
    assert!(text(&output).contains("Another title"));
    assert!(text(&dir.path().join("page.md")).contains("## Another title"));
    let several = ReportArgs {
        dirs: vec![dir.path().to_owned(); 2],
        ..shown
    };
    let error = report::run(&several, &mut vec![]).unwrap_err();
    assert!(error.to_string().contains("single directory"), "{error}");
}

#[test]
fn mistakes_are_reported() {
    let error_of = |dir: &Path| {
        let error = report::run(&args(&[dir.to_owned()]), &mut vec![]).unwrap_err();
        let source = error.source().map(ToString::to_string).unwrap_or_default();
        format!("{error}: {source}")
    };
    let dir = tempfile::tempdir().unwrap();
    assert!(error_of(dir.path()).contains("that `hikyaku lab run` or `lab sim` wrote"));
    fs::write(dir.path().join("experiment.toml"), SMALL).unwrap();
    assert!(error_of(dir.path()).contains("runs.jsonl"));
    fs::write(dir.path().join("runs.jsonl"), "").unwrap();
    assert!(error_of(dir.path()).contains("holds no session"));
    let wrong = SMALL.replace("kind = \"cdf\"", "kind = \"cdf\"\nlogx = true");
    synthetic::save(dir.path(), SMALL, &small(|_, _, _| 1000.0));
    fs::write(dir.path().join("experiment.toml"), wrong).unwrap();
    let why = error_of(dir.path());
    assert!(
        why.contains("figure 3 (`Times`)") && why.contains("unknown field `logx`"),
        "{why}"
    );
}
