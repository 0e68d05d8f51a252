//! The root directory: lookups that the kernel keeps below it.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::{Errno, Result, retry_on_intr};

use super::config::Symlinks;
use super::directories::Directories;
use super::trust::Trust;

/// Whether a lookup or a read may wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// It fails with `EAGAIN` if the data is not in memory.
    Never,
    /// It may take long, and so belongs on a thread for blocking work.
    Allowed,
}

/// An open directory, above which no file can be opened, but for links that lead to trusted places.
///
/// The directory is opened once. A directory that takes its place under the same name is seen after
/// a reload of the configuration.
#[derive(Debug)]
pub(super) struct Root {
    directory: Arc<OwnedFd>,
    symlinks: Symlinks,
    trust: Trust,
    lookup: Lookup,
}

/// How the kernel looks names up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lookup {
    /// `openat2` (Linux 5.6). `RESOLVE_CACHED` came with Linux 5.12.
    Openat2 { has_cached: bool },
    /// Name by name, without following any link.
    Walk,
}

impl Root {
    pub(super) fn open(path: &Path, symlinks: Symlinks, directories: &Directories) -> Result<Self> {
        let directory = directories.open(path)?;
        let lookup = Lookup::probe(&directory)?;
        if lookup == Lookup::Walk && symlinks == Symlinks::Beneath {
            tracing::warn!("the kernel has no openat2: symbolic links are not followed");
        }
        Ok(Self {
            directory,
            symlinks,
            trust: Trust::Nothing,
            lookup,
        })
    }

    /// Follows links to these places, too.
    pub(super) fn trusting(self, trust: Trust) -> Self {
        Self { trust, ..self }
    }

    /// Opens a path below the root for reading.
    ///
    /// Opening never waits for the other end of a pipe.
    ///
    /// # Errors
    /// `EXDEV` or `ELOOP` for a path that leaves the root and trusted places, or has a link that is not
    /// followed.
    /// `EAGAIN` if the lookup would have to wait.
    pub(super) fn open_beneath(&self, path: &Path, wait: Wait) -> Result<OwnedFd> {
        let opened = self.look_up(path, wait);
        match (opened, wait) {
            (opened, _) if self.trust == Trust::Nothing => opened,
            (Err(Errno::XDEV), Wait::Never) => Err(Errno::AGAIN),
            (Err(Errno::XDEV), Wait::Allowed) => self.trust.open(&self.directory, path, READ),
            (opened, _) => opened,
        }
    }

    fn look_up(&self, path: &Path, wait: Wait) -> Result<OwnedFd> {
        match self.lookup {
            Lookup::Openat2 { has_cached } => {
                let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
                if self.symlinks == Symlinks::Never {
                    resolve |= ResolveFlags::NO_SYMLINKS;
                }
                match wait {
                    Wait::Never if has_cached => resolve |= ResolveFlags::CACHED,
                    Wait::Never => return Err(Errno::AGAIN),
                    Wait::Allowed => {}
                }
                self.open_resolving(path, resolve)
            }
            Lookup::Walk if wait == Wait::Never => Err(Errno::AGAIN),
            Lookup::Walk => self.walk(path),
        }
    }

    /// Tries a few times. A rename elsewhere may keep `openat2` from proving that the path stays
    /// beneath, and then it fails with `EAGAIN`, too.
    fn open_resolving(&self, path: &Path, resolve: ResolveFlags) -> Result<OwnedFd> {
        let mut attempts = if resolve.contains(ResolveFlags::CACHED) {
            1
        } else {
            8
        };
        loop {
            attempts -= 1;
            match openat2(&self.directory, path, READ, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) if attempts > 0 => {}
                result => return result,
            }
        }
    }

    fn walk(&self, path: &Path) -> Result<OwnedFd> {
        let mut names = path
            .as_os_str()
            .as_bytes()
            .split(|&byte| byte == b'/')
            .peekable();
        let mut opened: Option<OwnedFd> = None;
        while let Some(name) = names.next() {
            if name == b".." || name.is_empty() {
                return Err(Errno::XDEV);
            }
            let within = opened.as_ref().map_or(self.directory.as_fd(), AsFd::as_fd);
            let flags = if names.peek().is_some() {
                OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC
            } else {
                READ
            };
            opened = Some(open_name(within, name, flags | OFlags::NOFOLLOW)?);
        }
        opened.ok_or(Errno::NOENT)
    }
}

