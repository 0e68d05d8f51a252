//! The descriptors of root directories.

use std::path::Path;
use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::Result;

/// The open root directories of a server; clones share them.
///
/// A directory has one descriptor, however many sites and routes serve it. New content has those of the
/// former: with others, a server of thousands of sites would need twice as many during a reload.
#[derive(Clone, Debug, Default)]
pub struct Directories(Arc<Mutex<Registry>>);

#[derive(Debug, Default)]
struct Registry {
    open: HashMap<Identity, Weak<OwnedFd>>,
    /// The number of entries at which those of closed directories go.
    full: usize,
}

/// The identity of an open directory. The mount belongs to it, since others may be mounted below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Identity {
    device: (u32, u32),
    inode: u64,
    mount: u64,
}

impl Directories {
    /// Opens a directory, or returns the descriptor that it has. One that has taken the place of another
    /// under the same name is another directory.
    ///
    /// # Errors
    /// If it can't be opened.
    pub(super) fn open(&self, path: &Path) -> Result<Arc<OwnedFd>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, path, flags, Mode::empty())?;
        match Identity::of(&directory) {
            Some(identity) => Ok(self.0.lock().unify(identity, directory)),
            None => Ok(Arc::new(directory)),
        }
    }
}

impl Registry {
    /// The descriptor of a directory that has just been opened, or the former one.
    fn unify(&mut self, identity: Identity, opened: OwnedFd) -> Arc<OwnedFd> {
        if let Some(former) = self.open.get(&identity).and_then(Weak::upgrade) {
            return former;
        }
        if self.open.len() >= self.full {
            self.open
                .retain(|_, directory| directory.strong_count() > 0);
            self.full = self.open.len() * 2 + 16;
        }
        let opened = Arc::new(opened);
        self.open.insert(identity, Arc::downgrade(&opened));
        opened
    }
}

impl Identity {
    /// `None` where the kernel doesn't report the mount (before Linux 5.8): none is shared then.
    fn of(directory: &OwnedFd) -> Option<Self> {
        let wanted = StatxFlags::INO | StatxFlags::MNT_ID;
        let found = statx(directory, c"", AtFlags::EMPTY_PATH, wanted).ok()?;
        let has_all = StatxFlags::from_bits_retain(found.stx_mask).contains(wanted);
        has_all.then_some(Self {
            device: (found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            mount: found.stx_mnt_id,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_directory_has_one_descriptor_for_as_long_as_it_is_open() {
        let outer = tempfile::tempdir().unwrap();
        let path = |name: &str| outer.path().join(name);
        fs::create_dir(path("a")).unwrap();
        std::os::unix::fs::symlink("a", path("link")).unwrap();
        let directories = Directories::default();
        let first = directories.open(&path("a")).unwrap();
        let again = directories.clone().open(&path("link")).unwrap();
        assert!(Arc::ptr_eq(&first, &again));

        // Another one takes its place.
        fs::rename(path("a"), path("former")).unwrap();
        fs::create_dir(path("a")).unwrap();
        let other = directories.open(&path("a")).unwrap();
        assert!(!Arc::ptr_eq(&first, &other));
        let former = directories.open(&path("former")).unwrap();
        assert!(Arc::ptr_eq(&first, &former));
    }

    #[test]
    fn closed_directories_are_forgotten() {
        let outer = tempfile::tempdir().unwrap();
        let directories = Directories::default();
        for number in 0..200 {
            let path = outer.path().join(number.to_string());
            fs::create_dir(&path).unwrap();
            directories.open(&path).unwrap();
        }
        assert!(directories.0.lock().open.len() <= 16);
    }
}
