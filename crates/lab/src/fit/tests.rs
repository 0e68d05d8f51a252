//! A world whose laws are known, from records to a checked model.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hikyaku_units::arm::{Arm, Congestion, Version};
use hikyaku_units::{LossRate, Rate};

use super::*;
use crate::experiment::{Backend, Conditions, Links, Outcome, Run};

const EXPERIMENT: &str = r#"
title = "A world"
question = "Is its law found again?"
backend = "link"
repeats = 1
timeout = "10s"
[axes]
rate = ["10Mbps"]
[workload]
files = [{ name = "file.bin", size = "1MB" }]
[[arm]]
name = "h2"
set = { "policy.version" = "h2", "policy.congestion" = "cubic", "policy.min_cwnd" = "off" }
[[arm]]
name = "h3"
set = { "policy.version" = "h3", "policy.congestion" = "cubic", "policy.min_cwnd" = "off" }
[[arm]]
name = "adaptive"
"#;

/// A link and a response.
#[derive(Clone, Copy)]
struct Place {
    rtt_ms: f64,
    loss: f64,
    mbps: f64,
    size: f64,
}

/// The world's law of rates: HTTP/2 needs fewer bytes, and loss limits it more (Mathis et al., CCR
/// 1997).
fn rate(place: Place, version: Version) -> f64 {
    let constant = if version == Version::H3 { 40.0 } else { 20.0 };
    let held_back = constant / ((place.rtt_ms + 1.0) * (place.loss + 1e-5).sqrt());
    let overhead = if version == Version::H3 { 1.2 } else { 1.0 };
    place.mbps.min(held_back) / overhead
}

/// HTTP/2 needs a round trip less, since its handshake has taken one more.
fn load_ms(place: Place, version: Version) -> f64 {
    let rounds = if version == Version::H3 { 2.0 } else { 1.0 };
    rounds * place.rtt_ms + place.size * 8e-3 / rate(place, version)
}

fn places() -> Vec<Place> {
    let mut places = Vec::new();
    for rtt_ms in [5.0, 20.0, 80.0, 160.0] {
        for loss in [0.0, 0.003, 0.01, 0.03] {
            for mbps in [5.0, 20.0, 80.0] {
                for size in [1e5, 1e6] {
                    places.push(Place {
                        rtt_ms,
                        loss,
                        mbps,
                        size,
                    });
                }
            }
        }
    }
    places
}

fn run(place: Place, version: Version, repeat: u32) -> Run {
    let sent = (place.size / 1200.0).ceil();
    // The random part of an outcome, the same for both versions.
    let luck = 1.0 + 0.02 * (f64::from(repeat) - 0.5);
    let metrics = [
        ("response_ms", load_ms(place, version) * luck),
        ("size_bytes", place.size),
        ("server_min_rtt_ms", place.rtt_ms),
        ("server_packets_sent", sent),
        ("server_packets_lost", (sent * place.loss).round()),
        ("server_rate_mbps", rate(place, version)),
    ];
    let direction: toml::Table = [
        ("rate", format!("{}Mbps", place.mbps)),
        ("one_way_delay", format!("{}us", place.rtt_ms * 500.0)),
        ("loss", format!("{}%", place.loss * 100.0)),
    ]
    .map(|(key, text)| (key.to_owned(), text.into()))
    .into_iter()
    .collect();
    Run {
        experiment: "world".to_owned(),
        cell: serde_json::from_value(serde_json::json!({
            "rate": format!("{}Mbps", place.mbps),
            "loss": format!("{}%", place.loss * 100.0),
            "rtt": format!("{}ms", place.rtt_ms),
            "size": place.size.to_string(),
        }))
        .unwrap(),
        arm: version.name().to_owned(),
        repeat,
        session: 0,
        warmup: false,
        seed: 1,
        attempt: 0,
        backend: Backend::Link,
        began: "2026-11-21T21:00:00Z".to_owned(),
        outcome: Outcome::Complete,
        error: None,
        metrics: metrics.map(|(name, value)| (name.to_owned(), value)).into(),
        labels: [("http".to_owned(), version.name()[1..].to_owned())].into(),
        series: Default::default(),
        link: Links {
            up: direction.clone(),
            down: direction,
        },
        other_links: BTreeMap::new(),
        emulator: None,
        disturbed: None,
        conditions: Conditions {
            commit: "c0ffee".to_owned(),
            ..Conditions::default()
        },
    }
}

