//! Reports on experiments of a synthetic world, from directory to page.
#![allow(clippy::unwrap_used)]

mod synthetic;

use std::fs;
use std::path::{Path, PathBuf};

use hikyaku_lab::report::{self, ReportArgs};

const EXPERIMENTS: [(&str, &str); 5] = [
    ("sweep", include_str!("sweep.toml")),
    ("eval", include_str!("eval.toml")),
    ("floor", include_str!("floor.toml")),
    ("fairness", include_str!("fairness.toml")),
    ("switch", include_str!("switch.toml")),
];

fn args(dirs: &[PathBuf]) -> ReportArgs {
    ReportArgs {
        dirs: dirs.to_vec(),
        output: None,
        figures: None,
    }
}

/// Below the directory that `REPORT_OUT` names, to be looked at; else a temporary one.
fn place() -> (PathBuf, Option<tempfile::TempDir>) {
    match std::env::var_os("REPORT_OUT") {
        Some(dir) => (dir.into(), None),
        None => {
            let dir = tempfile::tempdir().unwrap();
            (dir.path().to_owned(), Some(dir))
        }
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn every_kind_of_figure_is_drawn() {
    let (place, _keep) = place();
    let dirs: Vec<PathBuf> = EXPERIMENTS
        .iter()
        .map(|(name, _)| place.join(name))
        .collect();
    for ((name, text), dir) in EXPERIMENTS.iter().zip(&dirs) {
        synthetic::write(dir, name, text);
    }
    let mut out = vec![];
    assert_eq!(report::run(&args(&dirs), &mut out).unwrap(), 0);
    for dir in &dirs {
        let page = text(&dir.join("report.html"));
        assert!(page.contains("<svg"), "{}", dir.display());
    }
}
