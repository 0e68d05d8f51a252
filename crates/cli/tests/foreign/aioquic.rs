//! HTTP/3 that no honest client sends, by aioquic (`h3/battery.py`).

use std::path::Path;

use crate::{Servers, built, expect_all_right, run};

#[test]
fn demands_of_rfcs_9114_9204_and_9218() {
    let Some(python) = built("venv/bin/python") else {
        return;
    };
    let servers = Servers::start();
    let battery = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign/h3/battery.py");
    let output = run(
        python,
        &[
            // Python writes no files beside the sources.
            "-B",
            battery.to_str().unwrap(),
            &servers.files.port().to_string(),
            &servers.proxy.port().to_string(),
        ],
    );
    expect_all_right(&output, 136);
}
