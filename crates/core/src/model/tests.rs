use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;

use super::{ArmTable, AxesFile, FORMAT, Model, ModelFile, Source};
use hikyaku_units::arm::{Arm, Congestion, Version};
use hikyaku_units::{LossRate, Rate};

const H2: Arm = Arm::new(Version::H2, Congestion::Cubic);
const H3: Arm = Arm::new(Version::H3, Congestion::Cubic);

/// A small model in which HTTP/2 wins on good paths and HTTP/3 on bad ones, as in VERSION §4.2.
///
/// A response takes a round trip, its transmission time, and `penalty × loss` of both; HTTP/3 has an
/// overhead of 20 % and a third of HTTP/2's penalty.
pub(crate) fn synthetic() -> Model {
    static MODEL: LazyLock<Model> = LazyLock::new(|| Model::new(synthetic_file()).unwrap());
    MODEL.clone()
}

pub(crate) fn synthetic_file() -> ModelFile {
    let axes = AxesFile {
        rtt_ms: vec![0.0, 10.0, 50.0, 200.0],
        loss: vec![0.0, 0.001, 0.01, 0.05],
        rate_mbps: vec![1.0, 20.0, 200.0],
        size_bytes: vec![1e4, 1e6, 1e7],
    };
    // The time that a client waits for, less the round trip that decisions add to HTTP/2.
    let table = |handshakes: f64, overhead: f64, penalty: f64| {
        let load = |(rtt, loss, rate, size): (f64, f64, f64, f64)| {
            let visit = overhead * (rtt + 0.5 + size * 8.0 / (rate * 1e3)) * (1.0 + penalty * loss);
            visit - handshakes * rtt
        };
        let load_ms: Vec<f64> = points(&axes).map(load).collect();
        ArmTable {
            spread: vec![0.02; load_ms.len()],
            scatter: vec![0.2; load_ms.len()],
            load_ms,
        }
    };
    let arms = [
        ("h2-cubic", table(1.0, 1.0, 60.0)),
        ("h3-cubic", table(0.0, 1.2, 20.0)),
        ("h2-floor", table(1.0, 1.0, 10.0)),
        ("h3-floor", table(0.0, 1.2, 8.0)),
        ("h2-bbr", table(1.0, 1.0, 10.0)),
        ("h3-bbr", table(0.0, 1.2, 8.0)),
    ];
    ModelFile {
        format: FORMAT,
        description: "synthetic".to_owned(),
        source: Source {
            data_sha256: String::new(),
            command: "none".to_owned(),
            commit: String::new(),
            date: "2026-11-21".to_owned(),
        },
        axes,
        arms: arms.map(|(name, table)| (name.to_owned(), table)).into(),
    }
}

fn points(axes: &AxesFile) -> impl Iterator<Item = (f64, f64, f64, f64)> {
    axes.rtt_ms.iter().flat_map(move |&rtt| {
        axes.loss.iter().flat_map(move |&loss| {
            axes.rate_mbps.iter().flat_map(move |&rate| {
                axes.size_bytes
                    .iter()
                    .map(move |&size| (rtt, loss, rate, size))
            })
        })
    })
}

fn predict(model: &Model, arm: Arm, rtt_ms: f64, loss: f64, rate_mbps: f64, size: f64) -> f64 {
    let rtt = Duration::from_secs_f64(rtt_ms / 1e3);
    let rate = Rate::from_bits_per_sec((rate_mbps * 1e6) as u64);
    let loss = LossRate::from_fraction(loss);
    model
        .predict(arm, rtt, loss, rate, size as u64)
        .unwrap()
        .load_time
        .as_secs_f64()
        * 1e3
}

#[test]
fn grid_points_are_met_exactly() {
    let model = synthetic();
    let table = &model.file().arms["h2-cubic"];
    for ((rtt, loss, rate, size), want) in points(&model.file().axes).zip(&table.load_ms) {
        let got = predict(&model, H2, rtt, loss, rate, size);
        assert!(
            (got / want - 1.0).abs() < 1e-3,
            "{rtt} {loss} {rate} {size}: {got} for {want}"
        );
    }
}

