//! Files in memory that are sent as a whole, with heads that are encoded once.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use hikyaku_h2::message::Prepared as PreparedH2;
use hikyaku_h3::message::Prepared as PreparedH3;
use http::HeaderMap;

use super::representation::{Representation, Source};
use crate::routes::Rules;

/// A file in memory, for a response with status 200 and all its content.
#[derive(Clone, Debug)]
pub struct WholeFile {
    file: Arc<Representation>,
    content: Bytes,
    changes: Option<Arc<Rules>>,
}

/// A file's head as the engines encode it, each at its first use.
#[derive(Debug, Default)]
pub(super) struct PreparedHeads {
    h1: OnceLock<Bytes>,
    h2: OnceLock<PreparedH2>,
    h3: OnceLock<PreparedH3>,
}

impl WholeFile {
    /// `None` if the content is not in memory.
    pub(super) fn new(file: &Arc<Representation>) -> Option<Self> {
        match &file.source {
            Source::Memory(content) => Some(Self {
                content: content.clone(),
                file: Arc::clone(file),
                changes: None,
            }),
            Source::File(_) => None,
        }
    }

    /// The file with these changes of its fields, which are the same at each use of it.
    pub(crate) fn changed_by(mut self, changes: Option<&Arc<Rules>>) -> Self {
        self.changes = changes.cloned();
        self
    }

    /// The content.
    pub const fn content(&self) -> &Bytes {
        &self.content
    }

    /// The fields of the response that the file gives, without changes.
    pub fn headers(&self) -> &HeaderMap {
        &self.file.headers
    }

    /// The head for HTTP/1.1, as [`WholeFile::prepared_h3`].
    pub fn prepared_h1(&self, make: impl FnOnce(&HeaderMap) -> Bytes) -> &Bytes {
        let heads = &self.file.prepared;
        heads.h1.get_or_init(|| self.head(make))
    }

    /// The head for HTTP/2, as [`WholeFile::prepared_h3`].
    pub fn prepared_h2(&self, make: impl FnOnce(&HeaderMap) -> PreparedH2) -> &PreparedH2 {
        let heads = &self.file.prepared;
        heads.h2.get_or_init(|| self.head(make))
    }

    /// The head for HTTP/3. The first caller for this file makes it, so that all have to make the
    /// same of the file's fields.
    pub fn prepared_h3(&self, make: impl FnOnce(&HeaderMap) -> PreparedH3) -> &PreparedH3 {
        let heads = &self.file.prepared;
        heads.h3.get_or_init(|| self.head(make))
    }

    fn head<T>(&self, make: impl FnOnce(&HeaderMap) -> T) -> T {
        let Some(changes) = &self.changes else {
            return make(&self.file.headers);
        };
        let mut headers = self.file.headers.clone();
        changes.apply(&mut headers);
        make(&headers)
    }
}
