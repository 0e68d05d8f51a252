use std::time::Duration;

use hikyaku_core::model::Model;
use hikyaku_core::units::{LossRate, Rate};

use super::*;
use crate::plan::Job;
use crate::record::{Conditions, LinkView, ServerView};

/// Load time in seconds by a law that physics would allow.
fn law(path: Path, size: u64) -> f64 {
    let rtt = f64::from(path.rtt_ms) / 1e3;
    let loss = f64::from(path.loss_ppm) / 1e6;
    2.0 * rtt + size as f64 * 8e-6 / f64::from(path.rate_mbps) * (1.0 + 200.0 * loss)
}

fn run(job: Job, seconds: f64, measured_loss: f64) -> Run {
    Run {
        job,
        conditions: Conditions {
            seed: 1,
            commit: "0".to_owned(),
            binary_sha256: "0".to_owned(),
            kernel: "6".to_owned(),
            cpu: "2 x test".to_owned(),
        },
        began: "2026-11-21T00:00:00Z".to_owned(),
        load_us: Some((seconds * 1e6) as u64),
        server_us: None,
        client_us: None,
        censored: false,
        error: None,
        handshake_us: None,
        client_total_us: None,
        body_bytes: Some(job.size),
        server: Some(ServerView {
            packets_sent: 1_000_000,
            packets_lost: (measured_loss * 1e6) as u64,
            min_rtt_us: u64::from(job.path.rtt_ms) * 1_000 + 400,
            srtt_us: 0,
            delivery_rate_bps: None,
        }),
        link: LinkView {
            delivered: 0,
            lost: 0,
            dropped: 0,
            lateness_mean_us: 0,
            lateness_p99_us: 0,
            lateness_max_us: 0,
            faults: 0,
            realtime: true,
            steal: 0.0,
        },
        disturbed: false,
    }
}

/// Runs of the whole plan, `measure` saying seconds and measured loss.
fn runs(plan: &Plan, measure: impl Fn(&Job) -> (f64, f64)) -> Vec<Run> {
    let jobs = plan.jobs(1);
    jobs.into_iter()
        .map(|job| {
            let (seconds, loss) = measure(&job);
            run(job, seconds, loss)
        })
        .collect()
}

fn fitted(runs: &[Run]) -> Result<Model> {
    let source = Source {
        data_sha256: "0".repeat(64),
        command: "test".to_owned(),
        commit: "0".to_owned(),
        date: "2026-11-21".to_owned(),
    };
    Ok(Model::new(model(&Plan::full(), runs, source)?)?)
}

fn predict(model: &Model, arm: Arm, path: Path, size: u64) -> (f64, f32) {
    let rtt = Duration::from_micros(u64::from(path.rtt_ms) * 1_000 + 400);
    let loss = LossRate::from_ppm(path.loss_ppm).unwrap();
    let rate = Rate::from_mbps(path.rate_mbps.into());
    let prediction = model.predict(arm, rtt, loss, rate, size).unwrap();
    (prediction.load_time.as_secs_f64(), prediction.rel_sd)
}

fn nominal(path: Path) -> f64 {
    f64::from(path.loss_ppm) / 1e6
}

const PATH: Path = Path {
    rtt_ms: 25,
    loss_ppm: 10_000,
    rate_mbps: 50,
};

fn close(got: f64, want: f64) -> bool {
    (got / want - 1.0).abs() < 0.002
}

#[test]
fn a_law_of_physics_is_found_again_at_every_point() {
    let plan = Plan::full();
    let model = fitted(&runs(&plan, |job| {
        (law(job.path, job.size), nominal(job.path))
    }))
    .unwrap();
    for path in plan.paths() {
        for size in &plan.sizes {
            let (got, rel_sd) = predict(&model, ARMS[3], path, size.bytes);
            assert!(
                close(got, law(path, size.bytes)),
                "{path:?}, {}: {got}",
                size.bytes
            );
            assert!((0.019..0.021).contains(&rel_sd), "{path:?}: {rel_sd}");
        }
    }
}

#[test]
fn what_one_arm_loses_by_itself_is_no_loss_of_the_path() {
    let plan = Plan::full();
    let clumsy = runs(&plan, |job| {
        let own = if job.arm == ARMS[1] { 0.2 } else { 0.0 };
        (law(job.path, job.size), nominal(job.path) + own)
    });
    let model = fitted(&clumsy).unwrap();
    for arm in [ARMS[0], ARMS[1]] {
        let (got, _) = predict(&model, arm, PATH, 1_000_000);
        assert!(close(got, law(PATH, 1_000_000)), "{arm}: {got}");
    }
}

#[test]
fn the_loss_axis_is_what_was_measured_of_the_path() {
    let plan = Plan::full();
    // Twice the configured loss: at 1 % measured, 0.5 % was configured.
    let doubled = runs(&plan, |job| {
        (law(job.path, job.size), 2.0 * nominal(job.path))
    });
    let model = fitted(&doubled).unwrap();
    let (got, _) = predict(&model, ARMS[0], PATH, 1_000_000);
    assert!(
        close(
            got,
            law(
                Path {
                    loss_ppm: 5_000,
                    ..PATH
                },
                1_000_000
            )
        ),
        "{got}"
    );
}

#[test]
fn what_contradicts_physics_is_levelled_and_trusted_less() {
    let plan = Plan::full();
    // One point is faster than those with less loss, by half.
    let fast = |job: &Job| if job.path == PATH { 0.5 } else { 1.0 };
    let faulty = runs(&plan, |job| {
        (law(job.path, job.size) * fast(job), nominal(job.path))
    });
    let model = fitted(&faulty).unwrap();
    let less_loss = Path {
        loss_ppm: 5_000,
        ..PATH
    };
    let (got, rel_sd) = predict(&model, ARMS[0], PATH, 1_000_000);
    assert!(got >= predict(&model, ARMS[0], less_loss, 1_000_000).0);
    assert!(rel_sd > 0.1, "{rel_sd}");
}

#[test]
fn scatter_and_extrapolation_widen_the_spread() {
    let plan = Plan::full();
    let noise = |job: &Job| {
        if job.path == PATH && job.repeat == 0 {
            1.3
        } else {
            1.0
        }
    };
    let mut noisy = runs(&plan, |job| {
        (law(job.path, job.size) * noise(job), nominal(job.path))
    });
    let spread = |runs: &[Run]| predict(&fitted(runs).unwrap(), ARMS[0], PATH, 1_000_000).1;
    let scattered = spread(&noisy);
    assert!(scattered > 0.06, "{scattered}");
    noisy.iter_mut().for_each(|run| run.censored = true);
    assert!(spread(&noisy) > 0.15);
}

#[test]
fn a_disturbed_run_gives_way_to_its_repetition() {
    let plan = Plan::full();
    let mut all = runs(&plan, |job| {
        (law(job.path, job.size) * 3.0, nominal(job.path))
    });
    all.iter_mut().for_each(|run| run.disturbed = true);
    all.extend(runs(&plan, |job| {
        (law(job.path, job.size), nominal(job.path))
    }));
    let (got, _) = predict(&fitted(&all).unwrap(), ARMS[0], PATH, 1_000_000);
    assert!(close(got, law(PATH, 1_000_000)), "{got}");
}

#[test]
fn a_point_without_a_run_is_refused() {
    let plan = Plan::full();
    let mut all = runs(&plan, |job| (law(job.path, job.size), nominal(job.path)));
    all.retain(|run| run.job.path != PATH);
    let error = fitted(&all).unwrap_err().to_string();
    assert!(error.contains("rate_mbps: 50"), "{error}");
}