fn runs(places: &[Place]) -> Vec<Run> {
    let mut runs = Vec::new();
    for &place in places {
        for version in [Version::H2, Version::H3] {
            runs.extend((0..2).map(|repeat| run(place, version, repeat)));
        }
    }
    runs
}

fn write_runs(directory: &Path, runs: &[Run]) {
    let lines: String = runs
        .iter()
        .map(|run| serde_json::to_string(run).unwrap() + "\n")
        .collect();
    fs::write(directory.join("experiment.toml"), EXPERIMENT).unwrap();
    fs::write(directory.join("runs.jsonl"), lines).unwrap();
}

fn directory(runs: &[Run]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    write_runs(directory.path(), runs);
    directory
}

fn data(runs: &[Run]) -> Data {
    Data::read(&[directory(runs).path().to_owned()]).unwrap()
}

fn model_of(data: &Data) -> Model {
    Model::new(fit(data, &model::no_source(), None).unwrap()).unwrap()
}

/// Returns the logarithm of predicted by real load time for a server that knows the truth, and the
/// prediction's relative error.
fn error(model: &Model, place: Place, version: Version) -> (f64, f32) {
    let prediction = model
        .predict(
            Arm::new(version, Congestion::Cubic),
            Duration::from_secs_f64(place.rtt_ms / 1e3),
            LossRate::from_fraction(place.loss),
            Rate::from_bits_per_sec((rate(place, version) * 1e6) as u64),
            place.size as u64,
        )
        .unwrap();
    let ms = prediction.load_time.as_secs_f64() * 1e3;
    ((ms / load_ms(place, version)).ln(), prediction.rel_sd)
}

#[test]
fn the_law_is_found_again_and_chosen_by_on_paths_left_out() {
    let check = check_by_folds(&data(&runs(&places()))).unwrap().unwrap();
    let choice = &check.choice["cubic, one size"];
    assert_eq!(choice.cells, places().len());
    assert!(choice.differing > 30, "{choice:?}");
    // A fifth of so coarse a sweep leaves wide gaps.
    assert!(choice.right > 0.8, "{choice:?}");
    assert!(choice.regret_mean < 0.03, "{choice:?}");
    assert!(
        choice.regret_fixed["h2-cubic"] > 0.05 && choice.regret_fixed["h3-cubic"] > 0.05,
        "neither version alone would do: {choice:?}"
    );
    for prediction in check.prediction.values() {
        assert!(prediction.median < 0.2, "{:?}", check.prediction);
    }
}

/// The lookup uses the rate that the server takes for the path's.
#[test]
fn a_server_that_knows_the_truth_predicts_it() {
    let data = data(&runs(&places()));
    let model = Arc::new(model_of(&data));
    let cells = cells(&data).unwrap();
    let error = |cell: &Cell<'_>| {
        let (loads, predicted) = (cell.loads(), replay::predicted(cell, &model));
        let arms = examples::pair(Congestion::Cubic).map(Arm::index);
        arms.map(|arm| (predicted[arm].unwrap() - loads[arm].unwrap().ln).abs())
    };
    let mut errors: Vec<f64> = cells.iter().flat_map(error).collect();
    errors.sort_by(f64::total_cmp);
    assert!(errors[errors.len() / 2] < 0.15, "{errors:?}");
}