impl Lookup {
    fn probe(directory: &OwnedFd) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let attempt = |resolve| openat2(directory, c".", flags, Mode::empty(), resolve);
        match attempt(ResolveFlags::BENEATH) {
            Ok(_) => {}
            // Old container sandboxes refuse unknown system calls with EPERM.
            Err(Errno::NOSYS | Errno::PERM) => return Ok(Self::Walk),
            Err(error) => return Err(error),
        }
        let cached = attempt(ResolveFlags::BENEATH | ResolveFlags::CACHED);
        Ok(Self::Openat2 {
            has_cached: matches!(cached, Ok(_) | Err(Errno::AGAIN)),
        })
    }
}

fn open_name(within: BorrowedFd<'_>, name: &[u8], flags: OFlags) -> Result<OwnedFd> {
    retry_on_intr(|| openat(within, name, flags, Mode::empty()))
}

const READ: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY)
    .union(OFlags::NONBLOCK);

#[cfg(test)]
mod tests {
    use super::super::FilesConfig;
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn opened(path: &Path, symlinks: Symlinks) -> Result<Root> {
        Root::open(path, symlinks, &Directories::default())
    }

    /// A root with a file, links in and out of it, and a secret beside it.
    fn tree() -> tempfile::TempDir {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        fs::create_dir_all(root.join("dir/deep")).unwrap();
        fs::write(outer.path().join("secret"), "secret").unwrap();
        fs::write(root.join("file"), "file").unwrap();
        fs::write(root.join("dir/deep/file"), "deep").unwrap();
        symlink("file", root.join("link")).unwrap();
        symlink("../../file", root.join("dir/deep/up")).unwrap();
        symlink("dir", root.join("dirlink")).unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink("..", root.join("outdir")).unwrap();
        symlink(outer.path().join("secret"), root.join("absolute")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        outer
    }

    #[test]
    fn lookups_stay_beneath() {
        let outer = tree();
        let path = outer.path().join("root");
        // name, beneath, never, without openat2
        type Case<'a> = (&'a str, Result<()>, Result<()>, Result<()>);
        let cases: &[Case<'_>] = &[
            ("file", Ok(()), Ok(()), Ok(())),
            (".", Ok(()), Ok(()), Ok(())),
            ("dir/deep/file", Ok(()), Ok(()), Ok(())),
            ("link", Ok(()), Err(Errno::LOOP), Err(Errno::LOOP)),
            ("dir/deep/up", Ok(()), Err(Errno::LOOP), Err(Errno::LOOP)),
            (
                "dirlink/deep/file",
                Ok(()),
                Err(Errno::LOOP),
                Err(Errno::NOTDIR),
            ),
            ("out", Err(Errno::XDEV), Err(Errno::LOOP), Err(Errno::LOOP)),
            (
                "outdir/secret",
                Err(Errno::XDEV),
                Err(Errno::LOOP),
                Err(Errno::NOTDIR),
            ),
            (
                "absolute",
                Err(Errno::XDEV),
                Err(Errno::LOOP),
                Err(Errno::LOOP),
            ),
            ("loop", Err(Errno::LOOP), Err(Errno::LOOP), Err(Errno::LOOP)),
            (
                "../secret",
                Err(Errno::XDEV),
                Err(Errno::XDEV),
                Err(Errno::XDEV),
            ),
            (
                "dir/../../secret",
                Err(Errno::XDEV),
                Err(Errno::XDEV),
                Err(Errno::XDEV),
            ),
            (
                "/etc/passwd",
                Err(Errno::XDEV),
                Err(Errno::XDEV),
                Err(Errno::XDEV),
            ),
            (
                "file/x",
                Err(Errno::NOTDIR),
                Err(Errno::NOTDIR),
                Err(Errno::NOTDIR),
            ),
            (
                "absent",
                Err(Errno::NOENT),
                Err(Errno::NOENT),
                Err(Errno::NOENT),
            ),
        ];
        let beneath = opened(&path, Symlinks::Beneath).unwrap();
        let never = opened(&path, Symlinks::Never).unwrap();
        let mut walk = opened(&path, Symlinks::Beneath).unwrap();
        walk.lookup = Lookup::Walk;
        for (name, want_beneath, want_never, want_walk) in cases {
            let open = |root: &Root| root.open_beneath(Path::new(name), Wait::Allowed).map(drop);
            assert_eq!(open(&beneath), *want_beneath, "{name}, beneath");
            assert_eq!(open(&never), *want_never, "{name}, never");
            assert_eq!(open(&walk), *want_walk, "{name}, without openat2");
        }
    }

