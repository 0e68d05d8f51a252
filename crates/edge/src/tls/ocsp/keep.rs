//! Responses that outlive the process, in `state.dir`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A directory with a file for each certificate, named by its fingerprint.
///
/// All of this reads and writes files, and belongs into tokio's pool for blocking work. A response is public,
/// and is checked whenever it is read, so that the files need no protection.
#[derive(Clone, Debug)]
pub(super) struct Kept(PathBuf);

impl Kept {
    pub(super) fn of(state: &Path) -> Self {
        Self(state.join("ocsp"))
    }

    fn file(&self, fingerprint: &str) -> PathBuf {
        let name = fingerprint.replace(':', "").to_ascii_lowercase();
        self.0.join(name).with_extension("der")
    }

    pub(super) fn read(&self, fingerprint: &str) -> Option<Vec<u8>> {
        fs::read(self.file(fingerprint)).ok()
    }

    /// Replaces the file as a whole.
    ///
    /// # Errors
    /// When it can't be written; the former one is there then.
    pub(super) fn write(&self, fingerprint: &str, response: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        let file = self.file(fingerprint);
        let new = file.with_extension("new");
        fs::write(&new, response)?;
        fs::rename(new, file)
    }

    /// Removes the files of all other certificates.
    pub(super) fn retain(&self, fingerprints: &[String]) {
        let wanted: Vec<_> = fingerprints.iter().map(|one| self.file(one)).collect();
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            if !wanted.contains(&path) {
                // One that stays does no harm.
                let _ = fs::remove_file(path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_found_by_their_certificate() {
        let state = tempfile::tempdir().unwrap();
        let kept = Kept::of(state.path());
        assert_eq!(kept.read("AA:BB"), None);
        kept.write("AA:BB", b"1").unwrap();
        kept.write("CC:DD", b"2").unwrap();
        kept.write("AA:BB", b"3").unwrap();
        assert_eq!(kept.read("AA:BB").as_deref(), Some(&b"3"[..]));
        kept.retain(&["AA:BB".to_owned()]);
        assert_eq!(kept.read("AA:BB").as_deref(), Some(&b"3"[..]));
        assert_eq!(kept.read("CC:DD"), None);
        assert!(state.path().join("ocsp/aabb.der").exists());
    }
}
