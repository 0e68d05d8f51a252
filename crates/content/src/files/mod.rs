//! Files below a root directory.
//!
//! The kernel keeps lookups below the root (`openat2` with `RESOLVE_BENEATH`). Their results are
//! kept for a second by request path, small files with their content. A request for one then costs
//! no system call. Data in the page cache is read in place, and only waiting for a disk goes to
//! another thread.
//!
//! Conditions and ranges follow RFC 9110 §13 and §14.

mod buffer;
mod cache;
mod coded;
mod conditional;
mod config;
mod directories;
mod listing;
mod media_type;
mod negotiate;
mod path;
mod range;
mod representation;
mod responses;
mod root;
mod rules;
mod stream;
mod tree;
mod trust;
mod whole;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use http::header;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use rustix::fd::OwnedFd;

use super::{Body, ErrorReason, status_response};
use crate::compress::{self, Compression};
use cache::{Cache, Lookup};
use coded::{Made, Shelf};
use path::Target;
use representation::Representation;
use responses::{allow, error_page, failed, send};
use root::Wait;
use tree::{Choice, FindError, Found, Resource, Tree};

pub(crate) use conditional::{
    Outcome, Tag, Tags, Validators, evaluate, is_conditional, range_holds,
};
pub use config::{CacheRule, FilesConfig, Symlinks};
pub use directories::Directories;
pub use negotiate::Coding;
pub(crate) use negotiate::choose;
pub(crate) use range::{Multipart, Ranges, content_range};
pub(crate) use representation::http_date;
pub(crate) use responses::{add_slash, copy_header, insert_text, unsatisfiable};
pub(crate) use rules::MediaTypes;
pub use stream::{FileStream, ReadError};
pub(crate) use whole::PreparedHeads;
pub use whole::WholeFile;

/// Serves the files below a root directory to `GET` and `HEAD`.
#[derive(Debug)]
pub struct Files {
    tree: Arc<Tree>,
    cache: Cache<Arc<Resource>>,
    /// Request path of the page that is sent, with status 200, for a path that names no file.
    fallback: Option<String>,
    /// Request path of the page that is sent, with status 404, for a path that names no file.
    not_found: Option<String>,
    compression: Option<Arc<Compression>>,
    shelf: Shelf,
    started: Instant,
}

impl Files {
    /// Opens a root directory for serving.
    ///
    /// The directory is opened here once. A directory that takes its place later under the same
    /// name is not noticed.
    ///
    /// # Errors
    /// If the directory cannot be opened, or a setting cannot be used.
    pub fn open(root: &Path, config: &FilesConfig) -> Result<Self, FilesError> {
        Self::compressed(root, config, None, &Directories::default())
    }

    /// Opens a root directory as [`Files::open`] does, and has its files compressed.
    ///
    /// # Errors
    /// As [`Files::open`].
    pub(crate) fn compressed(
        root: &Path,
        config: &FilesConfig,
        compression: Option<Arc<Compression>>,
        directories: &Directories,
    ) -> Result<Self, FilesError> {
        let kept = compression.as_ref().map_or(0, |it| it.cache);
        let kept = if config.cache_entries == 0 { 0 } else { kept };
        let page = |key, page: &Option<String>| {
            let page = page.as_ref();
            page.map(|page| page_path(key, page)).transpose()
        };
        Ok(Self {
            tree: Arc::new(Tree::open(root, config, compression.clone(), directories)?),
            cache: Cache::new(config.cache_entries, config.revalidate),
            fallback: page("fallback", &config.fallback)?,
            not_found: page("not_found", &config.not_found)?,
            compression,
            shelf: Shelf::new(kept),
            started: Instant::now(),
        })
    }

    /// Answers a request from its head by the file at `path`, which may be another than the client's.
    /// The request's content has no meaning here.
    pub(super) async fn respond(&self, request: &Parts, path: &str) -> Response<Body> {
        match request.method {
            Method::GET | Method::HEAD => {}
            Method::OPTIONS => return allow(StatusCode::NO_CONTENT),
            _ => return allow(StatusCode::METHOD_NOT_ALLOWED),
        }
        let mut response = match self.find(path).await {
            Ok(Found::File(file)) => return self.send(&file, path, request).await,
            Ok(Found::Unslashed) => return add_slash(request.uri.path(), request.uri.query()),
            Ok(Found::Directory(target, directory)) => self.list(target, directory).await,
            Err(error) => match self.fallback(&error).await {
                Some((file, path)) => return self.send(&file, path, request).await,
                None => self.refuse(&error).await,
            },
        };
        let plan = |it: &Arc<Compression>| it.plan(&request.method, &request.headers);
        if let Some(plan) = self.compression.as_ref().and_then(plan) {
            plan.apply(&mut response);
        }
        response
    }

