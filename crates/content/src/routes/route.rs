//! A route: what becomes of requests for some paths.

use std::sync::Arc;

use http::uri::PathAndQuery;
use http::{HeaderMap, Request, Response, StatusCode, Uri};

use super::action::{self, Action, Unusable};
use super::config::{RouteConfig, SiteConfig};
use super::fields::{HeaderRules, HeadersConfig};
use super::pattern::Pattern;
use super::template::{Template, Values};
use crate::files::add_slash;
use crate::{Body, Peer, RequestBody, WholeFile, status_response};

/// Requests of some paths.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) pattern: Pattern,
    /// The path that the action sees.
    pub(super) rewrite: Option<Template>,
    /// That is the client's without the prefix.
    strips: bool,
    request: HeaderRules,
    response: Option<Arc<HeaderRules>>,
    pub(super) action: Action,
}

impl Route {
    /// All paths, as they are.
    pub(super) const fn of(action: Action) -> Self {
        Self {
            pattern: Pattern::Prefix(String::new()),
            rewrite: None,
            strips: false,
            request: HeaderRules::NONE,
            response: None,
            action,
        }
    }

    pub(super) fn of_site(site: &SiteConfig) -> Result<Self, Unusable> {
        let (request, response) = rules(&site.request_headers, &site.response_headers)?;
        Ok(Self {
            request,
            response,
            ..Self::of(Action::of_site(site)?)
        })
    }

    /// The routes of a setting, one for each of its patterns.
    pub(super) fn of_config(
        config: &RouteConfig,
        site: &SiteConfig,
        site_does: &Action,
    ) -> Result<Vec<Self>, Unusable> {
        let patterns = patterns(config).map_err(Unusable::Wrong)?;
        let regex = patterns.first().and_then(Pattern::regex);
        let rewrite = rewrite(config, &patterns).map_err(Unusable::Wrong)?;
        let action = Action::of_route(config, site, site_does, regex)?;
        let (mut request, mut response) = (
            config.request_headers.clone(),
            config.response_headers.clone(),
        );
        request.inherit(&site.request_headers);
        response.inherit(&site.response_headers);
        let (request, response) = rules(&request, &response)?;
        let of = |pattern| Self {
            pattern,
            rewrite: rewrite.clone(),
            strips: config.strip_prefix,
            request: request.clone(),
            response: response.clone(),
            action: action.clone(),
        };
        Ok(patterns.into_iter().map(of).collect())
    }

    /// The response that needs neither files nor an upstream.
    pub(super) fn answer(&self, values: &Values<'_>) -> Option<Response<Body>> {
        let mut response = match &self.action {
            Action::Redirect(to, status) => action::redirect(*status, &to.expand(values)),
            Action::Answer(answer) => answer.response(),
            Action::Files(_) if self.lacks_slash(values) => add_slash(values.path, values.query),
            Action::Files(_) | Action::Proxy(_) => return None,
        };
        self.change(&mut response);
        Some(response)
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

    /// Lets files or the upstream answer, which see `rewritten` in place of the client's path.
    pub(super) async fn serve(
        &self,
        mut request: Request<RequestBody>,
        peer: &Peer,
        rewritten: Option<String>,
    ) -> Response<Body> {
        let mut response = match &self.action {
            Action::Files(files) => {
                let (head, _) = request.into_parts();
                let path = rewritten.as_deref().map(path_of);
                files.respond(&head, path.unwrap_or(head.uri.path())).await
            }
            Action::Proxy(proxy) => {
                self.request.apply(request.headers_mut());
                if let Some(target) = rewritten {
                    retarget(request.uri_mut(), &target);
                }
                // Boxed, since it is twenty times the size of the other future. Without the box,
                // each request for a file would move all of it.
                Box::pin(proxy.respond(request, peer)).await
            }
            // Answered before; a site that is nothing but routes has nothing else.
            Action::Redirect(..) | Action::Answer(_) => status_response(StatusCode::NOT_FOUND),
        };
        self.change(&mut response);
        response
    }

    pub(super) fn whole_file(&self, path: &str, headers: &HeaderMap) -> Option<WholeFile> {
        let Action::Files(files) = &self.action else {
            return None;
        };
        let file = files.whole(path_of(path), headers)?;
        Some(file.changed_by(self.response.as_ref()))
    }

    pub(super) fn change(&self, response: &mut Response<Body>) {
        if let Some(rules) = &self.response {
            rules.apply(response.headers_mut());
        }
    }
}

/// The changes of requests and of responses; `None` without any.
fn rules(
    request: &HeadersConfig,
    response: &HeadersConfig,
) -> Result<(HeaderRules, Option<Arc<HeaderRules>>), Unusable> {
    let request = HeaderRules::new("request_headers", request).map_err(Unusable::Wrong)?;
    let response = HeaderRules::new("response_headers", response).map_err(Unusable::Wrong)?;
    Ok((request, (!response.is_empty()).then(|| Arc::new(response))))
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
