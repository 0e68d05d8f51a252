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
mod conditional;
mod config;
mod listing;
mod media_type;
mod negotiate;
mod path;
mod range;
mod representation;
mod root;
mod rules;
mod stream;
mod tree;
mod whole;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use http::header::{self, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use rustix::fd::OwnedFd;

use super::{Body, ErrorReason, status_response};
use cache::{Cache, Lookup};
use conditional::Outcome;
use path::Target;
use range::{Multipart, Ranges};
use representation::Representation;
use root::Wait;
use tree::{FindError, Found, Resource, Tree};

pub use config::{CacheRule, FilesConfig, Symlinks};
pub use negotiate::Coding;
pub use stream::{FileStream, ReadError};
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
        let page = |key, page: &Option<String>| {
            let page = page.as_ref();
            page.map(|page| page_path(key, page)).transpose()
        };
        Ok(Self {
            tree: Arc::new(Tree::open(root, config)?),
            cache: Cache::new(config.cache_entries, config.revalidate),
            fallback: page("fallback", &config.fallback)?,
            not_found: page("not_found", &config.not_found)?,
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
        match self.find(path).await {
            Ok(Found::File(file)) => send(file.select(&request.headers), request),
            Ok(Found::Unslashed) => add_slash(request.uri.path(), request.uri.query()),
            Ok(Found::Directory(target, directory)) => self.list(target, directory).await,
            Err(error) => match self.fallback(&error).await {
                Some(file) => send(file.select(&request.headers), request),
                None => self.refuse(&error).await,
            },
        }
    }

    /// The file that is sent in place of one that is not there.
    async fn fallback(&self, error: &FindError) -> Option<Arc<Resource>> {
        let path = self.fallback.as_ref()?;
        if error.status() != StatusCode::NOT_FOUND {
            return None;
        }
        match self.find(path).await {
            Ok(Found::File(file)) => Some(file),
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
        WholeFile::new(file.select(headers))
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
            (Ok(Found::File(file)), _) => self.cache.insert(path, Arc::clone(file), now_ms),
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

/// Sends a file or a part of it, or answers that the client has it already.
fn send(file: &Representation, request: &Parts) -> Response<Body> {
    if !conditional::is_conditional(&request.headers) {
        return whole(file);
    }
    match conditional::evaluate(&request.headers, file) {
        Outcome::Failed => return status_response(StatusCode::PRECONDITION_FAILED),
        Outcome::NotModified => return not_modified(file),
        Outcome::Send => {}
    }
    // §14.2: ranges are defined for GET alone.
    if request.method != Method::GET || !conditional::range_holds(&request.headers, file) {
        return whole(file);
    }
    match Ranges::of(&request.headers, file.len) {
        Ranges::Whole => whole(file),
        Ranges::Unsatisfiable => unsatisfiable(file.len),
        Ranges::Parts(parts) => match <[Range<u64>; 1]>::try_from(parts) {
            Ok([part]) => one_part(file, part),
            Err(parts) => several_parts(file, parts),
        },
    }
}

fn whole(file: &Representation) -> Response<Body> {
    let mut response = Response::new(file.body());
    *response.headers_mut() = file.headers.clone();
    response
}

/// Makes a 304 with the headers of the 200 that caches need (§15.4.5).
fn not_modified(file: &Representation) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    for name in [
        header::ETAG,
        header::LAST_MODIFIED,
        header::CACHE_CONTROL,
        header::VARY,
    ] {
        copy_header(&file.headers, response.headers_mut(), name);
    }
    response
}

fn one_part(file: &Representation, part: Range<u64>) -> Response<Body> {
    let mut response = whole(file);
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, (part.end - part.start).into());
    insert_text(
        headers,
        header::CONTENT_RANGE,
        range::content_range(&part, file.len),
    );
    *response.body_mut() = range::part_body(&file.source, part);
    response
}

fn several_parts(file: &Representation, parts: Vec<Range<u64>>) -> Response<Body> {
    let mut response = whole(file);
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    let (body, content_type) = Multipart::new(file, parts);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, body.remaining().into());
    headers.insert(header::CONTENT_TYPE, content_type);
    *response.body_mut() = Body::boxed(body);
    response
}

fn unsatisfiable(len: u64) -> Response<Body> {
    let mut response = status_response(StatusCode::RANGE_NOT_SATISFIABLE);
    insert_text(
        response.headers_mut(),
        header::CONTENT_RANGE,
        format!("bytes */{len}"),
    );
    response
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

fn error_page(status: StatusCode, page: &Representation) -> Response<Body> {
    let mut response = Response::new(page.body());
    *response.status_mut() = status;
    for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH] {
        copy_header(&page.headers, response.headers_mut(), name);
    }
    response
}

/// Redirects to the directory's path with its slash, so that relative links in it work. The address is
/// relative: it is right also where the client's path is another, and names no other host.
pub(crate) fn add_slash(path: &str, query: Option<&str>) -> Response<Body> {
    let mut response = status_response(StatusCode::MOVED_PERMANENTLY);
    let name = path.rsplit('/').next().unwrap_or_default();
    let name = crate::routes::normal(name).unwrap_or_default();
    let location = match query {
        Some(query) => format!("./{name}/?{query}"),
        None => format!("./{name}/"),
    };
    insert_text(response.headers_mut(), header::LOCATION, location);
    response
}

fn allow(status: StatusCode) -> Response<Body> {
    let mut response = if status == StatusCode::NO_CONTENT {
        Response::new(Body::empty())
    } else {
        status_response(status)
    };
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::ALLOW,
        HeaderValue::from_static("GET, HEAD, OPTIONS"),
    );
    response
}

fn failed(status: StatusCode, error: &dyn std::error::Error) -> Response<Body> {
    let mut response = status_response(status);
    response
        .extensions_mut()
        .insert(ErrorReason::from_error(error));
    response
}

fn copy_header(from: &HeaderMap, to: &mut HeaderMap, name: HeaderName) {
    if let Some(value) = from.get(&name) {
        to.insert(name, value.clone());
    }
}

/// Inserts a value of digits and ASCII words, which is always a valid one.
fn insert_text(headers: &mut HeaderMap, name: HeaderName, text: String) {
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(name, value);
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
    /// An entry of `index` is no file's name within a directory.
    #[error("`index`: `{name}` is not a plain file name")]
    Index {
        /// The entry of `index`.
        name: String,
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
