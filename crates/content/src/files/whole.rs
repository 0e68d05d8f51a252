//! Files and stored responses in memory that are sent as a whole, with heads that are encoded once.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use hikyaku_h2::message::Prepared as PreparedH2;
use hikyaku_h3::message::Prepared as PreparedH3;
use http::{HeaderMap, HeaderName, header};

use super::representation::{Representation, Source};
use crate::cache::{AgedHead, CacheOutcome};
use crate::routes::{Rules, SERVER};

/// A file or a stored response in memory, for a response with status 200 and all its content.
#[derive(Clone, Debug)]
pub struct WholeFile {
    head: Head,
    content: Bytes,
    changes: Option<Arc<Rules>>,
    is_logged: bool,
}

#[derive(Clone, Debug)]
enum Head {
    File(Arc<Representation>),
    Stored(Arc<AgedHead>),
}

/// A head as the engines encode it, each at its first use.
#[derive(Debug, Default)]
pub(crate) struct PreparedHeads {
    h1: OnceLock<Bytes>,
    h2: OnceLock<PreparedH2>,
    h3: OnceLock<PreparedH3>,
}

impl WholeFile {
    /// `None` if the content, as it is sent, is not in memory.
    pub(super) fn new(file: &Arc<Representation>) -> Option<Self> {
        match &file.source {
            _ if file.is_coded_later => None,
            Source::Memory(content) => Some(Self {
                content: content.clone(),
                head: Head::File(Arc::clone(file)),
                changes: None,
                is_logged: true,
            }),
            Source::File(_) => None,
        }
    }

    /// A stored response, whose head is prepared with these changes.
    pub(crate) const fn stored(
        head: Arc<AgedHead>,
        content: Bytes,
        changes: Option<Arc<Rules>>,
    ) -> Self {
        Self {
            head: Head::Stored(head),
            content,
            changes,
            is_logged: true,
        }
    }

    /// The file with these changes of its fields, which are the same at each use of it.
    pub(crate) fn changed_by(mut self, changes: Option<&Arc<Rules>>) -> Self {
        self.changes = changes.cloned();
        self
    }

    /// The file for a request that the access log has, or does not have.
    pub(crate) fn logged(self, is_logged: bool) -> Self {
        Self { is_logged, ..self }
    }

    /// Whether the access log has the request.
    pub const fn is_logged(&self) -> bool {
        self.is_logged
    }

    /// The content.
    pub const fn content(&self) -> &Bytes {
        &self.content
    }

    /// The fields of the response that the file gives, without changes. Those of a stored response have
    /// `Date`.
    pub fn headers(&self) -> &HeaderMap {
        match &self.head {
            Head::File(file) => &file.headers,
            Head::Stored(stored) => &stored.headers,
        }
    }

    /// Whether the response has a field, with the changes.
    pub fn has(&self, name: &HeaderName) -> bool {
        let changed = self
            .changes
            .as_ref()
            .and_then(|changes| changes.decides(name));
        changed.unwrap_or_else(|| self.headers().contains_key(name))
    }

    /// The outcome at the cache, where that has the response.
    pub const fn cache_outcome(&self) -> Option<CacheOutcome> {
        match &self.head {
            Head::File(_) => None,
            Head::Stored(_) => Some(CacheOutcome::Hit),
        }
    }

    /// The head for HTTP/1.1, as [`WholeFile::prepared_h3`].
    pub fn prepared_h1(&self, make: impl FnOnce(&HeaderMap) -> Bytes) -> &Bytes {
        let heads = self.prepared();
        heads.h1.get_or_init(|| self.head(make))
    }

    /// The head for HTTP/2, as [`WholeFile::prepared_h3`].
    pub fn prepared_h2(&self, make: impl FnOnce(&HeaderMap) -> PreparedH2) -> &PreparedH2 {
        let heads = self.prepared();
        heads.h2.get_or_init(|| self.head(make))
    }

    /// The head for HTTP/3, with the changes of the fields and `Server`. The first caller for this file makes it,
    /// and so for all others.
    pub fn prepared_h3(&self, make: impl FnOnce(&HeaderMap) -> PreparedH3) -> &PreparedH3 {
        let heads = self.prepared();
        heads.h3.get_or_init(|| self.head(make))
    }

    fn prepared(&self) -> &PreparedHeads {
        match &self.head {
            Head::File(file) => &file.prepared,
            Head::Stored(stored) => &stored.prepared,
        }
    }

    fn head<T>(&self, make: impl FnOnce(&HeaderMap) -> T) -> T {
        let mut headers = self.headers().clone();
        if let Some(changes) = &self.changes {
            changes.apply(&mut headers, None);
        }
        let changes = self.changes.as_ref();
        if !changes.is_some_and(|changes| changes.removes_server()) {
            headers.entry(header::SERVER).or_insert(SERVER);
        }
        make(&headers)
    }
}
