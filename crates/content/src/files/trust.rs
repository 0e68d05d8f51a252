//! Links that lead out of the root.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat, readlink};
use rustix::io::{Errno, Result};

use super::FilesError;
use super::config::{FilesConfig, Symlinks};

/// The places that links may lead to besides the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// None.
    Nothing,
    /// Below these directories, whose own links are resolved.
    Below(Vec<PathBuf>),
    /// Everywhere.
    All,
}

impl Trust {
    /// # Errors
    /// If a directory is not there, or the settings do not fit together.
    pub(super) fn new(root: &Path, config: &FilesConfig) -> std::result::Result<Self, FilesError> {
        let roots = &config.trusted_roots;
        match config.symlinks {
            Symlinks::Beneath | Symlinks::Never if roots.is_empty() => Ok(Self::Nothing),
            Symlinks::Beneath => {
                let real = |path: &Path| {
                    path.canonicalize()
                        .map_err(|source| FilesError::TrustedRoot {
                            path: path.to_owned(),
                            source,
                        })
                };
                // A link may also lead back into the root by its absolute path.
                let all = roots.iter().map(PathBuf::as_path).chain([root]);
                Ok(Self::Below(
                    all.map(real).collect::<std::result::Result<_, _>>()?,
                ))
            }
            Symlinks::Follow if roots.is_empty() => Ok(Self::All),
            Symlinks::Follow | Symlinks::Never => Err(FilesError::Trust),
        }
    }

    /// Opens a path below `root` for reading, wherever its links lead to, if that may be.
    ///
    /// The file is opened without access to its content first, so that nothing else happens to a file that is
    /// not served.
    ///
    /// # Errors
    /// `EXDEV` for a path that is not below the root by its own names, or leads where links may not.
    pub(super) fn open(&self, root: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd> {
        if !path
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        {
            return Err(Errno::XDEV);
        }
        let found = openat(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let opened = PathBuf::from(format!("/proc/self/fd/{}", found.as_raw_fd()));
        let leads = readlink(&opened, Vec::new())?;
        if !self.has(Path::new(OsStr::from_bytes(leads.as_bytes()))) {
            return Err(Errno::XDEV);
        }
        openat(CWD, &opened, flags, Mode::empty())
    }

    fn has(&self, path: &Path) -> bool {
        match self {
            Self::Nothing => false,
            Self::Below(roots) => roots.iter().any(|root| path.starts_with(root)),
            Self::All => true,
        }
    }
}
