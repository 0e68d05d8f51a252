//! Which responses are rewritten.

use std::sync::Arc;

use http::header::{self, HeaderMap, HeaderName};
use http::uri::Authority;
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use url::Url;

use super::Shards;
use super::rewrite::Rewriter;
use super::spread::Spread;
use crate::pages::{
    Rewritten, forbids_transformation, is_plain_page, policies, remove_originals, says,
    wants_document,
};
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
        remove_originals(&mut parts.headers);
        let body = match body.is_end_stream() {
            true => body,
            false => Body::boxed(Rewritten::new(body, Rewriter::new(spread))),
        };
        (Response::from_parts(parts, body), true)
    }
}

/// Whether a response may not be changed, or its site isolates itself from other origins. In the latter
/// case a shard's resources would be refused (HTML Standard §7.1.4, Fetch §3.7).
fn forbids(headers: &HeaderMap) -> bool {
    let embedder = HeaderName::from_static("cross-origin-embedder-policy");
    let resource = HeaderName::from_static("cross-origin-resource-policy");
    forbids_transformation(headers)
        || says(headers, embedder.clone(), "require-corp")
        || says(headers, embedder, "credentialless")
        || says(headers, resource, "same-")
}
