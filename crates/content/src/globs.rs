//! Patterns of the configuration for paths of a site.

use globset::{Glob, GlobBuilder};

/// The glob of a pattern: without a slash it is matched against the file's name, else
/// against the whole path, which is given without its first slash.
///
/// # Errors
/// When it is none.
pub fn path_glob(pattern: &str, any_case: bool) -> Result<Glob, globset::Error> {
    let anchored = match pattern.strip_prefix('/') {
        Some(anchored) => anchored.to_owned(),
        None if pattern.contains('/') => pattern.to_owned(),
        None => format!("**/{pattern}"),
    };
    GlobBuilder::new(&anchored)
        .literal_separator(true)
        .case_insensitive(any_case)
        .build()
}
