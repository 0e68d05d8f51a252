//! The content of a site: which of its routes a request takes, and what becomes of it there.

mod action;
mod changes;
mod config;
mod errors;
mod fields;
mod gaps;
mod path;
mod pattern;
mod pieces;
mod route;
mod template;
mod variables;

use std::sync::Arc;

use hikyaku_units::ByteSize;
use http::{HeaderMap, Request, Response, StatusCode, Uri};

use crate::compress::Compression;
use crate::hosts::requested_host;
use crate::{
    Body, BoxError, ErrorReason, Files, Peer, Proxy, Refused, RequestBody, Scheme, WholeFile,
    status_response,
};
use action::{Action, Unusable};
use pattern::Matched;
use route::{Planned, Route};
use template::{Template, Values};

pub use config::{AnswerConfig, RedirectConfig, RouteConfig, SiteConfig};
pub(crate) use fields::HeaderRules as Rules;
pub use fields::{HeadersConfig, NoServer, SERVER};
pub(crate) use path::normal;
pub use variables::RequestId;

/// The content of a site.
#[derive(Debug)]
pub(crate) struct Site {
    /// Routes with globs and regular expressions in their order, then those with prefixes, the longest
    /// first.
    routes: Vec<Route>,
    /// The route of all other paths.
    rest: Route,
    has_proxies: bool,
    has_tunnels: bool,
}

/// Why the content of a site can't be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SiteError {
    /// Its files or its upstream can't be used.
    #[error("serving {what}")]
    Serving {
        /// The root or the URL.
        what: String,
        /// The cause.
        #[source]
        source: BoxError,
    },
    /// A setting is wrong.
    #[error("in {place}: {why}")]
    Wrong {
        /// The site, or the route by its path.
        place: String,
        /// A sentence.
        why: String,
    },
}

impl SiteError {
    fn new(place: String, unusable: Unusable) -> Self {
        match unusable {
            Unusable::Wrong(why) => Self::Wrong { place, why },
            Unusable::Serving(what, source) => Self::Serving { what, source },
        }
    }
}

impl Site {
    /// Prepares the content of a site.
    ///
    /// # Errors
    /// If a root can't be opened, an upstream can't be used, or a setting is wrong.
    pub(crate) fn new(site: &SiteConfig) -> Result<Self, SiteError> {
        let rest = Route::of_site(site).map_err(|error| SiteError::new(site.place(), error))?;
        let mut routes = Vec::new();
        for route in &site.routes {
            let made = Route::of_config(route, site, &rest);
            let place = || match site.names.first() {
                Some(name) => format!("{} of `{name}`", place(route)),
                None => place(route),
            };
            routes.extend(made.map_err(|error| SiteError::new(place(), error))?);
        }
        Ok(Self::of(routes, rest))
    }

    fn of(mut routes: Vec<Route>, rest: Route) -> Self {
        // A stable order: patterns without a prefix stay first, as they were given.
        routes.sort_by_key(|route| route.pattern.prefix_len().map(std::cmp::Reverse));
        let proxies = routes
            .iter()
            .chain([&rest])
            .filter_map(|route| match &route.action {
                Action::Proxy(proxy) => Some(proxy),
                _ => None,
            });
        let proxies: Vec<_> = proxies.collect();
        Self {
            has_proxies: !proxies.is_empty(),
            has_tunnels: proxies.iter().any(|proxy| proxy.has_tunnels()),
            routes,
            rest,
        }
    }

    /// Answers a request. Never fails: an error becomes a response, with its [`ErrorReason`] in the
    /// extensions if the log should report more.
    ///
    /// The response may have content that its method or status forbids, until [`crate::omit_content`]
    /// has taken it.
    pub(crate) async fn respond(
        &self,
        request: Request<RequestBody>,
        peer: &Peer,
    ) -> Response<Body> {
        let (route, planned) = match self.routes.is_empty() {
            true => (&self.rest, Planned::Serve(None)),
            false => self.plan(request.uri(), request.headers(), peer.scheme),
        };
        if route.access.is_some() {
            // Boxed, since most sites are for everybody.
            return Box::pin(route.respond_to_some(request, peer, planned)).await;
        }
        route.respond(request, peer, planned).await
    }

