//! Model files: an accepted one predicts a time for every path.
#![no_main]

use std::time::Duration;

use hikyaku_units::arm::{Arm, Congestion, Version};
use hikyaku_core::model::Model;
use hikyaku_units::{LossRate, Rate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|json: &str| {
    let Ok(model) = Model::from_json(json) else {
        return;
    };
    let again = Model::from_json(&model.to_json()).expect("its own JSON is accepted");
    for version in [Version::H1, Version::H2, Version::H3] {
        for congestion in [Congestion::Cubic, Congestion::Bbr] {
            let arm = Arm::new(version, congestion);
            for (rtt, loss, rate, size) in PATHS {
                let predict = |model: &Model| {
                    let (rtt, rate) = (Duration::from_micros(rtt), Rate::from_bits_per_sec(rate));
                    model.predict(arm, rtt, LossRate::from_fraction(loss), rate, size)
                };
                let prediction = predict(&model);
                assert_eq!(prediction, predict(&again));
                if let Some(prediction) = prediction {
                    assert!(prediction.rel_sd >= 0.0, "{prediction:?}");
                }
            }
        }
    }
});

/// Round-trip time in µs, loss, rate in bit/s and size in bytes: inside of any grid, and far
/// outside.
const PATHS: [(u64, f64, u64, u64); 4] = [
    (0, 0.0, 0, 0),
    (20_000, 0.01, 20_000_000, 1_000_000),
    (1_000_000, 1.0, 1, 1),
    (u64::MAX, 1.0, u64::MAX, u64::MAX),
];
