//! Lookup of a request's path: a file, a redirect or a listing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Stat, fstat};
use rustix::io::Errno;

use super::FilesError;
use super::config::FilesConfig;
use super::negotiate::{self, Coding};
use super::path::{PathError, Target};
use super::representation::{OpenFile, Representation};
use super::root::{Root, Wait};
use super::rules::Rules;

/// A file in all its codings.
#[derive(Debug)]
pub(super) struct Resource {
    plain: Arc<Representation>,
    coded: Vec<Arc<Representation>>,
}

impl Resource {
    /// The representation that suits the client's `Accept-Encoding`.
    pub(super) fn select(&self, headers: &HeaderMap) -> &Arc<Representation> {
        if self.coded.is_empty() {
            return &self.plain;
        }
        let available = self.coded.iter().filter_map(|coded| coded.coding);
        let chosen = negotiate::choose(headers, available);
        let coded = self.coded.iter().find(|coded| coded.coding == chosen);
        coded.unwrap_or(&self.plain)
    }

    pub(super) fn plain(&self) -> &Representation {
        &self.plain
    }

    fn representations(&self) -> impl Iterator<Item = &Arc<Representation>> {
        std::iter::once(&self.plain).chain(&self.coded)
    }
}

/// The result of a lookup.
#[derive(Debug)]
pub(super) enum Found {
    File(Arc<Resource>),
    /// A directory whose path lacks the slash at its end.
    Unslashed,
    /// A directory that is to be listed.
    Directory(Target, OwnedFd),
}

/// Why a lookup failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum FindError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("opening `{}`", path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: Errno,
    },
    #[error("`{}` is no regular file", path.display())]
    Irregular { path: PathBuf },
    #[error("looking up a path was given up: the server is stopping")]
    Canceled,
}

impl FindError {
    fn open(path: &Path, source: Errno) -> Self {
        Self::Open {
            path: path.to_owned(),
            source,
        }
    }

    /// Whether the answer is on disk, so that the lookup is to be repeated with [`Wait::Allowed`].
    pub(super) const fn would_wait(&self) -> bool {
        matches!(
            self,
            Self::Open {
                source: Errno::AGAIN,
                ..
            }
        )
    }

    /// Whether the file just does not exist, which the log need not mention.
    pub(super) const fn is_plain_absence(&self) -> bool {
        matches!(
            self,
            Self::Open {
                source: Errno::NOENT | Errno::NOTDIR,
                ..
            }
        )
    }

    pub(super) const fn status(&self) -> StatusCode {
        match self {
            Self::Path(PathError::Malformed) => StatusCode::BAD_REQUEST,
            Self::Path(PathError::TooLong) => StatusCode::URI_TOO_LONG,
            Self::Path(PathError::Hidden) | Self::Irregular { .. } => StatusCode::NOT_FOUND,
            Self::Canceled => StatusCode::SERVICE_UNAVAILABLE,
            Self::Open { source, .. } => match *source {
                Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG
                // These are links out of the root, links that are not followed, and sockets.
                | Errno::XDEV | Errno::LOOP | Errno::NXIO => StatusCode::NOT_FOUND,
                Errno::ACCESS | Errno::PERM => StatusCode::FORBIDDEN,
                Errno::MFILE | Errno::NFILE | Errno::NOMEM => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            },
        }
    }
}

/// The files below a root, and how they are looked up.
#[derive(Debug)]
pub(super) struct Tree {
    root: Root,
    rules: Rules,
    index: Vec<String>,
    precompressed: Vec<Coding>,
    lists: bool,
    pub(super) shows_hidden: bool,
}

impl Tree {
    pub(super) fn open(root: &Path, config: &FilesConfig) -> Result<Self, FilesError> {
        if let Some(name) = config.index.iter().find(|name| !is_file_name(name)) {
            return Err(FilesError::Index { name: name.clone() });
        }
        Ok(Self {
            root: Root::open(root, config.symlinks).map_err(|source| FilesError::Root {
                path: root.to_owned(),
                source: source.into(),
            })?,
            rules: Rules::new(config)?,
            index: config.index.clone(),
            precompressed: config.precompressed.clone(),
            lists: config.listing,
            shows_hidden: config.hidden,
        })
    }

