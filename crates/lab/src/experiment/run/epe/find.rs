//! Where `hikyaku-egress` is.

use std::path::{Path, PathBuf};

use super::super::error::RunError;

/// Finds `hikyaku-egress`: what was `named`, else the one beside this program, in `build/`, or
/// on PATH.
///
/// # Errors
/// How to build it, if it is nowhere.
pub(crate) fn find_egress(named: Option<&Path>) -> Result<PathBuf, RunError> {
    const NAME: &str = "hikyaku-egress";
    let missing = |place: String| {
        RunError::Arguments(format!(
            "{place}: build it by `scripts/egress.sh build`, or name it by `--egress FILE`"
        ))
    };
    if let Some(named) = named {
        let there = named.is_file().then(|| named.to_owned());
        return there.ok_or_else(|| missing(format!("there is no {}", named.display())));
    }
    let beside = std::env::current_exe()
        .ok()
        .and_then(|own| Some(own.parent()?.join(NAME)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|directory| directory.join(NAME));
    let built = Path::new("build").join(NAME);
    let mut places = beside.into_iter().chain([built]).chain(on_path);
    let found = places.find(|place| place.is_file());
    found.ok_or_else(|| missing(format!("this experiment needs `{NAME}`")))
}