#[test]
fn times_proportional_to_size_over_rate_are_met_between_points() {
    let mut file = synthetic_file();
    let load_ms: Vec<f64> = points(&file.axes)
        .map(|(.., rate, size)| size / rate)
        .collect();
    for table in file.arms.values_mut() {
        table.load_ms = load_ms.clone();
    }
    let model = Model::new(file).unwrap();
    for (rate, size) in [(1.0, 12_345.0), (3.7, 5e5), (111.0, 1e4), (57.0, 8.1e6)] {
        let got = predict(&model, H2, 33.0, 0.004, rate, size);
        assert!(
            (got / (size / rate) - 1.0).abs() < 1e-3,
            "{rate} {size}: {got}"
        );
    }
}

#[test]
fn between_two_points_it_lies_between_their_values() {
    let model = synthetic();
    let at = |rtt, loss| predict(&model, H3, rtt, loss, 20.0, 1e6);
    assert!(at(10.0, 0.0) < at(30.0, 0.0) && at(30.0, 0.0) < at(50.0, 0.0));
    assert!(at(10.0, 0.0) < at(10.0, 0.0005) && at(10.0, 0.0005) < at(10.0, 0.001));
}

#[test]
fn outside_the_grid_it_holds_the_edge_and_gets_unsure() {
    let model = synthetic();
    let predict = |rtt, ppm, mbps| {
        let (rtt, loss) = (Duration::from_millis(rtt), LossRate::from_ppm(ppm).unwrap());
        model
            .predict(H3, rtt, loss, Rate::from_mbps(mbps), 1_000_000)
            .unwrap()
    };
    let edge = predict(200, 50_000, 200);
    for (name, outside) in [
        ("rtt", predict(2000, 50_000, 200)),
        ("loss", predict(200, 500_000, 200)),
        ("rate", predict(200, 50_000, 2000)),
    ] {
        assert_eq!(outside.load_time, edge.load_time, "{name}");
        assert!(outside.rel_sd > edge.rel_sd + 0.2, "{name}: {outside:?}");
    }
    let none = model.predict(
        H3,
        Duration::ZERO,
        LossRate::ZERO,
        Rate::from_bits_per_sec(0),
        0,
    );
    assert!(none.is_some_and(|p| p.load_time > Duration::ZERO && p.rel_sd.is_finite()));
}

#[test]
fn a_large_response_goes_on_at_the_marginal_rate() {
    let model = synthetic();
    // 1 GB at 200 Mbit/s with HTTP/2's penalty of 6 % at 0.1 % loss, where 10 MB is the largest size.
    let got = predict(&model, H2, 10.0, 0.001, 200.0, 1e9);
    let want = (10.5 + 1e9 * 8.0 / 200e3) * 1.06;
    assert!((got / want - 1.0).abs() < 0.01, "{got} for {want}");

    // Tables in which more bytes took less time: the path's own rate is the limit.
    let mut file = synthetic_file();
    for table in file.arms.values_mut() {
        table.load_ms.fill(100.0);
    }
    let flat = Model::new(file).unwrap();
    let got = predict(&flat, H2, 10.0, 0.0, 200.0, 1e9);
    assert!((got / 39_700.0 - 1.0).abs() < 0.01, "{got}");
}

#[test]
fn one_point_is_a_grid() {
    let mut file = synthetic_file();
    file.axes = AxesFile {
        rtt_ms: vec![10.0],
        loss: vec![0.0],
        rate_mbps: vec![20.0],
        size_bytes: vec![1e6],
    };
    let table = ArmTable {
        load_ms: vec![410.0],
        spread: vec![0.1],
        scatter: vec![0.1],
    };
    file.arms = ["h2-cubic", "h3-cubic"]
        .map(|arm| (arm.to_owned(), table.clone()))
        .into();
    let model = Model::new(file).unwrap();
    assert!((predict(&model, H2, 99.0, 0.3, 1.0, 100.0) - 410.0).abs() < 0.1);
    // Beyond the only size in proportion, but not faster than the path.
    assert!((predict(&model, H2, 10.0, 0.0, 20.0, 1e7) / 4100.0 - 1.0).abs() < 1e-3);
    let bbr = Arm::new(Version::H2, Congestion::Bbr);
    assert!(
        model
            .predict(bbr, Duration::ZERO, LossRate::ZERO, Rate::from_mbps(1), 1)
            .is_none()
    );
}