    /// Sends the representation of a file that suits the client.
    async fn send(&self, file: &Arc<Resource>, path: &str, request: &Parts) -> Response<Body> {
        match file.select(&request.headers) {
            Choice::Ready(chosen) => self.send_chosen(chosen, file.plain(), request),
            Choice::ToMake(made, coding) => {
                // Boxed, since it is seldom and larger than all else here.
                let made = Box::pin(self.make(made, coding, file, path)).await;
                let chosen = made.as_ref().unwrap_or(file.plain());
                self.send_chosen(chosen, file.plain(), request)
            }
        }
    }

    /// Makes a coding of a file, for which others may lose theirs.
    async fn make(
        &self,
        made: &Made,
        coding: Coding,
        file: &Arc<Resource>,
        path: &str,
    ) -> Option<Arc<Representation>> {
        let coded = made.make(coding, file, &self.shelf).await;
        for evicted in self.shelf.add(path, file) {
            self.cache.remove(&evicted);
        }
        coded
    }

    /// Sends a file. One that is coded meanwhile is sent plain if there is no memory for that.
    fn send_chosen(
        &self,
        chosen: &Representation,
        plain: &Representation,
        request: &Parts,
    ) -> Response<Body> {
        let coding = chosen.coding.filter(|_| chosen.is_coded_later);
        let (Some(compression), Some(coding)) = (&self.compression, coding) else {
            return send(chosen, request);
        };
        let settings = compression.settings(coding);
        let Some(lease) = compression.lease(settings, Some(plain.len)) else {
            return send(plain, request);
        };
        let response = send(chosen, request);
        match (response.status(), &request.method) {
            (StatusCode::OK, &Method::HEAD) => response.map(|_| Body::empty()),
            (StatusCode::OK, _) => response.map(|body| compress::encode(body, settings, lease)),
            _ => response,
        }
    }

    /// The file that is sent in place of one that is not there, and its path.
    async fn fallback(&self, error: &FindError) -> Option<(Arc<Resource>, &str)> {
        let path = self.fallback.as_ref()?;
        if error.status() != StatusCode::NOT_FOUND {
            return None;
        }
        match self.find(path).await {
            Ok(Found::File(file)) => Some((file, path)),
            _ => None,
        }
    }

    /// Returns the file that answers a request with all its content, if that is in memory. The
    /// request's path and fields decide; its method is GET or HEAD.
    ///
    /// `None` says nothing of the answer, which [`Files::respond`] then gives.
    pub(super) fn whole(&self, path: &str, headers: &HeaderMap) -> Option<WholeFile> {
        let file = self.cache.fresh(path, self.now_ms())?;
        if conditional::is_conditional(headers) {
            return None;
        }
        match file.select(headers) {
            Choice::Ready(chosen) => WholeFile::new(chosen),
            Choice::ToMake(..) => None,
        }
    }

