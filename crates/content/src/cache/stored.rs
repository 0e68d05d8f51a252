//! A stored response.

mod codec;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use parking_lot::RwLock;

use super::aged::AgedHead;
use super::policy::{Received, Rules, Terms, date_of};
use super::status::Status;
use super::vary::Selector;
use crate::files::Validators;
use crate::routes::Rules as FieldRules;

/// The head of a response that may be reused, and the requests that it is for.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) terms: Terms,
    pub(super) selector: Selector,
    /// The names by which it is purged.
    tags: Box<[Box<str>]>,
    /// `Last-Modified` in milliseconds since 1970.
    modified: Option<u64>,
    /// `Date` of the response is surely later than that.
    is_dated_strongly: bool,
    /// The request that it answered was for a user.
    is_personal: bool,
}

/// A complete response.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) head: Arc<Head>,
    pub(super) body: Bytes,
    /// When the upstream failed last to say whether it is current; 0: never.
    failed: AtomicU64,
    /// The head as it was sent last.
    aged: RwLock<Option<Arc<AgedHead>>>,
    /// The number of its file, where the content was read from one.
    of_disk: Option<u64>,
}

/// The fields of a response that are for this cache alone.
const TAGS: [(HeaderName, fn(char) -> bool); 2] = [
    (HeaderName::from_static("cache-tag"), |byte| byte == ','),
    (HeaderName::from_static("surrogate-key"), |byte| byte == ' '),
];

/// Takes the fields that are for this cache alone from a response.
pub(super) fn take_tags(headers: &mut HeaderMap) -> Vec<Box<str>> {
    let mut tags = Vec::new();
    for (name, parts) in TAGS {
        for value in headers.get_all(&name) {
            let names = value.to_str().unwrap_or_default().split(parts);
            let names = names.map(str::trim).filter(|tag| !tag.is_empty());
            tags.extend(names.map(Box::from));
        }
        headers.remove(&name);
    }
    tags
}

impl Head {
    /// The head of a response to a request with the fields `request`, with the fields that are not stored.
    /// `None` if the response is not stored at all. The tags are taken from its fields in any case.
    pub(super) fn new(
        response: &mut http::response::Parts,
        request: &HeaderMap,
        (asked, received): (u64, u64),
        is_personal: bool,
        rules: &Rules,
    ) -> Option<(Self, HeaderMap)> {
        let tags = take_tags(&mut response.headers);
        let judged = Received {
            status: response.status,
            headers: &response.headers,
            asked,
            received,
            is_personal,
        };
        let (terms, left_out) = judged.judge(rules)?;
        let selector = Selector::of(&response.headers, request)?;
        let mut headers = response.headers.clone();
        let mut own = HeaderMap::new();
        for name in left_out {
            move_field(&mut headers, &mut own, &name);
        }
        headers.remove(header::AGE);
        if !headers.contains_key(header::DATE) {
            headers.insert(header::DATE, http_date(received));
        }
        let tags = tags.into();
        let head = Self::of_parts(response.status, headers, terms, selector, tags, is_personal);
        Some((head, own))
    }

    fn of_parts(
        status: StatusCode,
        headers: HeaderMap,
        terms: Terms,
        selector: Selector,
        tags: Box<[Box<str>]>,
        is_personal: bool,
    ) -> Self {
        let date = headers.get(header::DATE).and_then(date_of);
        let modified = headers.get(header::LAST_MODIFIED).and_then(date_of);
        Self {
            status,
            is_dated_strongly: date > modified.map(|modified| modified + 999),
            headers,
            terms,
            selector,
            tags,
            modified,
            is_personal,
        }
    }

    /// This head with the fields of a 304 (RFC 9111 §3.2), and the fields that are not stored.
    ///
    /// # Errors
    /// If the response may not be stored any more. The error has its fields.
    pub(super) fn freshened(
        &self,
        not_modified: &HeaderMap,
        request: &HeaderMap,
        (asked, received): (u64, u64),
        rules: &Rules,
    ) -> Result<(Self, HeaderMap), HeaderMap> {
        let mut headers = self.headers.clone();
        // Without a date the 304 is of now, not of the time of the stored response.
        headers.insert(header::DATE, http_date(received));
        for name in not_modified.keys() {
            if OF_THE_CONTENT.contains(name) {
                continue;
            }
            headers.remove(name);
            for value in not_modified.get_all(name) {
                headers.append(name, value.clone());
            }
        }
        let mut parts = http::Response::new(()).into_parts().0;
        (parts.status, parts.headers) = (self.status, headers);
        let times = (asked, received);
        match Self::new(&mut parts, request, times, self.is_personal, rules) {
            Some((mut head, own)) => {
                if head.tags.is_empty() {
                    head.tags.clone_from(&self.tags);
                }
                Ok((head, own))
            }
            None => Err(parts.headers),
        }
    }

