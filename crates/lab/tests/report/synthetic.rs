//! A world with known laws: records for every kind of figure.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::fs;
use std::path::Path;

use hikyaku_lab::experiment::{Axis, Cell, Conditions, Emulator, Outcome, Run, Spec};
use hikyaku_netsim::derive_seed;

/// Writes `experiment.toml` and `runs.jsonl` of an experiment into `dir`.
pub(crate) fn save(dir: &Path, text: &str, runs: &[Run]) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("experiment.toml"), text).unwrap();
    let line = |run: &Run| serde_json::to_string(run).unwrap() + "\n";
    let lines: Vec<String> = runs.iter().map(line).collect();
    fs::write(dir.join("runs.jsonl"), lines.concat()).unwrap();
}

/// Returns all sessions of an experiment.
pub(crate) fn runs(name: &str, text: &str) -> Vec<Run> {
    let spec = Spec::parse(name, text, false).unwrap();
    let mut runs = vec![];
    for cell in spec.cells(spec.seed) {
        for arm in &spec.arms {
            let warmup = arm.warmup.unwrap_or(spec.workload.warmup);
            let sessions = warmup + spec.sessions(arm).1;
            for repeat in 0..spec.repeats(&cell, arm) {
                for session in 0..sessions {
                    let mut run = blank(&spec, name, &cell);
                    run.arm.clone_from(&arm.name);
                    (run.repeat, run.session, run.warmup) = (repeat, session, session < warmup);
                    measure(&spec, &mut run);
                    runs.push(run);
                }
            }
        }
    }
    runs
}

fn blank(spec: &Spec, name: &str, cell: &Cell) -> Run {
    Run {
        experiment: name.to_owned(),
        cell: cell.clone(),
        arm: String::new(),
        repeat: 0,
        session: 0,
        warmup: false,
        seed: 1,
        attempt: 0,
        backend: spec.backend,
        began: "2026-11-21T21:00:00.5Z".to_owned(),
        outcome: Outcome::Complete,
        error: None,
        metrics: BTreeMap::new(),
        labels: BTreeMap::new(),
        series: BTreeMap::new(),
        link: spec.links(cell).unwrap(),
        other_links: BTreeMap::new(),
        emulator: Some(Emulator {
            lateness_p99_us: 180,
            ..Emulator::default()
        }),
        disturbed: None,
        conditions: Conditions {
            commit: "0123456789ab".to_owned(),
            binary_sha256: "ab".repeat(32),
            kernel: "6.18".to_owned(),
            cpu: "2 x synthetic".to_owned(),
            model_sha256: "cd".repeat(32),
            experiment_sha256: "ef".repeat(32),
            quick: false,
            seed: spec.seed,
            arguments: Vec::new(),
        },
    }
}

fn measure(spec: &Spec, run: &mut Run) {
    if spec.arms.iter().any(|arm| !arm.flows.is_empty()) {
        return flows(run);
    }
    let loss = match run.session {
        10..20 if !spec.workload.change.is_empty() => 0.05,
        _ => run.link.loss().fraction(),
    };
    let size = run
        .cell
        .get(Axis::Size)
        .map_or(10e6, |text| if text == "1GB" { 1e9 } else { 1e6 });
    let rate = run.link.rate().unwrap().bits_per_sec() as f64;
    let rtt = run.link.rtt().as_secs_f64().max(0.0005);
    let time = |http: &str| -> f64 {
        let (cpu, mathis) = if http == "3" { (1.2, 1.6) } else { (1.0, 1.1) };
        let floor = if run.arm == "floor" { 4e7 } else { 0.0 };
        let window = mathis * 1448.0 * 8.0 / (rtt * loss.sqrt().max(1e-9));
        let goodput = (rate / cpu).min(window.max(floor));
        size * 8.0 / goodput + 3.0 * rtt + if http == "2" { rtt } else { 0.0 }
    };
    let better = if time("3") < time("2") { "3" } else { "2" };
    let http = match run.arm.as_str() {
        // The first two sessions of ten are spent on learning.
        "adaptive" | "adaptive-returning" if run.session % 10 >= 2 => better,
        "h2" | "adaptive" | "adaptive-returning" => "2",
        _ => "3",
    };
    let load = time(http) * (0.06 * noise(run)).exp();
    let limit = spec.timeout.as_secs_f64();
    if load > limit {
        run.outcome = Outcome::TimedOut;
        run.error = Some("gave up at the time limit".to_owned());
    }
    let load = load.min(limit);
    run.metrics.insert("load_ms".to_owned(), load * 1e3);
    run.metrics
        .insert("goodput_mbps".to_owned(), size * 8.0 / load / 1e6);
    run.labels.insert("http".to_owned(), http.to_owned());
    if spec.title.contains("QUIC") && run.cell.get(Axis::Loss) == Some("0.1%") {
        let sawtooth = |i: u32| {
            let phase = f64::from((i + run.repeat * 7) % 60) / 60.0;
            let floor = if run.arm == "floor" {
                373_760.0
            } else {
                20_000.0
            };
            (
                f64::from(i) * 0.1,
                floor + 250_000.0 * (0.5 + 0.5 * phase.powi(3)),
            )
        };
        run.series
            .insert("cwnd_bytes".to_owned(), (0..900).map(sawtooth).collect());
    }
}

fn flows(run: &mut Run) {
    let queue: f64 = run
        .cell
        .get(Axis::Queue)
        .unwrap()
        .trim_end_matches("bdp")
        .parse()
        .unwrap();
    let (names, share) = match run.arm.as_str() {
        "ours-cubic" => (["ours", "cubic"], 0.5 + 0.2 / (1.0 + queue)),
        _ => (["a", "b"], 0.5),
    };
    let share = (share + 0.02 * noise(run)).clamp(0.05, 0.95);
    let rates = [48.0 * share, 48.0 * (1.0 - share)];
    let jain = (rates[0] + rates[1]).powi(2) / (2.0 * (rates[0].powi(2) + rates[1].powi(2)));
    let delay = 40.0 * queue;
    run.metrics = BTreeMap::from([
        (format!("goodput_mbps.{}", names[0]), rates[0]),
        (format!("goodput_mbps.{}", names[1]), rates[1]),
        ("jain".to_owned(), jain),
        ("queue_delay_p50_ms".to_owned(), delay * 0.6),
        ("queue_delay_p95_ms".to_owned(), delay * 0.95),
    ]);
    for (name, rate) in names.iter().zip(rates) {
        let point = |i: u32| {
            let time = f64::from(i) * 0.1;
            (time, rate * (1.0 + 0.15 * (time + rate).sin()))
        };
        let points = (0..300).map(point).collect();
        run.series.insert(format!("goodput_mbps.{name}"), points);
    }
}

/// Draws from the normal distribution by the session alone.
fn noise(run: &Run) -> f64 {
    let text = format!("{} {} {} {}", run.cell, run.arm, run.repeat, run.session);
    let words: Vec<u64> = text.bytes().map(u64::from).collect();
    let uniform = |i| (derive_seed(i, &words) >> 11) as f64 / (1_u64 << 53) as f64;
    (-2.0 * uniform(1).max(1e-12).ln()).sqrt() * (TAU * uniform(2)).cos()
}