    /// Finds the route of a request, and what becomes of the request there.
    fn plan(&self, uri: &Uri, headers: &HeaderMap, scheme: Scheme) -> (&Route, Planned) {
        let Ok(path) = path::normal(uri.path()) else {
            return (&self.rest, Planned::Answer(refuse_dot_segment()));
        };
        let (route, matched) = self.find(&path);
        let values = Values {
            scheme,
            host: requested_host(uri, headers).unwrap_or_default(),
            query: uri.query(),
            ..Values::of_path(&path, matched.as_ref())
        };
        let planned = match route.answer(&values) {
            Some(response) => Planned::Answer(response),
            None => Planned::Serve(route.rewritten(&values)),
        };
        (route, planned)
    }

    /// Returns the file, or the stored response, that answers a request with all its content, if that is in
    /// memory. The request's target and fields decide; its method is GET or HEAD.
    ///
    /// `None` says nothing of the answer, which [`Site::respond`] then gives.
    pub(crate) fn whole_file(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        scheme: Scheme,
    ) -> Option<WholeFile> {
        if self.routes.is_empty() {
            return self.rest.whole_file(uri, uri.path(), headers, scheme);
        }
        let normal = path::normal(uri.path()).ok()?;
        let (route, matched) = self.find(&normal);
        if route.cache.is_none() && route.rewrite.as_ref().is_some_and(Template::needs_request) {
            return None;
        }
        let values = Values::of_path(&normal, matched.as_ref());
        if route.lacks_slash(&values) {
            return None;
        }
        let rewritten = route.rewritten(&values);
        let path = rewritten.as_deref().unwrap_or(uri.path());
        route.whole_file(uri, path, headers, scheme)
    }

    /// The size of a request's body, where the route has a limit of its own.
    pub(crate) fn body_size(&self, path: &str) -> Option<ByteSize> {
        let path = path::normal(path).ok()?;
        self.find(&path).0.body_size
    }

    /// The compression of the route of a path; `None` where it is off.
    pub(crate) fn compression(&self, path: &str) -> Option<Arc<Compression>> {
        let path = path::normal(path).ok()?;
        self.find(&path).0.compression.clone()
    }

    pub(crate) fn has_body_sizes(&self) -> bool {
        let mut routes = self.routes.iter().chain([&self.rest]);
        routes.any(|route| route.body_size.is_some())
    }

    /// Whether the access log has a line for requests of a path.
    pub(crate) fn is_logged(&self, path: &str) -> bool {
        match path::normal(path) {
            Ok(path) => self.find(&path).0.is_logged,
            Err(_) => self.rest.is_logged,
        }
    }

    pub(crate) fn is_logged_everywhere(&self) -> bool {
        let mut routes = self.routes.iter().chain([&self.rest]);
        routes.all(|route| route.is_logged)
    }

    /// Finds the route of a path in its normal form.
    fn find<'a>(&self, path: &'a str) -> (&Route, Option<Matched<'a>>) {
        let matching = |route: &Route| route.pattern.matches(path);
        let mut found = self
            .routes
            .iter()
            .filter_map(|route| Some((route, matching(route)?)));
        match found.next() {
            Some((route, matched)) => (route, Some(matched)),
            None => (&self.rest, None),
        }
    }

    /// Whether there may be interim responses (1xx) before a response.
    pub(crate) const fn has_interim_responses(&self) -> bool {
        self.has_proxies
    }

    /// Whether a client may ask for a stream of another protocol, by extended CONNECT.
    pub(crate) const fn has_tunnels(&self) -> bool {
        self.has_tunnels
    }
}

impl From<Files> for Site {
    fn from(files: Files) -> Self {
        Self::of(Vec::new(), Route::of(Action::Files(Arc::new(files))))
    }
}

impl From<Proxy> for Site {
    fn from(proxy: Proxy) -> Self {
        Self::of(Vec::new(), Route::of(Action::Proxy(Arc::new(proxy))))
    }
}

/// A route in messages.
fn place(config: &RouteConfig) -> String {
    let paths = config.path.iter().chain(&config.regex);
    let paths: Vec<_> = paths.map(|path| format!("`{path}`")).collect();
    match paths.is_empty() {
        true => "a route".to_owned(),
        false => format!("the route for {}", paths.join(", ")),
    }
}

fn refuse_dot_segment() -> Response<Body> {
    let mut response = status_response(StatusCode::BAD_REQUEST);
    let reason = ErrorReason::from("the path has a segment `.` or `..`");
    response.extensions_mut().insert(reason);
    response.extensions_mut().insert(Refused::Malformed);
    response
}
