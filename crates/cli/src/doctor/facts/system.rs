//! Files in which the kernel describes itself.

use std::fs;
use std::path::{Path, PathBuf};

/// The directory with `proc`, `sys` and `etc`.
#[derive(Clone, Debug)]
pub(crate) struct System(PathBuf);

impl System {
    pub(crate) fn new(root: &Path) -> Self {
        Self(root.to_owned())
    }

    /// The path of a file below the directory.
    pub(super) fn path(&self, below: &str) -> PathBuf {
        self.0.join(below.trim_start_matches('/'))
    }

    pub(super) fn has(&self, below: &str) -> bool {
        self.path(below).exists()
    }

    /// A file's text without white space around it; `None` if it can't be read.
    pub(super) fn text(&self, below: &str) -> Option<String> {
        let bytes = fs::read(self.path(below)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// A setting of the kernel (sysctl(8)), such as `net.core.somaxconn`.
    pub(super) fn sysctl(&self, key: &str) -> Option<String> {
        self.text(&format!("proc/sys/{}", key.replace('.', "/")))
    }

    /// A setting that is a number.
    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.sysctl(key)?.parse().ok()
    }

    /// The ids of all processes.
    pub(super) fn processes(&self) -> Vec<u32> {
        let entries = fs::read_dir(self.path("proc")).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut ids: Vec<_> = names.filter_map(|name| name.parse().ok()).collect();
        ids.sort_unstable();
        ids
    }

    /// The name of a process's program, at most 15 bytes.
    pub(super) fn name(&self, process: u32) -> Option<String> {
        self.text(&format!("proc/{process}/comm"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::System;

    /// A system of these files.
    pub(in crate::doctor) fn system(files: &[(&str, &str)]) -> (TempDir, System) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let system = System::new(dir.path());
        (dir, system)
    }
}
