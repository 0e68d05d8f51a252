//! The experiments that come with the program.

use std::fs;
use std::path::Path;

use super::error::SpecError;
use super::spec::Spec;

/// Shipped experiments by name.
const SHIPPED: &[(&str, &str)] = &[
    (
        "browser",
        include_str!("../../../../experiments/browser.toml"),
    ),
    (
        "conns-loss",
        include_str!("../../../../experiments/conns-loss.toml"),
    ),
    (
        "conns-multi-loss",
        include_str!("../../../../experiments/conns-multi-loss.toml"),
    ),
    (
        "conns-multi-rtt",
        include_str!("../../../../experiments/conns-multi-rtt.toml"),
    ),
    (
        "conns-rtt",
        include_str!("../../../../experiments/conns-rtt.toml"),
    ),
    (
        "conns-shards",
        include_str!("../../../../experiments/conns-shards.toml"),
    ),
    (
        "cross-check",
        include_str!("../../../../experiments/cross-check.toml"),
    ),
    ("crowd", include_str!("../../../../experiments/crowd.toml")),
    (
        "epe-dead-border",
        include_str!("../../../../experiments/epe-dead-border.toml"),
    ),
    (
        "epe-capacity",
        include_str!("../../../../experiments/epe-capacity.toml"),
    ),
    (
        "epe-classes",
        include_str!("../../../../experiments/epe-classes.toml"),
    ),
    (
        "epe-decay",
        include_str!("../../../../experiments/epe-decay.toml"),
    ),
    (
        "epe-fail",
        include_str!("../../../../experiments/epe-fail.toml"),
    ),
    (
        "epe-isps",
        include_str!("../../../../experiments/epe-isps.toml"),
    ),
    (
        "epe-localpref",
        include_str!("../../../../experiments/epe-localpref.toml"),
    ),
    (
        "epe-sizes",
        include_str!("../../../../experiments/epe-sizes.toml"),
    ),
    (
        "epe-pause",
        include_str!("../../../../experiments/epe-pause.toml"),
    ),
    (
        "epe-parallel",
        include_str!("../../../../experiments/epe-parallel.toml"),
    ),
    (
        "epe-scale",
        include_str!("../../../../experiments/epe-scale.toml"),
    ),
    (
        "epe-scenario1",
        include_str!("../../../../experiments/epe-scenario1.toml"),
    ),
    (
        "epe-scenario2",
        include_str!("../../../../experiments/epe-scenario2.toml"),
    ),
    (
        "epe-scenario3",
        include_str!("../../../../experiments/epe-scenario3.toml"),
    ),
    (
        "epe-withdraw",
        include_str!("../../../../experiments/epe-withdraw.toml"),
    ),
    (
        "fairness",
        include_str!("../../../../experiments/fairness.toml"),
    ),
    (
        "fairness-sim",
        include_str!("../../../../experiments/fairness-sim.toml"),
    ),
    (
        "first-fair-sim",
        include_str!("../../../../experiments/first-fair-sim.toml"),
    ),
    (
        "first-link",
        include_str!("../../../../experiments/first-link.toml"),
    ),
    (
        "first-page-sim",
        include_str!("../../../../experiments/first-page-sim.toml"),
    ),
    (
        "first-sim",
        include_str!("../../../../experiments/first-sim.toml"),
    ),
    (
        "fleet-outage",
        include_str!("../../../../experiments/fleet-outage.toml"),
    ),
    (
        "fleet-visit",
        include_str!("../../../../experiments/fleet-visit.toml"),
    ),
    (
        "floor-cwnd",
        include_str!("../../../../experiments/floor-cwnd.toml"),
    ),
    (
        "floor-delay",
        include_str!("../../../../experiments/floor-delay.toml"),
    ),
    (
        "floor-fair",
        include_str!("../../../../experiments/floor-fair.toml"),
    ),
    (
        "floor-link",
        include_str!("../../../../experiments/floor-link.toml"),
    ),
    (
        "floor-loss",
        include_str!("../../../../experiments/floor-loss.toml"),
    ),
    (
        "floor-min",
        include_str!("../../../../experiments/floor-min.toml"),
    ),
    (
        "floor-sweep",
        include_str!("../../../../experiments/floor-sweep.toml"),
    ),
    ("gain", include_str!("../../../../experiments/gain.toml")),
    ("model", include_str!("../../../../experiments/model.toml")),
    ("peers", include_str!("../../../../experiments/peers.toml")),
    (
        "priorities",
        include_str!("../../../../experiments/priorities.toml"),
    ),
    (
        "regret",
        include_str!("../../../../experiments/regret.toml"),
    ),
    (
        "transport",
        include_str!("../../../../experiments/transport.toml"),
    ),
    (
        "udp-blackhole",
        include_str!("../../../../experiments/udp-blackhole.toml"),
    ),
    (
        "udp-first-visit",
        include_str!("../../../../experiments/udp-first-visit.toml"),
    ),
    (
        "udp-throttle",
        include_str!("../../../../experiments/udp-throttle.toml"),
    ),
    (
        "version-eval",
        include_str!("../../../../experiments/version-eval.toml"),
    ),
    (
        "version-sweep",
        include_str!("../../../../experiments/version-sweep.toml"),
    ),
    (
        "version-switch",
        include_str!("../../../../experiments/version-switch.toml"),
    ),
];

