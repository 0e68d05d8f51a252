//! Lookup of a request's path: a file, a redirect or a listing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderMap, StatusCode, header};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Stat, fstat};
use rustix::io::Errno;

use super::FilesError;
use super::coded::Made;
use super::config::FilesConfig;
use super::directories::Directories;
use super::negotiate::{self, Coding};
use super::path::{PathError, Target};
use super::representation::{OpenFile, Representation};
use super::root::{Root, Wait};
use super::rules::Rules;
use super::trust::Trust;
use crate::compress::Compression;

/// A file in all its codings.
#[derive(Debug)]
pub(super) struct Resource {
    plain: Arc<Representation>,
    coded: Vec<Arc<Representation>>,
    /// Codings that are made on request; `None` if the file is not compressed.
    pub(super) made: Option<Box<Made>>,
}

/// The representation that suits a client.
#[derive(Clone, Copy, Debug)]
pub(super) enum Choice<'a> {
    /// It is there.
    Ready(&'a Arc<Representation>),
    /// It is still to be made.
    ToMake(&'a Made, Coding),
}

impl Resource {
    /// The representation that suits the client's `Accept-Encoding`. A file on disk goes before a coding
    /// that is made.
    pub(super) fn select(&self, headers: &HeaderMap) -> Choice<'_> {
        if self.coded.is_empty() && self.made.is_none() {
            return Choice::Ready(&self.plain);
        }
        let on_disk = self.coded.iter().filter_map(|coded| coded.coding);
        let made = self.made.iter().flat_map(|made| made.codings());
        let chosen = negotiate::choose(headers, on_disk.chain(made));
        let coded = self.coded.iter().find(|coded| coded.coding == chosen);
        match (coded, &self.made, chosen) {
            (Some(coded), ..) => Choice::Ready(coded),
            (None, Some(made), Some(coding)) => match made.get(coding) {
                Some(coded) => Choice::Ready(coded.unwrap_or(&self.plain)),
                None => Choice::ToMake(made, coding),
            },
            _ => Choice::Ready(&self.plain),
        }
    }

    pub(super) const fn plain(&self) -> &Arc<Representation> {
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

    /// Whether no file can have the name.
    const fn is_too_long(&self) -> bool {
        matches!(
            self,
            Self::Open {
                source: Errno::NAMETOOLONG,
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
    extensions: Vec<String>,
    precompressed: Vec<Coding>,
    lists: bool,
    pub(super) shows_hidden: bool,
    compression: Option<Arc<Compression>>,
}

impl Tree {
    pub(super) fn open(
        root: &Path,
        config: &FilesConfig,
        compression: Option<Arc<Compression>>,
        directories: &Directories,
    ) -> Result<Self, FilesError> {
        if let Some(name) = config.index.iter().find(|name| !is_file_name(name)) {
            return Err(FilesError::Index { name: name.clone() });
        }
        if let Some(extension) = config.extensions.iter().find(|it| !is_extension(it)) {
            let extension = extension.clone();
            return Err(FilesError::Extension { extension });
        }
        let failed = |source: Errno| FilesError::Root {
            path: root.to_owned(),
            source: source.into(),
        };
        // The directory goes first, since its error is the plainer one.
        let opened = Root::open(root, config.symlinks, directories).map_err(failed)?;
        Ok(Self {
            root: opened.trusting(Trust::new(root, config)?),
            rules: Rules::new(config)?,
            index: config.index.clone(),
            extensions: config.extensions.clone(),
            precompressed: config.precompressed.clone(),
            lists: config.listing,
            shows_hidden: config.hidden,
            compression,
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
        let (file, stat) = match self.open_path(target.as_path(), wait) {
            Err(error) if error.is_plain_absence() => {
                let extended = self.find_extended(&target, known, wait)?;
                return extended.map(Found::File).ok_or(error);
            }
            opened => opened?,
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if !target.is_directory() => self
                .resource(target.as_path(), (file, stat), known, wait)
                .map(Found::File),
            FileType::Directory if !target.is_directory() => {
                let extended = self.find_extended(&target, known, wait)?;
                Ok(extended.map_or(Found::Unslashed, Found::File))
            }
            FileType::Directory => self.find_in(target, file, known, wait),
            FileType::RegularFile => Err(FindError::open(target.as_path(), Errno::NOTDIR)),
            _ => Err(FindError::Irregular {
                path: target.as_path().to_owned(),
            }),
        }
    }

    /// Looks for the file of a path without its extension.
    fn find_extended(
        &self,
        target: &Target,
        known: Option<&Arc<Resource>>,
        wait: Wait,
    ) -> Result<Option<Arc<Resource>>, FindError> {
        if target.is_directory() || target.is_root() {
            return Ok(None);
        }
        for extension in &self.extensions {
            let mut path = target.as_path().as_os_str().to_owned();
            path.push(extension);
            let path = Path::new(&path);
            match self.open_regular(path, wait) {
                Ok(file) => return self.resource(path, file, known, wait).map(Some),
                Err(error) if error.is_plain_absence() || error.is_too_long() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
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
        let made = self.made(path, plain.stat.st_size);
        let varies = made.is_some() || !siblings.is_empty();
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
            made,
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

    /// The codings of a file that are made on request, before the first of them is.
    fn made(&self, path: &Path, len: i64) -> Option<Box<Made>> {
        let compression = self.compression.as_ref()?;
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, self.rules.content_type(path));
        headers.extend(
            self.rules
                .cache_control(path)
                .map(|value| (header::CACHE_CONTROL, value)),
        );
        let len = u64::try_from(len).ok();
        let is_covered = compression.covers(&headers, len);
        is_covered.then(|| Box::new(Made::new(Arc::clone(compression))))
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

/// Whether a configured text can be the end of a file's name, and leaves room for a path before it.
fn is_extension(text: &str) -> bool {
    text.len() > 1 && text.len() <= 64 && text.starts_with('.') && !text.contains(['/', '\0'])
}
