//! Patterns of the configuration for paths of a site.

use globset::{Glob, GlobBuilder};

/// Makes the glob of a pattern. A pattern without a slash is matched against the file's name, and
/// any other against the whole path without its first slash.
///
/// # Errors
/// If the pattern is malformed.
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