#[test]
fn wrong_models_are_refused_with_the_place() {
    type Change = fn(&mut ModelFile);
    let cases: &[(Change, &str)] = &[
        (|f| f.format = 2, "reading a model: format 2 instead of 1"),
        (
            |f| f.axes.rtt_ms.swap(1, 2),
            "checking a model: axis rtt_ms: point 2 is not above the one before",
        ),
        (
            |f| f.axes.loss[3] = 5.0,
            "checking a model: axis loss: point 3 is 5, expected a share from 0 to 1",
        ),
        (
            |f| f.axes.rate_mbps[0] = f64::NAN,
            "checking a model: axis rate_mbps: point 0 is NaN, expected Mbit/s from 0.001 to 1e6",
        ),
        (
            |f| f.axes.size_bytes.clear(),
            "checking a model: axis size_bytes: 0 points, expected 1 to 64",
        ),
        (
            |f| drop(f.arms.remove("h3-bbr")),
            "checking a model: arm h3-bbr is missing",
        ),
        (
            |f| f.arms = BTreeMap::new(),
            "checking a model: arm h2-cubic is missing",
        ),
        (
            |f| drop(f.arms.insert("h2-reno".into(), f.arms["h2-bbr"].clone())),
            "checking a model: unknown arm `h2-reno`",
        ),
        (
            |f| drop(f.arms.insert("h1-cubic".into(), f.arms["h2-bbr"].clone())),
            "checking a model: unknown arm `h1-cubic`",
        ),
        (
            |f| table(f).load_ms.truncate(143),
            "checking a model: arm h2-bbr: 143 values of load_ms instead of 144",
        ),
        (
            |f| table(f).spread.push(0.0),
            "checking a model: arm h2-bbr: 145 values of spread instead of 144",
        ),
        (
            |f| table(f).scatter.clear(),
            "checking a model: arm h2-bbr: 0 values of scatter instead of 144",
        ),
        (
            |f| table(f).load_ms[7] = f64::INFINITY,
            "checking a model: arm h2-bbr: load_ms[7] is inf, expected a time in ms from 1e-6 to 1e9",
        ),
        (
            |f| table(f).spread[9] = -0.1,
            "checking a model: arm h2-bbr: spread[9] is -0.1, expected a share from 0 to 10",
        ),
        (
            |f| table(f).scatter[3] = 11.0,
            "checking a model: arm h2-bbr: scatter[3] is 11, expected a share from 0 to 10",
        ),
    ];
    fn table(file: &mut ModelFile) -> &mut ArmTable {
        file.arms.get_mut("h2-bbr").unwrap()
    }
    for (change, want) in cases {
        let mut file = synthetic_file();
        change(&mut file);
        assert_eq!(Model::new(file).unwrap_err().to_string(), *want);
    }
    let error = Model::from_json(r#"{"format": 1, "arm": {}}"#).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("unknown field `arm`"), "{cause}");
}

#[test]
fn json_goes_round() {
    let model = synthetic();
    let again = Model::from_json(&model.to_json()).unwrap();
    assert_eq!(again.file(), model.file());
}

proptest! {
    #[test]
    fn more_loss_never_raises_predicted_goodput(
        rtt in 0u64..500,
        losses in (0u32..=1_000_000, 0u32..=1_000_000),
        mbps in 0u64..2000,
        size in 0u64..2_000_000_000,
    ) {
        let model = synthetic();
        let goodput = |ppm| {
            let loss = LossRate::from_ppm(ppm).unwrap();
            let rtt = Duration::from_millis(rtt);
            let load = model.predict(H2, rtt, loss, Rate::from_mbps(mbps), size).unwrap().load_time;
            size as f64 / load.as_secs_f64()
        };
        let (less, more) = (losses.0.min(losses.1), losses.0.max(losses.1));
        prop_assert!(goodput(more) <= goodput(less) * (1.0 + 1e-4));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        prop_assert!(Model::from_json(&text).is_err());
    }
}
