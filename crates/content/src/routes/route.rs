//! A route: what becomes of requests for some paths.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use hikyaku_units::ByteSize;
use http::uri::PathAndQuery;
use http::{HeaderMap, Request, Response, StatusCode, Uri};

use super::action::{self, Action, Unusable};
use super::changes::Changes;
use super::config::{RouteConfig, SiteConfig};
use super::errors::ErrorPages;
use super::pattern::Pattern;
use super::template::{Template, Values};
use super::variables::Facts;
use crate::access::Access;
use crate::cache::Cache;
use crate::compress::{Compression, Plan};
use crate::files::{MediaTypes, add_slash};
use crate::{
    AccessConfig, Body, ErrorReason, FilesConfig, Peer, RequestBody, Scheme, WholeFile,
    status_response,
};

/// The treatment of a request.
pub(super) enum Planned {
    /// This response needs neither files nor an upstream.
    Answer(Response<Body>),
    /// Files or the upstream answer. They may see another path than the client's.
    Serve(Option<String>),
}

/// Requests of some paths.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) pattern: Pattern,
    /// The path that the action sees.
    pub(super) rewrite: Option<Template>,
    /// That is the client's without the prefix.
    strips: bool,
    changes: Changes,
    errors: Errors,
    /// Whether the access log has its requests.
    pub(super) is_logged: bool,
    /// Size of a request's body; `None` where the server's counts.
    pub(super) body_size: Option<ByteSize>,
    /// `None` where everybody may use it. Routes without their own share the site's.
    pub(super) access: Option<Arc<Access>>,
    /// The cache of an upstream's responses.
    pub(super) cache: Option<Arc<Cache>>,
    /// Compression of an upstream's responses, and of pages that the server changes; files do their own.
    pub(super) compression: Option<Arc<Compression>>,
    pub(super) action: Action,
}

/// Pages in place of errors.
#[derive(Clone, Debug, Default)]
struct Errors {
    pages: Arc<ErrorPages>,
    /// Also of those of the upstream.
    of_upstream: bool,
}

impl Route {
    /// All paths, as they are.
    pub(super) fn of(action: Action) -> Self {
        Self {
            pattern: Pattern::Prefix(String::new()),
            rewrite: None,
            strips: false,
            changes: Changes::default(),
            errors: Errors::default(),
            is_logged: true,
            body_size: None,
            access: None,
            cache: None,
            compression: None,
            action,
        }
    }

    pub(super) fn of_site(site: &SiteConfig) -> Result<Self, Unusable> {
        let changes = Changes::new(&site.request_headers, &site.response_headers);
        let access = access(&site.access, site)?;
        let compression = Compression::new(&site.compression).map_err(Unusable::Wrong)?;
        Ok(Self {
            changes: changes.map_err(Unusable::Wrong)?,
            errors: Errors {
                pages: pages(site.error_pages.iter(), &site.files)?,
                of_upstream: site.proxy.intercept_errors,
            },
            is_logged: site.access_log.unwrap_or(true),
            body_size: site.body_size,
            cache: Cache::new(&site.cache, site, access.as_deref()).map_err(Unusable::Wrong)?,
            access,
            compression: compression.clone(),
            ..Self::of(Action::of_site(site, compression)?)
        })
    }

    /// The routes of a setting, one for each of its patterns.
    pub(super) fn of_config(
        config: &RouteConfig,
        site: &SiteConfig,
        rest: &Self,
    ) -> Result<Vec<Self>, Unusable> {
        let patterns = patterns(config).map_err(Unusable::Wrong)?;
        let regex = patterns.first().and_then(Pattern::regex);
        let rewrite = rewrite(config, &patterns).map_err(Unusable::Wrong)?;
        let access = match &config.access {
            Some(own) => access(own, site)?,
            None => rest.access.clone(),
        };
        let compression = config.compression.as_ref().unwrap_or(&site.compression);
        let compression = Compression::new(compression).map_err(Unusable::Wrong)?;
        let action = Action::of_route(config, site, &rest.action, regex, compression.clone())?;
        let (mut request, mut response) = (
            config.request_headers.clone(),
            config.response_headers.clone(),
        );
        request.inherit(&site.request_headers);
        response.inherit(&site.response_headers);
        let changes = Changes::new(&request, &response).map_err(Unusable::Wrong)?;
        let cache = config.cache.as_ref().unwrap_or(&site.cache);
        let cache = Cache::new(cache, site, access.as_deref()).map_err(Unusable::Wrong)?;
        let errors = Errors {
            pages: match config.error_pages.is_empty() {
                true => Arc::clone(&rest.errors.pages),
                false => {
                    let files = config.files.as_ref().unwrap_or(&site.files);
                    pages(site.error_pages.iter().chain(&config.error_pages), files)?
                }
            },
            of_upstream: config
                .proxy
                .as_ref()
                .unwrap_or(&site.proxy)
                .intercept_errors,
        };
        let of = |pattern| Self {
            pattern,
            rewrite: rewrite.clone(),
            strips: config.strip_prefix,
            changes: changes.clone(),
            errors: errors.clone(),
            is_logged: config.access_log.or(site.access_log).unwrap_or(true),
            body_size: config.body_size.or(site.body_size),
            access: access.clone(),
            cache: cache.clone(),
            compression: compression.clone(),
            action: action.clone(),
        };
        Ok(patterns.into_iter().map(of).collect())
    }