    /// Looks a path up. Takes over the parts of `known` that have not changed.
    ///
    /// # Errors
    /// One that [would wait](FindError::would_wait) if it must not wait.
    pub(super) fn find(
        &self,
        path: &str,
        known: Option<&Arc<Resource>>,
        wait: Wait,
    ) -> Result<Found, FindError> {
        let target = Target::parse(path, self.shows_hidden)?;
        let (file, stat) = self.open_path(target.as_path(), wait)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if !target.is_directory() => self
                .resource(target.as_path(), (file, stat), known, wait)
                .map(Found::File),
            FileType::Directory if !target.is_directory() => Ok(Found::Unslashed),
            FileType::Directory => self.find_in(target, file, known, wait),
            FileType::RegularFile => Err(FindError::open(target.as_path(), Errno::NOTDIR)),
            _ => Err(FindError::Irregular {
                path: target.as_path().to_owned(),
            }),
        }
    }

    /// Examines the regular file or directory of an entry in a listing.
    pub(super) fn look_at(&self, path: &Path) -> Option<Stat> {
        let (_, stat) = self.open_path(path, Wait::Allowed).ok()?;
        Some(stat)
    }

    fn find_in(
        &self,
        target: Target,
        directory: OwnedFd,
        known: Option<&Arc<Resource>>,
        wait: Wait,
    ) -> Result<Found, FindError> {
        for name in &self.index {
            let path = target.as_path().join(name);
            match self.open_regular(&path, wait) {
                Ok(file) => return self.resource(&path, file, known, wait).map(Found::File),
                Err(error) if error.is_plain_absence() => {}
                Err(error) => return Err(error),
            }
        }
        if self.lists {
            return Ok(Found::Directory(target, directory));
        }
        Err(FindError::open(target.as_path(), Errno::NOENT))
    }

    fn resource(
        &self,
        path: &Path,
        (file, stat): (OwnedFd, Stat),
        known: Option<&Arc<Resource>>,
        wait: Wait,
    ) -> Result<Arc<Resource>, FindError> {
        let plain = OpenFile {
            file,
            stat,
            coding: None,
        };
        let siblings = self.siblings(path, wait)?;
        let varies = !siblings.is_empty();
        let load = |open: OpenFile| {
            let mut before = known.iter().flat_map(|known| known.representations());
            let same =
                |old: &&Arc<Representation>| old.coding == open.coding && old.is_of(&open, varies);
            if let Some(unchanged) = before.find(same) {
                return Ok(Arc::clone(unchanged));
            }
            Representation::load(open, path, varies, &self.rules, wait)
                .map(Arc::new)
                .map_err(|source| FindError::open(path, source))
        };
        let resource = Resource {
            plain: load(plain)?,
            coded: siblings.into_iter().map(load).collect::<Result<_, _>>()?,
        };
        if let Some(known) = known
            && known.coded.len() == resource.coded.len()
            && known
                .representations()
                .zip(resource.representations())
                .all(|(old, new)| Arc::ptr_eq(old, new))
        {
            return Ok(Arc::clone(known));
        }
        Ok(Arc::new(resource))
    }

    /// Finds the precompressed files beside a file, in order of preference.
    fn siblings(&self, path: &Path, wait: Wait) -> Result<Vec<OpenFile>, FindError> {
        let mut siblings = Vec::new();
        for &coding in &self.precompressed {
            let mut sibling = path.as_os_str().to_owned();
            sibling.push(coding.suffix());
            match self.open_regular(Path::new(&sibling), wait) {
                Ok((file, stat)) => siblings.push(OpenFile {
                    file,
                    stat,
                    coding: Some(coding),
                }),
                Err(error) if error.would_wait() => return Err(error),
                // An unreadable sibling is no reason to refuse the file itself.
                Err(_) => {}
            }
        }
        Ok(siblings)
    }

    fn open_regular(&self, path: &Path, wait: Wait) -> Result<(OwnedFd, Stat), FindError> {
        let (file, stat) = self.open_path(path, wait)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((file, stat)),
            FileType::Directory => Err(FindError::open(path, Errno::NOENT)),
            _ => Err(FindError::Irregular {
                path: path.to_owned(),
            }),
        }
    }

    fn open_path(&self, path: &Path, wait: Wait) -> Result<(OwnedFd, Stat), FindError> {
        let opened = self.root.open_beneath(path, wait);
        opened
            .and_then(|file| fstat(&file).map(|stat| (file, stat)))
            .map_err(|source| FindError::open(path, source))
    }
}

/// Whether a configured name is a single name, not a path.
fn is_file_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}
