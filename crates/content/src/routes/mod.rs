//! The content of a site: which of its routes a request takes, and what becomes of it there.

mod action;
mod config;
mod fields;
mod path;
mod pattern;
mod route;
mod template;

use std::ops::ControlFlow;
use std::sync::Arc;

use http::{HeaderMap, Request, Response, StatusCode, Uri};

use crate::hosts::requested_host;
use crate::{
    Body, BoxError, ErrorReason, Files, Peer, Proxy, RequestBody, WholeFile, status_response,
};
use action::{Action, Unusable};
use pattern::Matched;
use route::Route;
use template::{Template, Values};

pub use config::{AnswerConfig, RedirectConfig, RouteConfig, SiteConfig};
pub(crate) use fields::HeaderRules as Rules;
pub use fields::HeadersConfig;
pub(crate) use path::normal;

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
            let made = Route::of_config(route, site, &rest.action);
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
        if self.routes.is_empty() {
            return self.rest.serve(request, peer, None).await;
        }
        match self.plan(request.uri(), request.headers()) {
            ControlFlow::Continue((route, rewritten)) => {
                route.serve(request, peer, rewritten).await
            }
            ControlFlow::Break(response) => response,
        }
    }

    /// Finds the route of a request, and the path that it sees in place of the client's; or the response
    /// that needs neither files nor an upstream.
    fn plan(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> ControlFlow<Response<Body>, (&Route, Option<String>)> {
        let Ok(path) = path::normal(uri.path()) else {
            let mut response = refuse_dot_segment();
            self.rest.change(&mut response);
            return ControlFlow::Break(response);
        };
        let (route, matched) = self.find(&path);
        let values = Values {
            host: requested_host(uri, headers).unwrap_or_default(),
            query: uri.query(),
            ..Values::of_path(&path, matched.as_ref())
        };
        match route.answer(&values) {
            Some(response) => ControlFlow::Break(response),
            None => ControlFlow::Continue((route, route.rewritten(&values))),
        }
    }

    /// Returns the file that answers a request with all its content, if that is in memory. The
    /// request's path and fields decide; its method is GET or HEAD.
    ///
    /// `None` says nothing of the answer, which [`Site::respond`] then gives.
    pub(crate) fn whole_file(&self, path: &str, headers: &HeaderMap) -> Option<WholeFile> {
        if self.routes.is_empty() {
            return self.rest.whole_file(path, headers);
        }
        let normal = path::normal(path).ok()?;
        let (route, matched) = self.find(&normal);
        if route.rewrite.as_ref().is_some_and(Template::needs_request) {
            return None;
        }
        let values = Values::of_path(&normal, matched.as_ref());
        if route.lacks_slash(&values) {
            return None;
        }
        let rewritten = route.rewritten(&values);
        route.whole_file(rewritten.as_deref().unwrap_or(path), headers)
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
    response
}