    /// The response that needs neither files nor an upstream.
    pub(super) fn answer(&self, values: &Values<'_>) -> Option<Response<Body>> {
        Some(match &self.action {
            Action::Redirect(to, status) => action::redirect(*status, &to.expand(values)),
            Action::Answer(answer) => answer.response(),
            Action::Files(_) if self.lacks_slash(values) => add_slash(values.path, values.query),
            Action::Files(_) | Action::Proxy(_) => return None,
        })
    }

    /// Whether the path is the prefix of a directory, without the slash on which its links depend.
    pub(super) fn lacks_slash(&self, values: &Values<'_>) -> bool {
        self.strips && values.rest.is_empty() && !values.path.ends_with('/')
    }

    /// The path, and perhaps a query, that the action sees in place of the client's.
    pub(super) fn rewritten(&self, values: &Values<'_>) -> Option<String> {
        let text = self.rewrite.as_ref()?.expand(values);
        Some(match text.starts_with('/') {
            true => text,
            false => format!("/{text}"),
        })
    }

    /// Responds to those who may use the route, and refuses the others.
    pub(super) async fn respond_to_some(
        &self,
        mut request: Request<RequestBody>,
        peer: &Peer,
        planned: Planned,
    ) -> Response<Body> {
        let checked = match &self.access {
            Some(access) => access.check(&mut request, peer).await,
            None => Ok(None),
        };
        match checked {
            Ok(user) => {
                if let Some(user) = user.as_ref().filter(|_| self.changes.have_variables()) {
                    request.extensions_mut().insert(user.clone());
                }
                let mut response = self.respond(request, peer, planned).await;
                if let Some(user) = user {
                    response.extensions_mut().insert(user);
                }
                response
            }
            Err(mut refusal) => {
                let facts = self.changes.facts(&request, peer);
                self.change(&mut refusal, false, facts.as_deref());
                refusal
            }
        }
    }

    /// Responds to everybody.
    pub(super) async fn respond(
        &self,
        request: Request<RequestBody>,
        peer: &Peer,
        planned: Planned,
    ) -> Response<Body> {
        let facts = self.changes.facts(&request, peer);
        let facts = facts.as_deref();
        let (mut response, plan) = match planned {
            Planned::Answer(response) => (response, None),
            Planned::Serve(rewritten) => self.serve(request, peer, rewritten, facts).await,
        };
        let is_proxied = matches!(self.action, Action::Proxy(_));
        self.change(&mut response, is_proxied && self.errors.of_upstream, facts);
        // After the changes, which may forbid it.
        if let Some(plan) = plan {
            plan.apply(&mut response);
        }
        response
    }

    /// Lets files or the upstream answer, which see `rewritten` in place of the client's path. Returns how the
    /// response is compressed, too.
    async fn serve(
        &self,
        mut request: Request<RequestBody>,
        peer: &Peer,
        rewritten: Option<String>,
        facts: Option<&Facts>,
    ) -> (Response<Body>, Option<Plan>) {
        let mut plan = None;
        let response = match &self.action {
            Action::Files(files) => {
                let (head, _) = request.into_parts();
                let path = rewritten.as_deref().map(path_of);
                files.respond(&head, path.unwrap_or(head.uri.path())).await
            }
            Action::Proxy(proxy) => {
                self.changes.change_request(request.headers_mut(), facts);
                let uri = self.cache.as_ref().and(rewritten.as_ref());
                let uri = uri.map(|_| request.uri().clone());
                if let Some(target) = rewritten {
                    retarget(request.uri_mut(), &target);
                }
                plan = self.plan(&mut request);
                // Boxed, since it is twenty times the size of the other future. Without the box,
                // each request for a file would move all of it.
                match &self.cache {
                    Some(cache) => Box::pin(cache.respond(proxy, request, uri, peer)).await,
                    None => Box::pin(proxy.respond(request, peer)).await,
                }
            }
            // Answered before; a site that is nothing but routes has nothing else.
            Action::Redirect(..) | Action::Answer(_) => status_response(StatusCode::NOT_FOUND),
        };
        (response, plan)
    }

    /// Plans the compression of an upstream's response.
    fn plan(&self, request: &mut Request<RequestBody>) -> Option<Plan> {
        let compression = self.compression.as_ref()?;
        let mut plan = compression.plan(request.method(), request.headers())?;
        plan.adapt(request.headers_mut());
        Some(plan)
    }

