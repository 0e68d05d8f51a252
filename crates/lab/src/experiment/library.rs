//! The experiments that come with the program.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use hikyaku_emulator::link::read_traces;
use toml::Table;

use super::conditions::sha256;
use super::error::SpecError;
use super::spec::Spec;

/// The texts of shipped experiments by name, packed by `build.rs`.
static SHIPPED: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let packed = include_bytes!(concat!(env!("OUT_DIR"), "/experiments.json.gz"));
    // Only a damaged program has none.
    serde_json::from_reader(GzDecoder::new(&packed[..])).unwrap_or_default()
});

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

    /// Returns the hash of the text, and of the files that it names if it does: traces and peers'
    /// configurations.
    pub(crate) fn sha256(&self) -> String {
        let spec = self.parse(false);
        let configs = spec.iter().flat_map(|spec| &spec.arms);
        let configs = configs.filter_map(|arm| arm.config.as_ref());
        let configs = configs.filter_map(|path| fs::read_to_string(path).ok());
        let table: Result<Table, _> = self.text.parse();
        let with_traces = table.ok().and_then(|mut table| {
            let has_traces = read_traces(&mut table).ok()?;
            has_traces.then(|| table.to_string())
        });
        let files = with_traces.into_iter().chain(configs);
        sha256((self.text.clone() + &files.collect::<String>()).as_bytes())
    }
}

/// Returns all shipped experiments.
pub fn shipped() -> impl Iterator<Item = Source> {
    SHIPPED.iter().map(|(name, text)| Source {
        name: name.clone(),
        argument: name.clone(),
        text: text.clone(),
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
    fn records_of_another_trace_are_of_another_experiment() {
        let directory = tempfile::tempdir().unwrap();
        let trace = directory.path().join("lte.down");
        let source = |text: String| Source {
            name: "test".to_owned(),
            argument: "test.toml".to_owned(),
            text,
        };
        let without = source("[link]\nrate = '5Mbps'\n".to_owned());
        assert_eq!(without.sha256(), sha256(without.text.as_bytes()));
        let with = source(format!("[link.down]\ntrace = '{}'\n", trace.display()));
        fs::write(&trace, "1\n5\n").unwrap();
        let first = with.sha256();
        assert_eq!(with.sha256(), first);
        fs::write(&trace, "1\n6\n").unwrap();
        assert_ne!(with.sha256(), first);
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