/// The same world, in which BBR and a floor do not react to losses.
#[test]
fn all_arms_are_fitted_and_chosen_from() {
    let mut all = Vec::new();
    for (congestion, loss_counts, overhead) in
        [("cubic", 1.0, 1.0), ("floor", 0.0, 1.0), ("bbr", 0.0, 1.05)]
    {
        for mut run in runs(&places()) {
            let version = if run.arm == "h3" {
                Version::H3
            } else {
                Version::H2
            };
            let number = |name: &str| run.metrics[name];
            let place = Place {
                rtt_ms: number("server_min_rtt_ms"),
                loss: run.link.loss().fraction() * loss_counts,
                mbps: run.link.rate().unwrap().mbps(),
                size: number("size_bytes"),
            };
            run.metrics
                .insert("response_ms".to_owned(), overhead * load_ms(place, version));
            run.metrics
                .insert("server_rate_mbps".to_owned(), rate(place, version));
            run.labels
                .insert("congestion".to_owned(), congestion.to_owned());
            all.push(run);
        }
    }
    let data = data(&all);
    let model = model_of(&data);
    assert_eq!(model.file().arms.len(), 6, "{}", data.arms());
    let check = Check::new(
        "all".to_owned(),
        String::new(),
        &Replays::new(cells(&data).unwrap(), &Arc::new(model)),
    );
    let choice = &check.choice["adaptive, one size"];
    assert_eq!(
        (choice.cells, choice.regret_fixed.len()),
        (places().len(), 6)
    );
    assert!(choice.regret_fixed["h2-cubic"] > 0.2, "{choice:?}");
    assert!(choice.regret_mean < 0.05, "{choice:?}");
    assert!(
        check.choice.contains_key("floor, all sizes"),
        "{:?}",
        check.choice.keys()
    );
    let mut text = Vec::new();
    check.print(&mut text).unwrap();
    assert!(String::from_utf8(text).unwrap().contains("h3-floor"));
}

#[test]
fn tables_obey_physics() {
    let model = model_of(&data(&runs(&places())));
    let axes = &model.file().axes;
    let lengths = [&axes.rtt_ms, &axes.loss, &axes.rate_mbps, &axes.size_bytes].map(Vec::len);
    for table in model.file().arms.values() {
        for flat in 0..table.load_ms.len() {
            for (axis, sign) in [(0, 1.0), (2, -1.0), (3, 1.0)] {
                let stride: usize = lengths[axis + 1..].iter().product();
                if !(flat / stride).is_multiple_of(lengths[axis]) {
                    let step = table.load_ms[flat] - table.load_ms[flat - stride];
                    assert!(sign * step >= 0.0, "axis {axis}, value {flat}: {step}");
                }
            }
        }
    }
}

#[test]
fn gaps_are_filled_and_trusted_less() {
    let far = |place: &Place| place.rtt_ms == 160.0 && place.mbps == 80.0;
    let (gap, kept): (Vec<_>, Vec<_>) = places().into_iter().partition(|place| far(place));
    let (without, with) = (
        model_of(&data(&runs(&kept))),
        model_of(&data(&runs(&places()))),
    );
    let place = gap[1];
    let ((error_without, sd_without), (_, sd_with)) = (
        error(&without, place, Version::H3),
        error(&with, place, Version::H3),
    );
    assert!(error_without.abs() < 0.7, "{error_without}");
    assert!(sd_without > 1.2 * sd_with, "{sd_without} {sd_with}");
}

#[test]
fn extrapolated_times_count_less_and_are_trusted_less() {
    let place = places()[20];
    let wrong = |mut run: Run, censored: bool| {
        run.metrics
            .insert("response_ms".to_owned(), 5.0 * load_ms(place, Version::H2));
        if censored {
            run.labels.insert("censored".to_owned(), "true".to_owned());
            run.outcome = Outcome::TimedOut;
        }
        run
    };
    let with = |censored: bool| {
        let mut all = runs(&places());
        for run in all.iter_mut().skip(20 * 4).take(2) {
            *run = wrong(run.clone(), censored);
        }
        error(&model_of(&data(&all)), place, Version::H2).0
    };
    assert!(with(true) < with(false), "{} {}", with(true), with(false));
}

