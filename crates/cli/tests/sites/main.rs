//! Real sites behind hikyaku, with the configurations of conf/examples: an application, PHP, video
//! and a mirror. Their daemons and clients are those that people use.
#![allow(clippy::unwrap_used, reason = "tests")]

mod app;
mod media;
mod mirror;
mod php;

use std::path::{Path, PathBuf};

use hikyaku_testkit::{skip, this_test};

/// The directory of this file.
const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sites");

/// The directory of the packages that `scripts/setup.sh` has got from npm; reports a skip if they are
/// missing.
fn node_modules() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let modules = root.join("build/node/node_modules");
    if modules.is_dir() {
        return Some(modules.canonicalize().unwrap());
    }
    skip(
        &this_test(),
        "`build/node` is missing: run `scripts/setup.sh test`",
    );
    None
}

/// `from` and `to` in the form that `Machine` takes.
fn port(text: &str, port: u16) -> String {
    let (host, _) = text.rsplit_once(':').unwrap();
    format!("{host}:{port}")
}