    /// The validators of the response (RFC 9110 §8.8).
    pub(super) fn validators(&self) -> Validators<'_> {
        let modified = self.modified;
        Validators {
            etag: self.headers.get(header::ETAG),
            modified: modified.map(|modified| UNIX_EPOCH + Duration::from_millis(modified)),
            is_dated_strongly: self.is_dated_strongly,
        }
    }

    pub(super) fn tags(&self) -> impl Iterator<Item = &str> {
        self.tags.iter().map(|tag| &**tag)
    }

    pub(super) fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|own| **own == *tag)
    }

    /// This head for content that is complete: with its length, and with ranges.
    fn complete(&self, length: usize) -> Self {
        let mut headers = HeaderMap::with_capacity(self.headers.len() + 2);
        for (name, value) in &self.headers {
            headers.append(name.clone(), unshared(value));
        }
        if !matches!(self.status.as_u16(), 204 | 205) {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        if self.status == StatusCode::OK {
            let bytes = HeaderValue::from_static("bytes");
            headers.entry(header::ACCEPT_RANGES).or_insert(bytes);
        }
        Self {
            headers,
            terms: self.terms.clone(),
            selector: self.selector.clone(),
            tags: self.tags.clone(),
            ..*self
        }
    }

    /// Bytes in memory.
    fn size(&self) -> usize {
        let fields = self.headers.iter();
        let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + FIELD);
        let tags = self
            .tags
            .iter()
            .map(|tag| tag.len() + size_of::<Box<str>>());
        size_of::<Self>() + fields.sum::<usize>() + tags.sum::<usize>() + self.selector.size()
    }
}

impl Stored {
    pub(super) fn new(head: &Head, body: Bytes) -> Self {
        Self {
            head: Arc::new(head.complete(body.len())),
            body,
            failed: AtomicU64::new(0),
            aged: RwLock::default(),
            of_disk: None,
        }
    }

    /// A response that was read from the file of this number.
    pub(super) fn from_disk(head: Head, body: Bytes, file: u64) -> Self {
        Self {
            head: Arc::new(head),
            body,
            failed: AtomicU64::new(0),
            aged: RwLock::default(),
            of_disk: Some(file),
        }
    }

    /// The same content with another head.
    pub(super) fn with_head(&self, head: &Head) -> Self {
        Self {
            of_disk: self.of_disk,
            ..Self::new(head, self.body.clone())
        }
    }

    /// Whether the content is that of this file.
    pub(super) fn is_of_file(&self, file: u64) -> bool {
        self.of_disk == Some(file)
    }

    /// Bytes in memory.
    pub(super) fn size(&self) -> usize {
        // The head that was sent last, and its encoded forms, are as large as the head again.
        size_of::<Self>() + 3 * self.head.size() + self.body.len()
    }

    /// Notes that the upstream failed.
    pub(super) fn note_failure(&self, now: u64) {
        self.failed.store(now, Relaxed);
    }

    /// Whether the upstream failed so lately that it is not asked again.
    pub(super) fn has_just_failed(&self, now: u64) -> bool {
        now.saturating_sub(self.failed.load(Relaxed)) < RETRY_AFTER
    }

    /// The head of a hit. It is made once a second for all hits.
    pub(super) fn aged(&self, now: u64, changes: Option<&Arc<FieldRules>>) -> Arc<AgedHead> {
        let age = self.head.terms.age_seconds(now);
        if let Some(aged) = &*self.aged.read()
            && aged.is_of(age, changes)
        {
            return Arc::clone(aged);
        }
        let mut headers = self.head.headers.clone();
        headers.insert(header::AGE, HeaderValue::from(age));
        Status::hit(self.head.terms.ttl(now)).add_to(&mut headers);
        let aged = Arc::new(AgedHead::new(headers, age, changes.cloned()));
        *self.aged.write() = Some(Arc::clone(&aged));
        aged
    }
}

/// Sets the conditions by which an upstream says that a stored response is current (RFC 9111 §4.3.1).
pub(super) fn set_conditions(request: &mut HeaderMap, stored: &HeaderMap) {
    for (condition, validator) in [
        (header::IF_NONE_MATCH, header::ETAG),
        (header::IF_MODIFIED_SINCE, header::LAST_MODIFIED),
    ] {
        if let Some(value) = stored.get(validator) {
            request.insert(condition, value.clone());
        }
    }
}

/// A value with memory of its own. One that was received is a part of a buffer, which it would keep.
pub(super) fn unshared(value: &HeaderValue) -> HeaderValue {
    HeaderValue::from_bytes(value.as_bytes()).unwrap_or_else(|_| value.clone())
}

fn move_field(from: &mut HeaderMap, to: &mut HeaderMap, name: &HeaderName) {
    for value in from.get_all(name) {
        to.append(name, value.clone());
    }
    from.remove(name);
}

fn http_date(millis: u64) -> HeaderValue {
    crate::files::http_date(SystemTime::UNIX_EPOCH + Duration::from_millis(millis))
}

/// Fields that describe the content as it was stored, which a 304 does not change (RFC 9111 §3.2).
const OF_THE_CONTENT: [HeaderName; 3] = [
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::CONTENT_RANGE,
];

/// Bytes that a field takes besides its name and value.
const FIELD: usize = 64;

/// For how many milliseconds an upstream that has failed is not asked again, where a stale response may
/// take the place of its errors.
const RETRY_AFTER: u64 = 2000;