    /// `path` is the one that the action sees, and `uri` the client's.
    pub(super) fn whole_file(
        &self,
        uri: &Uri,
        path: &str,
        headers: &HeaderMap,
        scheme: Scheme,
    ) -> Option<WholeFile> {
        // A head that is prepared for all requests has parts of none.
        if self.access.is_some() || self.changes.vary() {
            return None;
        }
        let response = self.changes.response();
        let file = match (&self.action, &self.cache) {
            (Action::Files(files), _) => {
                let file = files.whole(path_of(path), headers)?;
                file.changed_by(response)
            }
            // Fields that are changed on their way to the upstream may choose its response.
            (Action::Proxy(_), Some(cache)) if self.changes.leave_requests() => {
                let is_sent_as_it_is = |fields: &HeaderMap, length| {
                    let compression = self.compression.as_ref();
                    compression.is_none_or(|it| !it.covers(fields, Some(length)))
                };
                cache.whole((scheme, uri, headers), response, is_sent_as_it_is)?
            }
            _ => return None,
        };
        Some(file.logged(self.is_logged))
    }

    /// Gives a response the page of its error, if that is in words or `is_of_upstream`, and its fields.
    fn change(&self, response: &mut Response<Body>, is_of_upstream: bool, facts: Option<&Facts>) {
        let status = response.status();
        if status.is_client_error() || status.is_server_error() {
            self.errors.pages.apply(response, is_of_upstream);
        }
        self.changes.change_response(response, facts);
    }
}

/// The pages of a site or a route, with the media types of its files. Later ones take the place of former
/// ones for the same status.
fn pages<'a>(
    config: impl Iterator<Item = (&'a String, &'a PathBuf)>,
    files: &FilesConfig,
) -> Result<Arc<ErrorPages>, Unusable> {
    let by_status: BTreeMap<_, _> = config.collect();
    let types = MediaTypes::new(&files.types).map_err(|why| Unusable::Wrong(why.to_string()))?;
    let pages = ErrorPages::read(by_status, &types).map_err(Unusable::Wrong)?;
    Ok(Arc::new(pages))
}

/// The conditions of a site or a route.
fn access(config: &AccessConfig, site: &SiteConfig) -> Result<Option<Arc<Access>>, Unusable> {
    let access = Access::new(config, site);
    let access = access
        .map_err(|why| Unusable::Wrong(format!("`access`: {}", ErrorReason::from_error(&*why))))?;
    Ok(access.map(Arc::new))
}

fn patterns(config: &RouteConfig) -> Result<Vec<Pattern>, String> {
    match (&config.path[..], &config.regex) {
        ([], None) => Err("it has neither `path` nor `regex`".to_owned()),
        ([], Some(regex)) => Ok(vec![
            Pattern::of_regex(regex).map_err(|why| format!("`regex`: {why}"))?,
        ]),
        (paths, None) => {
            let patterns = paths.iter().map(|path| Pattern::of_path(path));
            patterns
                .collect::<Result<_, _>>()
                .map_err(|why| format!("`path`: {why}"))
        }
        (_, Some(_)) => Err("it has both `path` and `regex`: keep one".to_owned()),
    }
}

fn rewrite(config: &RouteConfig, patterns: &[Pattern]) -> Result<Option<Template>, String> {
    let regex = patterns.first().and_then(Pattern::regex);
    let are_prefixes = patterns
        .iter()
        .all(|pattern| pattern.prefix_len().is_some());
    let is_answered = config.redirect.is_some() || config.answer.is_some();
    match (&config.rewrite, config.strip_prefix) {
        (None, false) => Ok(None),
        _ if is_answered => Err(
            "`rewrite` and `strip_prefix` are for files and upstreams, not for a redirect or an answer"
                .to_owned(),
        ),
        (Some(_), true) => Err(
            "it has both `rewrite` and `strip_prefix`, which is `rewrite = \"$rest\"`".to_owned(),
        ),
        (None, true) if !are_prefixes => {
            Err("`strip_prefix` needs a `path` that is a prefix, such as `/api`".to_owned())
        }
        (None, true) => Template::parse("$rest", None).map(Some),
        (Some(text), false) => {
            let template =
                Template::parse(text, regex).map_err(|why| format!("`rewrite`: {why}"))?;
            Ok(Some(template))
        }
    }
}

/// The path of a target, without its query.
fn path_of(target: &str) -> &str {
    target.split_once('?').map_or(target, |(path, _)| path)
}

/// Puts another path into a URI. The query stays, unless the target has one.
fn retarget(uri: &mut Uri, target: &str) {
    let target = match (target.contains('?'), uri.query()) {
        (false, Some(query)) => format!("{target}?{query}"),
        _ => target.to_owned(),
    };
    let mut parts = std::mem::take(uri).into_parts();
    // A target is made of parts of a URI; one that is none becomes the root.
    let target = PathAndQuery::try_from(target);
    parts.path_and_query = Some(target.unwrap_or(PathAndQuery::from_static("/")));
    *uri = Uri::from_parts(parts).unwrap_or_default();
}
