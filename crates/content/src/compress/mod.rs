//! Compression on the fly: content codings that the server makes itself (RFC 9110 §8.4).
//!
//! [`Plan`] codes one response while it streams. Files that are coded once and kept are those of
//! `files`.

mod body;
mod budget;
mod config;
mod encoder;
mod tags;
mod types;

use std::sync::Arc;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;

use crate::Body;
use crate::files::{Coding, choose};
use crate::proxy::{append_element, elements};
use body::Coded;
use tags::Asked;
use types::MediaTypes;

pub use budget::{CompressionCount, compression_counts};
pub(crate) use budget::{Lease, count};
pub use config::{CompressionConfig, CompressionLevels};
pub(crate) use encoder::{Encoder, Settings};
pub(crate) use tags::mark;

/// Compression of some responses, ready to use.
#[derive(Debug)]
pub(crate) struct Compression {
    encodings: Vec<Coding>,
    types: MediaTypes,
    min_size: u64,
    level: CompressionLevels,
    /// Memory for coded files that are kept, in bytes.
    pub(crate) cache: u64,
    memory: u64,
}

impl Compression {
    /// Prepares compression; `None` where it is off.
    ///
    /// # Errors
    /// If a setting is wrong. The error is a sentence.
    pub(crate) fn new(config: &CompressionConfig) -> Result<Option<Arc<Self>>, String> {
        let types = MediaTypes::new(&config.types)?;
        config.level.check()?;
        if config.encodings.is_empty() {
            return Ok(None);
        }
        Ok(Some(Arc::new(Self {
            encodings: config.encodings.clone(),
            types,
            min_size: config.min_size.bytes(),
            level: config.level,
            cache: config.cache.bytes(),
            memory: config.memory.bytes(),
        })))
    }

    /// The codings, in the server's order of preference.
    pub(crate) fn encodings(&self) -> &[Coding] {
        &self.encodings
    }

    pub(crate) fn settings(&self, coding: Coding) -> Settings {
        Settings {
            coding,
            level: self.level.of(coding),
        }
    }

    /// Whether content of this length is coded, if it is known, and with these fields.
    pub(crate) fn covers(&self, headers: &HeaderMap, length: Option<u64>) -> bool {
        let is_coded = headers.get(header::CONTENT_ENCODING);
        let is_coded =
            is_coded.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"));
        let content_type = headers.get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        length.is_none_or(|length| length >= self.min_size)
            && content_type.is_some_and(|content_type| self.types.contain(content_type))
            && !is_coded
            && !headers.contains_key(header::CONTENT_RANGE)
            && !forbids_transformation(headers)
    }

    /// Takes memory for an encoder; `None` if there is none left.
    pub(crate) fn lease(&self, settings: Settings, length: Option<u64>) -> Option<Lease> {
        Lease::take(settings.memory(length), self.memory)
    }

    /// Plans the response to a request; `None` if it may not be coded.
    pub(crate) fn plan(self: &Arc<Self>, method: &Method, headers: &HeaderMap) -> Option<Plan> {
        if *method == Method::CONNECT || forbids_transformation(headers) {
            return None;
        }
        Some(Plan {
            coding: choose(headers, self.encodings.iter().copied()),
            compression: Arc::clone(self),
            asked: Asked::default(),
            is_head: *method == Method::HEAD,
        })
    }
}

/// Codes the body of a response whose head has been made for it.
pub(crate) fn encode(body: Body, settings: Settings, lease: Lease) -> Body {
    Body::boxed(Coded::new(body, settings, lease))
}

/// The treatment of a response, by its request.
#[derive(Debug)]
pub(crate) struct Plan {
    compression: Arc<Compression>,
    /// `None` if the client takes none.
    coding: Option<Coding>,
    asked: Asked,
    is_head: bool,
}

