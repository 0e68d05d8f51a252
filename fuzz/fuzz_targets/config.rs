//! Configurations: as a TOML file, and as lines of `--set`.
#![no_main]

use hikyaku_edge::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(config) = toml::from_str::<Config>(text) {
        let _ = config.check();
    }
    let assignments: Vec<String> = text.lines().map(str::to_owned).collect();
    if let Ok(config) = Config::load(None, &assignments) {
        let _ = config.check();
    }
});
