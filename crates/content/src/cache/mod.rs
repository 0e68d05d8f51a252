//! The cache of upstreams' responses: a shared cache by RFC 9111, between a route and its upstream.
//!
//! [`policy`] says which responses may be stored and reused. [`store`] keeps them in memory, and [`behind`]
//! on disk. [`flight`] lets requests at once share one request to the upstream. [`Cache`] decides on each
//! request.

mod aged;
mod answer;
mod behind;
mod caches;
mod config;
mod dictionary;
mod directives;
pub mod disk;
mod fetch;
mod flight;
mod flow;
mod hints;
mod key;
mod policy;
mod purge;
mod requests;
mod shared;
mod status;
mod store;
mod stored;
mod vary;

use std::sync::Arc;

use http::{HeaderMap, Request, Response, StatusCode, Uri, header, request};
use http_body::Body as _;

use crate::access::Access;
use crate::routes::Rules as FieldRules;
use crate::{Body, Peer, Proxy, RequestBody, Scheme, SiteConfig, WholeFile, status_response};
use answer::{Content, answer};
use directives::Directives;
use fetch::now;
use key::AskedKey;
use policy::{Reuse, Rules};
use shared::{Asked, Wanted};
use status::{Forwarded, Status};
use store::{Found, Store};
use stored::{Stored, take_tags};

pub(crate) use aged::AgedHead;
pub use caches::{CacheStatus, Caches};
pub use config::CacheConfig;
pub use purge::{ParsePurgeError, Purge};
pub use status::CacheOutcome;

/// The cache of a route.
#[derive(Debug)]
pub(crate) struct Cache {
    store: Arc<Store>,
    rules: Rules,
    object_size: u64,
    /// The route asks who its users are, so that all its requests are as if they had `Authorization`.
    knows_users: bool,
}

/// The way of a request.
enum Next {
    /// The stored response answers it.
    Answer(Arc<Stored>, CacheOutcome),
    /// So it does, while the upstream is asked in the background.
    Meanwhile(Arc<Stored>),
    /// The upstream answers it, and nothing is stored.
    Pass(Forwarded),
    /// The upstream is asked, on behalf of others, too.
    Fetch(Wanted),
    /// Nothing that is stored answers it, and the client wants nothing else.
    OnlyIfCached,
}

impl Cache {
    /// The cache of a route of a site, for those who have `access`; `None` where it is off.
    ///
    /// # Errors
    /// If the settings do not fit. The error is a sentence.
    pub(crate) fn new(
        config: &CacheConfig,
        site: &SiteConfig,
        access: Option<&Access>,
    ) -> Result<Option<Arc<Self>>, String> {
        if !config.enabled {
            return Ok(None);
        }
        if let Some(fault) = config.fault(&site.cache) {
            return Err(fault.to_owned());
        }
        let name = site.names.first().map_or("", String::as_str);
        Ok(Some(Arc::new(Self {
            store: site.caches.store(name, config)?,
            rules: Rules::from(config),
            object_size: config.object_size.bytes(),
            knows_users: access.is_some_and(Access::knows_users),
        })))
    }

