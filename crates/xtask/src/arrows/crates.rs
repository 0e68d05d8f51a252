//! Arrows between crates, from their manifests.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Arrows;

/// The crates that each may use (ARCHITECTURE.md). Tests may use `testkit` and all that their crate uses.
const ALLOWED: [(&str, &[&str]); 21] = [
    ("units", &[]),
    ("http-common", &[]),
    ("tls", &[]),
    ("quic", &[]),
    ("h1", &[]),
    ("h2", &["http-common"]),
    ("h3", &["http-common"]),
    ("core", &["units"]),
    ("acme", &["units"]),
    ("fleet", &["units"]),
    ("netsim", &["units"]),
    ("congestion", &["units"]),
    ("h3-quic", &["h3", "quic"]),
    ("content", &["h1", "h2", "h3", "tls", "units"]),
    (
        "edge",
        &[
            "acme",
            "congestion",
            "content",
            "core",
            "fleet",
            "h2",
            "h3-quic",
            "quic",
            "units",
        ],
    ),
    ("client", &["h3-quic", "quic", "tls"]),
    ("emulator", &["netsim", "units"]),
    (
        "lab",
        &["congestion", "core", "emulator", "netsim", "units"],
    ),
    ("testkit", &["h3-quic", "quic", "tls"]),
    (
        "cli",
        &["client", "core", "edge", "emulator", "lab", "units"],
    ),
    ("xtask", &["core", "fleet", "testkit", "tls", "units"]),
];

/// Which crate uses which, without the dependencies of tests.
///
/// # Errors
/// When a manifest cannot be read.
pub(super) fn arrows(root: &Path) -> Result<Arrows> {
    let mut arrows = Arrows::new();
    for entry in fs::read_dir(root.join("crates"))? {
        let path = entry?.path().join("Cargo.toml");
        let reading = || format!("reading {}", path.display());
        let text = fs::read_to_string(&path).with_context(reading)?;
        let manifest: toml::Table = text.parse().with_context(reading)?;
        let name = path.parent().and_then(Path::file_name);
        let name = name.unwrap_or_default().to_string_lossy().into_owned();
        let used = manifest.get("dependencies").and_then(toml::Value::as_table);
        let ours = used.into_iter().flatten();
        let ours = ours.filter_map(|(name, _)| name.strip_prefix("hikyaku-"));
        arrows.insert(name, ours.map(str::to_owned).collect());
    }
    Ok(arrows)
}

/// The arrows that may not be, as sentences.
pub(super) fn forbidden(arrows: &Arrows) -> Vec<String> {
    let mut faults = Vec::new();
    for (from, used) in arrows {
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| name == from) else {
            faults.push(format!("crate {from} is not in the list of allowed arrows"));
            continue;
        };
        let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
        let over = used.iter().filter(|to| !allowed.contains(to.as_str()));
        faults.extend(over.map(|to| format!("crate {from} may not use {to}")));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::{Arrows, forbidden};

    #[test]
    fn an_arrow_that_may_not_be_is_a_fault() {
        let arrows = |from: &str, to: &[&str]| -> Arrows {
            let to = to.iter().map(|to| (*to).to_owned()).collect();
            [(from.to_owned(), to)].into()
        };
        assert!(forbidden(&arrows("core", &["units"])).is_empty());
        let faults = forbidden(&arrows("edge", &["core", "lab"]));
        assert_eq!(faults, ["crate edge may not use lab"]);
        let faults = forbidden(&arrows("moon", &[]));
        assert_eq!(faults, ["crate moon is not in the list of allowed arrows"]);
    }
}
