//! Traces in files of their own.

use std::fs;
use std::io;
use std::path::PathBuf;

use toml::{Table, Value};

/// A file that a link's `trace` names cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("reading the trace `{}`", path.display())]
pub struct TraceFileError {
    /// Path as it was given.
    pub path: PathBuf,
    /// The system's error.
    #[source]
    pub source: io::Error,
}

/// Replaces each `trace` that is a path by the text of its file, in the table and all tables
/// inside, since [`hikyaku_netsim`] reads no files. Returns whether there was one. A path is a text
/// of one line that is not a number. It is relative to the working directory.
///
/// # Errors
/// If a file cannot be read.
pub fn read_traces(table: &mut Table) -> Result<bool, TraceFileError> {
    let mut found = false;
    for (key, value) in table {
        match value {
            Value::String(path) if key == "trace" && is_path(path) => {
                *path = fs::read_to_string(&*path).map_err(|source| TraceFileError {
                    path: PathBuf::from(&*path),
                    source,
                })?;
                found = true;
            }
            other => found |= read_within(other)?,
        }
    }
    Ok(found)
}

fn read_within(value: &mut Value) -> Result<bool, TraceFileError> {
    match value {
        Value::Table(table) => read_traces(table),
        Value::Array(values) => {
            let found = values.iter_mut().map(read_within);
            found
                .collect::<Result<Vec<bool>, _>>()
                .map(|found| found.contains(&true))
        }
        _ => Ok(false),
    }
}

fn is_path(text: &str) -> bool {
    !text.contains('\n') && text.trim().parse::<u64>().is_err()
}

#[cfg(test)]
mod tests {
    use hikyaku_netsim::{Capacity, LinkConfig, Trace};
    use serde::Deserialize;

    use super::*;

    #[test]
    fn files_take_the_place_of_their_paths() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lte.up");
        fs::write(&path, "# from a car\n3\n3\n10\n").unwrap();
        let text = format!(
            "[links.up]\ntrace = '{}'\n[[changes]]\nat = '1s'\ntrace = [5]\n",
            path.display()
        );
        let mut table: Table = text.parse().unwrap();
        assert!(read_traces(&mut table).unwrap());
        let up = LinkConfig::deserialize(table["links"]["up"].clone()).unwrap();
        let want = Trace::new(vec![3, 3, 10]).unwrap();
        assert_eq!(up.rate, Capacity::Trace(want));
        assert!(!read_traces(&mut table).unwrap(), "nothing is left to read");

        fs::remove_file(&path).unwrap();
        let mut table: Table = text.parse().unwrap();
        let error = read_traces(&mut table).unwrap_err();
        assert_eq!(error.path, path);
    }
}