    /// Answers a request, from the cache or by the upstream. `uri` is the client's, where the request has
    /// another.
    pub(crate) async fn respond(
        self: &Arc<Self>,
        proxy: &Arc<Proxy>,
        request: Request<RequestBody>,
        uri: Option<Uri>,
        peer: &Peer,
    ) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let client_uri = uri.as_ref().unwrap_or(&parts.uri);
        let ignored = &self.store.ignored;
        let key = AskedKey::of(peer.scheme, client_uri, &parts.headers, ignored);
        if let Some(why) = requests::is_not_for_caches(&parts, body.is_end_stream()) {
            let host = key.host.into_owned();
            let uri = client_uri.clone();
            let request = Request::from_parts(parts, body);
            return self
                .respond_beside(proxy, request, (&host, &uri), peer, why)
                .await;
        }
        let directives = Directives::of_request(&parts.headers);
        let now = now();
        let found = self.store.find(&key, &parts.headers, now);
        let next = next(found, &parts, &directives, now);
        let key = key.to_key();
        let asked = |parts| Asked {
            cache: Arc::clone(self),
            proxy: Arc::clone(proxy),
            peer: peer.clone(),
            parts,
            key,
            directives,
        };
        match next {
            Next::Answer(stored, outcome) => self.hit(&stored, &parts, now, outcome),
            Next::Meanwhile(stored) => asked(parts).answer_meanwhile(&stored, now),
            Next::Pass(why) => asked(parts).pass(why).await,
            Next::Fetch(wanted) => asked(parts).fetch(wanted).await,
            Next::OnlyIfCached => {
                self.store.count(CacheOutcome::Miss);
                status_response(StatusCode::GATEWAY_TIMEOUT)
            }
        }
    }

    /// Returns the stored response that answers a request with all its content at once. The request's target and
    /// fields decide; its method is GET or HEAD. `fits` says whether a response with these fields, and
    /// content of this length, is sent as it is stored; `changes` are those of its fields.
    ///
    /// `None` says nothing of the answer, which [`Cache::respond`] then gives.
    pub(crate) fn whole(
        &self,
        (scheme, uri, headers): (Scheme, &Uri, &HeaderMap),
        changes: Option<&Arc<FieldRules>>,
        fits: impl FnOnce(&HeaderMap, u64) -> bool,
    ) -> Option<WholeFile> {
        if !requests::asks_plainly(headers) {
            return None;
        }
        let now = now();
        let key = AskedKey::of(scheme, uri, headers, &self.store.ignored);
        let stored = self.store.find(&key, headers, now).stored?;
        let head = &stored.head;
        let fits = head.status == StatusCode::OK
            && stored.body.len() <= MAX_WHOLE
            && head.terms.reuse(&Directives::default(), now) == Reuse::Serve
            && fits(&head.headers, stored.body.len() as u64);
        if !fits {
            return None;
        }
        self.store.count(CacheOutcome::Hit);
        let aged = stored.aged(now, changes);
        Some(WholeFile::stored(
            aged,
            stored.body.clone(),
            changes.cloned(),
        ))
    }

    /// Answers a request by a stored response.
    fn hit(
        &self,
        stored: &Stored,
        parts: &request::Parts,
        now: u64,
        outcome: CacheOutcome,
    ) -> Response<Body> {
        let terms = &stored.head.terms;
        let age = Some(terms.age_seconds(now));
        let content = Content::Whole(&stored.body);
        let answered = answer(&stored.head, content, age, &parts.method, &parts.headers);
        // Content that is there as a whole can be read from its beginning.
        let mut response = answered.unwrap_or_else(|| status_response(StatusCode::BAD_GATEWAY));
        self.mark(&mut response, Status::hit(terms.ttl(now)), outcome);
        response
    }

    /// Lets the upstream answer a request that is not for caches. One that changes something makes the stored
    /// responses of its `target`, a host in its normal form and a URI, out of date (RFC 9111 §4.4).
    async fn respond_beside(
        &self,
        proxy: &Proxy,
        request: Request<RequestBody>,
        (host, uri): (&str, &Uri),
        peer: &Peer,
        why: Forwarded,
    ) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let is_tunnel = requests::is_tunnel(&parts);
        let is_unsafe = requests::is_unsafe(&parts.method);
        let request = Request::from_parts(parts, body);
        let mut response = Box::pin(proxy.respond(request, peer)).await;
        let status = response.status();
        if is_unsafe && (status.is_success() || status.is_redirection()) {
            let named = requests::named_targets(response.headers(), peer.scheme, host);
            let mut keys = Vec::new();
            for uri in named.iter().chain([uri]) {
                let none = HeaderMap::new();
                let mut key = AskedKey::of(peer.scheme, uri, &none, &self.store.ignored);
                key.host = host.into();
                self.store.invalidate(&key);
                keys.push(key.to_key());
            }
            self.store.forget_on_disk(keys).await;
        }
        take_tags(response.headers_mut());
        if !is_tunnel {
            let status = Status::forwarded(why);
            self.mark(&mut response, status, CacheOutcome::Pass);
        }
        response
    }

    /// Whether a request with these fields is somebody's own (RFC 9111 §3.5).
    fn is_personal(&self, fields: &HeaderMap) -> bool {
        self.knows_users || fields.contains_key(header::AUTHORIZATION)
    }

    fn mark(&self, response: &mut Response<Body>, status: Status, outcome: CacheOutcome) {
        self.store.count(outcome);
        status.mark(response, outcome);
    }
}

/// Decides on a request that a stored response can answer.
fn next(found: Found, parts: &request::Parts, directives: &Directives, now: u64) -> Next {
    let Some(stored) = found.stored else {
        let why = match found.other {
            Some(_) => Forwarded::VaryMiss,
            None => Forwarded::UriMiss,
        };
        // A response to HEAD alone is not stored: its content is not there.
        let is_passed = found.passes || directives.no_store || parts.method == http::Method::HEAD;
        return match directives.only_if_cached {
            true => Next::OnlyIfCached,
            false if is_passed => Next::Pass(why),
            false => Next::Fetch(Wanted {
                why,
                known: None,
                other: found.other.map(|stored| Arc::clone(&stored.head)),
            }),
        };
    };
    let terms = &stored.head.terms;
    match terms.reuse(directives, now) {
        Reuse::Serve if terms.ttl(now) < 0 => Next::Answer(stored, CacheOutcome::Stale),
        Reuse::Serve => Next::Answer(stored, CacheOutcome::Hit),
        Reuse::ServeMeanwhile => Next::Meanwhile(stored),
        Reuse::Validate if directives.only_if_cached => Next::OnlyIfCached,
        // The upstream is left in peace for a moment after it has failed.
        Reuse::Validate if stored.has_just_failed(now) && terms.replaces_errors(now) => {
            Next::Answer(stored, CacheOutcome::Stale)
        }
        Reuse::Validate => Next::Fetch(Wanted {
            why: match terms.is_fresh(now) {
                true => Forwarded::Request,
                false => Forwarded::Stale,
            },
            known: Some(stored),
            other: None,
        }),
    }
}

/// Bytes of the largest content that is sent at once.
const MAX_WHOLE: usize = 1 << 20;
