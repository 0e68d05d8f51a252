//! Directories that the server writes to.

use std::fs;
use std::path::{Path, PathBuf};

use hikyaku_edge::Config;
use hikyaku_edge::config::AccessTarget;
use rustix::fs::{Access, access, statfs};

/// A place that the server writes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The key of the configuration.
    pub(crate) key: &'static str,
    pub(crate) path: PathBuf,
    /// Why it can't be written to.
    pub(crate) fault: Option<String>,
    pub(crate) file_system: FileSystem,
    /// Bytes that are free.
    pub(crate) free: u64,
    /// Bytes of the file system.
    pub(crate) size: u64,
}

/// The kind of a file system, by how long it keeps files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
    /// Until the machine stops.
    Memory,
    /// Until a container is made anew.
    Layer,
    Lasting,
}

/// The places of a configuration.
pub(super) fn of(config: &Config) -> Vec<Place> {
    let state = config.state.dir.iter().map(|dir| place("state.dir", dir));
    let log = match &config.log.access {
        AccessTarget::File(path) => Some(place("log.access", path)),
        _ => None,
    };
    state.chain(log).collect()
}

fn place(key: &'static str, path: &Path) -> Place {
    // The server makes a directory or a log that is not there, but no directory for a log.
    let (there, fault) = match key {
        "state.dir" => nearest(path),
        _ => file(path),
    };
    let system = statfs(there).ok();
    let bytes = |blocks: u64| {
        let size = system.as_ref().map_or(0, |s| s.f_bsize.cast_unsigned());
        blocks.saturating_mul(size)
    };
    let blocks = system.as_ref().map(|s| (s.f_bavail, s.f_blocks));
    let (free, size) = blocks.unwrap_or_default();
    Place {
        key,
        path: path.to_owned(),
        fault,
        file_system: system.map_or(FileSystem::Lasting, |s| kind(s.f_type)),
        free: bytes(free),
        size: bytes(size),
    }
}

/// The nearest directory that is there, and why nothing can be made in it.
fn nearest(path: &Path) -> (&Path, Option<String>) {
    let mut ancestors = path.ancestors().filter(|path| path.as_os_str() != "");
    let there = ancestors.find(|path| path.exists());
    let there = there.unwrap_or(Path::new("."));
    let fault = match there.is_dir() {
        true => unwritable(there),
        false => Some(format!("{} is no directory", there.display())),
    };
    (there, fault)
}

/// A file or the directory that it is to be in, and why it can't be written.
fn file(path: &Path) -> (&Path, Option<String>) {
    if fs::metadata(path).is_ok() {
        return (path, unwritable(path));
    }
    let parent = path.parent().filter(|parent| parent.as_os_str() != "");
    let parent = parent.unwrap_or(Path::new("."));
    match parent.is_dir() {
        true => (parent, unwritable(parent)),
        false => {
            let (there, _) = nearest(parent);
            (there, Some(format!("{} is no directory", parent.display())))
        }
    }
}

fn unwritable(path: &Path) -> Option<String> {
    let error = access(path, Access::WRITE_OK).err()?;
    Some(std::io::Error::from(error).to_string())
}

/// By the numbers of `linux/magic.h`.
fn kind(magic: rustix::fs::FsWord) -> FileSystem {
    match magic {
        0x0102_1994 | 0x8584_58f6 => FileSystem::Memory,
        0x794c_7630 => FileSystem::Layer,
        _ => FileSystem::Lasting,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_cannot_be_made_are_found() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        // key, path, the fault
        let cases = [
            ("state.dir", "new/below", None),
            ("state.dir", "file/below", Some("file is no directory")),
            ("log.access", "file", None),
            ("log.access", "new.log", None),
            ("log.access", "new/access.log", Some("new is no directory")),
        ];
        for (key, name, want) in cases {
            let place = place(key, &dir.path().join(name));
            match (want, place.fault) {
                (None, None) => {}
                (Some(want), Some(got)) if got.ends_with(want) => {}
                (_, got) => panic!("{key} {name}: {got:?}"),
            }
            assert!(place.size > 0, "{key} {name}");
        }
    }
}
