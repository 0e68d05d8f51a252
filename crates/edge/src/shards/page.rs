//! Which responses are rewritten.

use std::sync::Arc;

use encoding_rs::Encoding;
use http::header::{self, HeaderMap, HeaderName};
use http::uri::Authority;
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use mime_guess::Mime;
use url::Url;

use super::Shards;
use super::body::Rewritten;
use super::csp::Policies;
use super::rewrite::Rewriter;
use super::spread::Spread;
use hikyaku_content::Body;

/// A request whose response is to be spread, if it is a page.
#[derive(Debug)]
pub(crate) struct PageRequest {
    url: Url,
    connections: u8,
}

impl PageRequest {
    /// `None` where the response stays as it is, whatever it is. `is_static` is true for a path that
    /// would be spread.
    ///
    /// A request for a document loses its `Accept-Encoding`: an encoded page could not be rewritten.
    pub(super) fn of<B>(
        request: &mut Request<B>,
        authority: &Authority,
        is_static: bool,
        connections: impl FnOnce() -> u8,
    ) -> Option<Self> {
        let readable = matches!(*request.method(), Method::GET | Method::HEAD);
        // Credentials are not sent to other origins.
        if !readable || request.headers().contains_key(header::AUTHORIZATION) {
            return None;
        }
        let wants = wants_document(request.headers());
        // Spared the question for how many connections, which takes a lock.
        if !wants.unwrap_or(!is_static) {
            return None;
        }
        let connections = connections();
        if connections < 2 {
            return None;
        }
        let path = request
            .uri()
            .path_and_query()
            .map_or("/", |path| path.as_str());
        let url = Url::parse(&format!("https://{authority}{path}")).ok()?;
        if wants == Some(true) {
            request.headers_mut().remove(header::ACCEPT_ENCODING);
        }
        Some(Self { url, connections })
    }

    /// Rewrites a response if it is a page that may be; returns whether it was.
    pub(super) fn spread(
        self,
        shards: &Arc<Shards>,
        response: Response<Body>,
    ) -> (Response<Body>, bool) {
        if response.status() != StatusCode::OK || !is_plain_page(response.headers()) {
            return (response, false);
        }
        if forbids(response.headers()) || !shards.are_covered() {
            return (response, false);
        }
        let policies = policies(response.headers());
        let mut spread = Spread::new(Arc::clone(shards), self.url, self.connections, policies);
        let links = response.headers().get_all(header::LINK);
        for link in links.iter().filter_map(|link| link.to_str().ok()) {
            spread.keep_linked(link);
        }
        let (mut parts, body) = response.into_parts();
        shards.tags.mark(&mut parts.headers);
        for name in OF_THE_ORIGINAL {
            parts.headers.remove(name);
        }
        let body = match body.is_end_stream() {
            true => body,
            false => Body::boxed(Rewritten::new(body, Rewriter::new(spread))),
        };
        (Response::from_parts(parts, body), true)
    }
}

/// Whether a request is for a document; `None` where that cannot be said.
///
/// By Fetch Metadata where a browser sends it, else by what it accepts: browsers name HTML
/// for documents alone.
fn wants_document(headers: &HeaderMap) -> Option<bool> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok();
    if let Some(destination) = text(HeaderName::from_static("sec-fetch-dest")) {
        return Some(matches!(destination, "document" | "iframe" | "frame"));
    }
    let accepts = text(header::ACCEPT)?;
    if accepts.contains("text/html") {
        return Some(true);
    }
    (!accepts.contains("*/*")).then_some(false)
}

/// Whether it is an HTML page, whole, not compressed, and in an encoding based on ASCII.
fn is_plain_page(headers: &HeaderMap) -> bool {
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

/// Whether a response may not be changed (RFC 9111 §5.2.2.6), or its site isolates itself from other
/// origins. In the latter case a shard's resources would be refused (HTML Standard §7.1.4, Fetch §3.7).
fn forbids(headers: &HeaderMap) -> bool {
    let says = |name: HeaderName, word: &str| {
        let fields = headers.get_all(name);
        let mut texts = fields.iter().filter_map(|field| field.to_str().ok());
        texts.any(|text| text.to_ascii_lowercase().contains(word))
    };
    let embedder = HeaderName::from_static("cross-origin-embedder-policy");
    let resource = HeaderName::from_static("cross-origin-resource-policy");
    says(header::CACHE_CONTROL, "no-transform")
        || says(embedder.clone(), "require-corp")
        || says(embedder, "credentialless")
        || says(resource, "same-")
}

fn policies(headers: &HeaderMap) -> Policies {
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

/// Fields that hold for the page as it was, byte by byte.
const OF_THE_ORIGINAL: [HeaderName; 6] = [
    header::CONTENT_LENGTH,
    header::ACCEPT_RANGES,
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
];