impl Plan {
    /// Lets the conditions of a request hold for the upstream, too.
    pub(crate) fn adapt(&mut self, request: &mut HeaderMap) {
        self.asked = tags::unmark(request);
    }

    /// Codes the response, if it may be and the client takes that.
    pub(crate) fn apply(self, response: &mut Response<Body>) {
        if response.status() == StatusCode::NOT_MODIFIED {
            let headers = response.headers_mut();
            if self.asked.restore(headers) {
                vary(headers);
            }
            return;
        }
        let length = self.length(response);
        if !has_whole_content(response.status())
            || (!self.is_head && response.body().is_end_stream())
            || !self.compression.covers(response.headers(), length)
        {
            return;
        }
        vary(response.headers_mut());
        let Some(coding) = self.coding else {
            return;
        };
        let settings = self.compression.settings(coding);
        if self.is_head {
            *response.body_mut() = Body::empty();
        } else {
            let Some(lease) = self.compression.lease(settings, length) else {
                return;
            };
            let body = std::mem::take(response.body_mut());
            *response.body_mut() = encode(body, settings, lease);
        }
        rename(response.headers_mut(), coding);
    }

    /// The length of the content, if it is known. A response to HEAD may have none that counts.
    fn length(&self, response: &Response<Body>) -> Option<u64> {
        let announced = response.headers().get(header::CONTENT_LENGTH);
        let announced = announced.and_then(|value| value.to_str().ok()?.parse().ok());
        let exact = || response.body().size_hint().exact();
        announced.or_else(|| exact().filter(|&length| length > 0 || !self.is_head))
    }
}

/// Makes the head of content that of the same content under a coding, of unknown length.
pub(crate) fn rename(headers: &mut HeaderMap, coding: Coding) {
    headers.insert(header::CONTENT_ENCODING, coding.header_value());
    mark(headers, coding);
    for name in [header::CONTENT_LENGTH, header::ACCEPT_RANGES]
        .iter()
        .chain(&DIGESTS)
    {
        headers.remove(name);
    }
}

/// The compression of a response that the server changes after its content has made it.
///
/// The content is asked for it without any coding, since a coded response could not be changed.
#[derive(Debug)]
pub struct Recoding(Plan);

impl Recoding {
    /// Has the content answer without a coding; `None` where the response may not be coded here.
    pub(crate) fn of<B>(compression: &Arc<Compression>, request: &mut Request<B>) -> Option<Self> {
        let mut plan = compression.plan(request.method(), request.headers())?;
        plan.adapt(request.headers_mut());
        request.headers_mut().remove(header::ACCEPT_ENCODING);
        Some(Self(plan))
    }

    /// Codes the response, if it may be and the client takes that.
    pub fn apply(self, response: &mut Response<Body>) {
        self.0.apply(response);
    }
}

/// Adds `Accept-Encoding` to the fields by which the response was chosen (RFC 9110 §12.5.5).
fn vary(headers: &mut HeaderMap) {
    let is_there = elements(headers, &header::VARY)
        .any(|name| name == "*" || name.eq_ignore_ascii_case("accept-encoding"));
    if !is_there {
        let name = HeaderValue::from_static("accept-encoding");
        append_element(headers, &header::VARY, name);
    }
}

/// Whether a message forbids to change its content (RFC 9111 §5.2.1.6, §5.2.2.6).
fn forbids_transformation(headers: &HeaderMap) -> bool {
    elements(headers, &header::CACHE_CONTROL)
        .any(|directive| directive.eq_ignore_ascii_case("no-transform"))
}

/// Whether responses of this status have content of their own, and all of it.
fn has_whole_content(status: StatusCode) -> bool {
    !status.is_informational()
        && !matches!(
            status,
            StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::PARTIAL_CONTENT
        )
}

/// Fields with digests of the content as it was (RFC 9530, RFC 3230, RFC 1864).
const DIGESTS: [HeaderName; 4] = [
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-md5"),
];

#[cfg(test)]
mod tests;