    /// The time since the start, in milliseconds.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn find(&self, path: &str) -> Result<Found, FindError> {
        let now_ms = self.now_ms();
        let known = match self.cache.lookup(path, now_ms) {
            Lookup::Fresh(file) => return Ok(Found::File(file)),
            Lookup::Due(file) => Some(file),
            Lookup::Absent => None,
        };
        let mut found = self.tree.find(path, known.as_ref(), Wait::Never);
        if matches!(&found, Err(error) if error.would_wait()) {
            found = self.find_waiting(path.to_owned(), known.clone()).await;
        }
        match (&found, known) {
            (Ok(Found::File(file)), Some(known)) if Arc::ptr_eq(file, &known) => {}
            (Ok(Found::File(file)), Some(_)) => self.cache.insert(path, Arc::clone(file), now_ms),
            // Requests at once share a file, and so its codings.
            (Ok(Found::File(file)), None) => {
                let shared = self.cache.insert_first(path, Arc::clone(file), now_ms);
                return Ok(Found::File(shared));
            }
            // Descriptors or memory ran out: the value of a moment ago will do.
            (Err(error), Some(known)) if error.status().is_server_error() => {
                return Ok(Found::File(known));
            }
            (_, Some(_)) => self.cache.remove(path),
            (_, None) => {}
        }
        found
    }

    async fn find_waiting(
        &self,
        path: String,
        known: Option<Arc<Resource>>,
    ) -> Result<Found, FindError> {
        let tree = Arc::clone(&self.tree);
        let find = move || tree.find(&path, known.as_ref(), Wait::Allowed);
        let found = tokio::task::spawn_blocking(find).await;
        // Only a runtime that shuts down cancels it.
        found.unwrap_or(Err(FindError::Canceled))
    }

    async fn list(&self, target: Target, directory: OwnedFd) -> Response<Body> {
        let tree = Arc::clone(&self.tree);
        let page = move || listing::page(&tree, &target, &directory);
        match tokio::task::spawn_blocking(page).await {
            Ok(Ok(page)) => {
                let mut response = Response::new(Body::from(page));
                response.headers_mut().insert(
                    header::CONTENT_TYPE,
                    HeaderValue::from_static("text/html; charset=utf-8"),
                );
                response
            }
            Ok(Err(error)) => failed(StatusCode::INTERNAL_SERVER_ERROR, &error),
            Err(error) => failed(StatusCode::INTERNAL_SERVER_ERROR, &error),
        }
    }

    async fn refuse(&self, error: &FindError) -> Response<Body> {
        let status = error.status();
        let page = match &self.not_found {
            Some(path) if status == StatusCode::NOT_FOUND => self.find(path).await.ok(),
            _ => None,
        };
        let mut response = match page {
            Some(Found::File(page)) => error_page(status, page.plain()),
            _ => status_response(status),
        };
        if !error.is_plain_absence() {
            let reason = ErrorReason::from_error(error);
            response.extensions_mut().insert(reason);
        }
        response
    }
}

/// Returns the request path of a configured page.
fn page_path(key: &'static str, page: &str) -> Result<String, FilesError> {
    let path = format!("/{}", path::encode_path(page.trim_start_matches('/')));
    match Target::parse(&path, false) {
        Ok(target) if !target.is_directory() => Ok(path),
        _ => Err(FilesError::Page {
            key,
            path: page.to_owned(),
        }),
    }
}

/// Why a root directory cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// The root does not exist, is no directory, or may not be read.
    #[error("opening the root directory `{}`", path.display())]
    Root {
        /// The root as it was given.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// An entry of `trusted_roots` can't be used.
    #[error("`trusted_roots`: `{}`", path.display())]
    TrustedRoot {
        /// The entry.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// `trusted_roots` does not fit to `symlinks`.
    #[error(
        "`trusted_roots` is only for `symlinks = \"beneath\"`: the other values follow all links, or none"
    )]
    Trust,
    /// An entry of `index` is no file's name within a directory.
    #[error("`index`: `{name}` is not a plain file name")]
    Index {
        /// The entry of `index`.
        name: String,
    },
    /// An entry of `extensions` can't be added to a path.
    #[error("`extensions`: `{extension}` is no extension such as `.html`")]
    Extension {
        /// The entry of `extensions`.
        extension: String,
    },
    /// The setting `fallback` or `not_found` names no file that is served.
    #[error("`{key}`: `{path}` is no path of a file below the root, or a hidden one")]
    Page {
        /// The configuration key.
        key: &'static str,
        /// Its value.
        path: String,
    },
    /// `small_body` is above its bound.
    #[error("`small_body` is more than 1MiB")]
    SmallBody,
    /// A pattern of `cache_control` is no glob.
    #[error("`cache_control`: reading the pattern `{pattern}`")]
    Pattern {
        /// The rule's pattern.
        pattern: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A configured header value has characters that no header may have.
    #[error("`{key}`: `{value}` cannot be a header's value")]
    HeaderValue {
        /// The configuration key.
        key: &'static str,
        /// The value as configured.
        value: String,
        /// The cause.
        #[source]
        source: header::InvalidHeaderValue,
    },
}

impl FilesError {
    fn pattern(pattern: &str, source: globset::Error) -> Self {
        Self::Pattern {
            pattern: pattern.to_owned(),
            source: source.into(),
        }
    }
}