    #[test]
    fn links_lead_to_trusted_places() {
        let outer = tree();
        let (path, beside) = (outer.path().join("root"), outer.path().join("beside"));
        fs::create_dir(&beside).unwrap();
        fs::write(beside.join("file"), "beside").unwrap();
        symlink("../beside", path.join("trusted")).unwrap();
        symlink(beside.join("file"), path.join("trusted-file")).unwrap();
        symlink(path.join("file"), path.join("back")).unwrap();
        symlink("../secret", beside.join("further")).unwrap();
        fs::create_dir(outer.path().join("beside-not")).unwrap();
        fs::write(outer.path().join("beside-not/file"), "not").unwrap();
        symlink("../beside-not", path.join("prefix")).unwrap();
        let config = |symlinks, trusted_roots: &[&Path]| FilesConfig {
            symlinks,
            trusted_roots: trusted_roots
                .iter()
                .map(|path| path.to_path_buf())
                .collect(),
            ..FilesConfig::default()
        };
        let open = |config: FilesConfig| {
            let trust = Trust::new(&path, &config).unwrap();
            opened(&path, config.symlinks).unwrap().trusting(trust)
        };
        let trusting = open(config(Symlinks::Beneath, &[&beside]));
        let following = open(config(Symlinks::Follow, &[]));
        let refused = Some(Errno::XDEV);
        // name, trusting `beside`, following all
        let cases = [
            ("file", None, None),
            ("dir/deep/up", None, None),
            ("trusted/file", None, None),
            ("trusted-file", None, None),
            ("back", None, None),
            ("trusted/further", refused, None),
            ("prefix/file", refused, None),
            ("absolute", refused, None),
            ("outdir/secret", refused, None),
            ("../secret", refused, refused),
            ("dir/../../secret", refused, refused),
            ("/etc/passwd", refused, refused),
            ("loop", Some(Errno::LOOP), Some(Errno::LOOP)),
        ];
        for (name, want_trusting, want_following) in cases {
            let open = |root: &Root| root.open_beneath(Path::new(name), Wait::Allowed).err();
            assert_eq!(open(&trusting), want_trusting, "{name}, trusting");
            assert_eq!(open(&following), want_following, "{name}, following");
        }
        let outside = Path::new("trusted/file");
        let waiting = trusting.open_beneath(outside, Wait::Never).err();
        assert_eq!(waiting, Some(Errno::AGAIN));
        let wrong = Trust::new(&path, &config(Symlinks::Never, &[&beside])).unwrap_err();
        assert!(
            wrong.to_string().starts_with("`trusted_roots` is only for"),
            "{wrong}"
        );
        let absent = Trust::new(&path, &config(Symlinks::Beneath, &[Path::new("/absent")]));
        let absent = absent.unwrap_err().to_string();
        assert_eq!(absent, "`trusted_roots`: `/absent`");
    }

    #[test]
    fn a_lookup_that_must_not_wait_uses_memory_alone() {
        let outer = tree();
        let root = opened(&outer.path().join("root"), Symlinks::Beneath).unwrap();
        let path = Path::new("dir/deep/file");
        root.open_beneath(path, Wait::Allowed).unwrap();
        root.open_beneath(path, Wait::Never).unwrap();
        let mut walk = root;
        walk.lookup = Lookup::Walk;
        assert_eq!(
            walk.open_beneath(path, Wait::Never).unwrap_err(),
            Errno::AGAIN
        );
    }

    #[test]
    fn opening_a_pipe_does_not_wait_for_its_writer() {
        let outer = tree();
        let path = outer.path().join("root");
        rustix::fs::mkfifoat(rustix::fs::CWD, path.join("pipe"), Mode::RUSR).unwrap();
        let root = opened(&path, Symlinks::Beneath).unwrap();
        root.open_beneath(Path::new("pipe"), Wait::Allowed).unwrap();
    }
}