/// The text of an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Name of the experiment: that of a shipped one, or the file's without `.toml`.
    pub name: String,
    /// Argument that selects it: its name, or the file's path.
    pub argument: String,
    /// The file's text.
    pub text: String,
}

impl Source {
    /// Parses the text; with `quick`, with the changes of `--quick`.
    ///
    /// # Errors
    /// As for [`Spec::parse`].
    pub fn parse(&self, quick: bool) -> Result<Spec, SpecError> {
        Spec::parse(&self.name, &self.text, quick)
    }
}

/// Returns all shipped experiments.
pub fn shipped() -> impl Iterator<Item = Source> {
    SHIPPED.iter().map(|(name, text)| Source {
        name: (*name).to_owned(),
        argument: (*name).to_owned(),
        text: (*text).to_owned(),
    })
}

/// Finds a shipped experiment by its name, or one from a file.
///
/// # Errors
/// If neither exists, or the file cannot be read.
pub fn find(name: &str) -> Result<Source, SpecError> {
    if let Some(source) = shipped().find(|source| source.name == name) {
        return Ok(source);
    }
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        return Err(SpecError::Unknown {
            name: name.to_owned(),
        });
    }
    let text = fs::read_to_string(path).map_err(|source| SpecError::Read {
        path: path.to_owned(),
        source,
    })?;
    let stem = path.file_stem().unwrap_or_default();
    Ok(Source {
        name: stem.to_string_lossy().into_owned(),
        argument: name.to_owned(),
        text,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::report::figure::Figure;

    #[test]
    fn every_file_is_shipped_and_every_part_of_it_is_right() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
        let files: BTreeSet<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
            .collect();
        let names: BTreeSet<String> = shipped().map(|source| source.name).collect();
        assert_eq!(names, files);
        for source in shipped() {
            for quick in [false, true] {
                let spec = source.parse(quick).unwrap();
                for cell in spec.cells(1) {
                    spec.links(&cell).unwrap();
                }
                // A report of a quick run shows the figures of the whole.
                if !quick {
                    Figure::all(&spec).unwrap();
                }
            }
        }
    }

    #[test]
    fn unknown_experiments_are_reported() {
        let error = find("version-sleep").unwrap_err().to_string();
        assert!(
            error.contains("there is no experiment `version-sleep`"),
            "{error}"
        );
        let error = find("/nowhere/x.toml").unwrap_err().to_string();
        assert!(
            error.contains("reading the experiment /nowhere/x.toml"),
            "{error}"
        );
    }
}