#[test]
fn the_same_data_give_the_same_model() {
    let directory = directory(&runs(&places()[..40]));
    let output = directory.path().join("model.json");
    let args = FitArgs {
        directories: vec![directory.path().to_owned()],
        output: Some(output.clone()),
        hold_out: Vec::new(),
        check_only: None,
    };
    let fitted = || {
        let mut text = Vec::new();
        assert_eq!(super::run(&args, &mut text).unwrap(), 0);
        (
            fs::read_to_string(&output).unwrap(),
            String::from_utf8(text).unwrap(),
        )
    };
    let (first, printed) = fitted();
    assert_eq!(fitted().0, first);
    let model = Model::from_json(&first).unwrap();
    let Source {
        commit,
        date,
        command,
        ..
    } = &model.file().source;
    assert_eq!((commit.as_str(), date.as_str()), ("c0ffee", "2026-11-21"));
    assert!(command.starts_with("hikyaku lab fit ") && command.ends_with("model.json"));
    assert!(
        printed.contains("h3-cubic") && printed.contains("regret"),
        "{printed}"
    );
    let check = fs::read_to_string(directory.path().join("model.check.json")).unwrap();
    assert!(check.contains("regret_mean"), "{check}");

    let check_only = FitArgs {
        output: None,
        check_only: Some(output),
        ..args
    };
    let mut text = Vec::new();
    super::run(&check_only, &mut text).unwrap();
    assert!(String::from_utf8(text).unwrap().contains("all 20 paths"));
}

#[test]
fn records_that_do_not_fit_the_model_are_passed_over() {
    let base = run(places()[0], Version::H2, 0);
    type Change = fn(&mut Run);
    // name, change of the record, reason
    let cases: &[(&str, Change, &str)] = &[
        ("failed", |run| run.outcome = Outcome::Failed, "failed"),
        (
            "adaptive",
            |run| run.arm = "adaptive".to_owned(),
            "of a version that was not pinned",
        ),
        (
            "a congestion control that we lack",
            |run| {
                run.labels
                    .insert("congestion".to_owned(), "reno".to_owned());
            },
            "of another congestion control",
        ),
        (
            "no response",
            |run| run.metrics.clear(),
            "without a response",
        ),
        (
            "HTTP/1.1",
            |run| {
                run.labels.insert("http".to_owned(), "1.1".to_owned());
            },
            "of another version",
        ),
        (
            "no UDP",
            |run| {
                run.link.down.insert("udp".to_owned(), "drop".into());
            },
            "over a link that treats UDP in its own way",
        ),
    ];
    for (name, change, reason) in cases {
        let mut all = runs(&places()[..1]);
        let mut odd = Run {
            repeat: 9,
            ..base.clone()
        };
        change(&mut odd);
        all.push(odd);
        let data = data(&all);
        assert_eq!(data.passed_over(), format!("1 {reason}"), "{name}");
        assert_eq!(data.responses().count(), 4, "{name}");
    }
}

#[test]
fn earlier_records_of_other_conditions_are_passed_over() {
    let mut all = runs(&places()[..2]);
    for run in &mut all[..4] {
        run.conditions.binary_sha256 = "older".to_owned();
    }
    let data = data(&all);
    assert_eq!(
        data.passed_over(),
        format!("4 {}", super::data::OTHER_CONDITIONS)
    );
    assert_eq!(data.responses().count(), 4);
}

#[test]
fn wrong_input_is_reported() {
    let error_of = |directory: &Path| {
        let error =
            Data::read(&[directory.to_owned()]).and_then(|data| examples::cells(&data).map(drop));
        let error = error.unwrap_err();
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text += &format!(": {cause}");
            source = cause.source();
        }
        text
    };
    let empty = tempfile::tempdir().unwrap();
    assert!(
        error_of(empty.path()).contains("experiment.toml: a directory of `hikyaku lab run` holds")
    );

    let no_runs = directory(&[]);
    assert!(
        error_of(no_runs.path()).contains("no usable record in"),
        "{}",
        error_of(no_runs.path())
    );

    let broken = directory(&[]);
    fs::write(broken.path().join("runs.jsonl"), "{\"arm\": 1}\n").unwrap();
    assert!(
        error_of(broken.path()).contains("runs.jsonl, line 1"),
        "{}",
        error_of(broken.path())
    );

    let mut one_arm = runs(&places());
    one_arm.retain(|run| run.arm == "h2");
    let one_arm = directory(&one_arm);
    assert!(
        error_of(one_arm.path()).contains("(found: h2-cubic)"),
        "{}",
        error_of(one_arm.path())
    );
}
