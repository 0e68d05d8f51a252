//! The common part of all rewriters of pages: which responses are pages, their policies, their validators
//! and their bodies. `shards` spreads pages, and `beacon` has them report their times.

mod body;
mod csp;
mod html;
mod seen;
mod validators;

use encoding_rs::Encoding;
use http::header::{self, HeaderMap, HeaderName};
use mime_guess::Mime;

pub(crate) use body::{Rewrite, Rewritten};
pub(crate) use csp::{Load, Policies, Target, Way};
#[cfg(test)]
pub(crate) use html::MAX_MEMORY;
pub(crate) use html::{HTML, Output, settings};
pub(crate) use seen::{Seen, Transfers};
pub(crate) use validators::{Asked, Tags};

/// Whether a request is for a document; `None` where that cannot be said.
///
/// By Fetch Metadata where a browser sends it, else by what it accepts: browsers name HTML
/// for documents alone.
pub(crate) fn wants_document(headers: &HeaderMap) -> Option<bool> {
    if let Some(destination) = destination(headers) {
        return Some(matches!(destination, "document" | "iframe" | "frame"));
    }
    let accepts = headers.get(header::ACCEPT)?.to_str().ok()?;
    if accepts.contains("text/html") {
        return Some(true);
    }
    (!accepts.contains("*/*")).then_some(false)
}

/// The destination that a browser names for a request (Fetch Metadata §2.1).
pub(crate) fn destination(headers: &HeaderMap) -> Option<&str> {
    headers.get("sec-fetch-dest")?.to_str().ok()
}

/// Whether it is an HTML page, whole, not compressed, and in an encoding based on ASCII.
pub(crate) fn is_plain_page(headers: &HeaderMap) -> bool {
    let encoded = headers.get(header::CONTENT_ENCODING);
    if headers.contains_key(header::CONTENT_RANGE)
        || encoded.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return false;
    }
    let text = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let Some(Ok(mime)) = text.map(str::parse::<Mime>) else {
        return false;
    };
    let charset = mime.get_param("charset");
    let based_on_ascii = charset.is_none_or(|name| {
        let encoding = Encoding::for_label(name.as_str().as_bytes());
        encoding.is_some_and(Encoding::is_ascii_compatible)
    });
    mime.essence_str() == "text/html" && based_on_ascii
}

/// Whether a response may not be changed (RFC 9111 §5.2.2.6).
pub(crate) fn forbids_transformation(headers: &HeaderMap) -> bool {
    says(headers, header::CACHE_CONTROL, "no-transform")
}

/// Whether a field has a word, whatever its case.
pub(crate) fn says(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    let fields = headers.get_all(name);
    let mut texts = fields.iter().filter_map(|field| field.to_str().ok());
    texts.any(|text| text.to_ascii_lowercase().contains(word))
}

/// The policies of a response, those that only report included.
pub(crate) fn policies(headers: &HeaderMap) -> Policies {
    let mut policies = Policies::default();
    for name in [
        header::CONTENT_SECURITY_POLICY,
        header::CONTENT_SECURITY_POLICY_REPORT_ONLY,
    ] {
        for field in headers.get_all(name) {
            // A policy that cannot be read allows nothing.
            policies.add(field.to_str().unwrap_or("default-src 'none'"));
        }
    }
    policies
}

/// Removes the fields that hold for the page as it was, byte by byte.
pub(crate) fn remove_originals(headers: &mut HeaderMap) {
    for name in OF_THE_ORIGINAL {
        headers.remove(name);
    }
}

const OF_THE_ORIGINAL: [HeaderName; 6] = [
    header::CONTENT_LENGTH,
    header::ACCEPT_RANGES,
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
];
