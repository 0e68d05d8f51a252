//! HTTP/3 as no honest client writes it, by aioquic (`h3/battery.py`).

use std::path::Path;

use crate::{Servers, built, expect_all_right, run};

#[test]
fn what_rfcs_9114_9204_and_9218_demand() {
    let Some(python) = built("venv/bin/python") else {
        return;
    };
    let servers = Servers::start();
    let battery = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign/h3/battery.py");
    let output = run(
        python,
        &[
            // Leaves nothing beside the sources.
            "-B",
            battery.to_str().unwrap(),
            &servers.files.port().to_string(),
            &servers.proxy.port().to_string(),
        ],
    );
    expect_all_right(&output, 131);
}
