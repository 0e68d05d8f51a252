//! The actions of routes.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use super::config::{AnswerConfig, RedirectConfig, RouteConfig, SiteConfig};
use super::template::Template;
use crate::compress::Compression;
use crate::{Body, BoxError, Files, Proxy, UpstreamsConfig, status_response};

/// An action that a route does with a request.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Sends a file.
    Files(Arc<Files>),
    /// Passes it to an upstream.
    Proxy(Arc<Proxy>),
    /// Sends the client to another address.
    Redirect(Template, StatusCode),
    /// Sends this.
    Answer(Answer),
}

/// A response that is always the same.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    status: StatusCode,
    body: Option<(Bytes, HeaderValue)>,
}

/// Why an action can't be had: a sentence, or what could not be served.
pub(super) enum Unusable {
    Wrong(String),
    Serving(String, BoxError),
}

impl Action {
    /// The action of a site without its routes. A site that has nothing else answers 404.
    pub(super) fn of_site(
        site: &SiteConfig,
        compression: Option<Arc<Compression>>,
    ) -> Result<Self, Unusable> {
        match (&site.root, &site.upstream) {
            (Some(root), _) => Self::files(root, &site.files, compression, site),
            (None, Some(upstream)) => Self::proxy(upstream, &site.proxy, site),
            (None, None) => Ok(Self::Answer(Answer {
                status: StatusCode::NOT_FOUND,
                body: None,
            })),
        }
    }

    /// The action of a route, where it names one or has settings of its own; else that of the site.
    pub(super) fn of_route(
        route: &RouteConfig,
        site: &SiteConfig,
        site_does: &Self,
        regex: Option<&regex::Regex>,
        compression: Option<Arc<Compression>>,
    ) -> Result<Self, Unusable> {
        let files = route.files.as_ref().unwrap_or(&site.files);
        let proxy = route.proxy.as_ref().unwrap_or(&site.proxy);
        match (&route.root, &route.upstream, &route.redirect, &route.answer) {
            (Some(root), None, None, None) => Self::files(root, files, compression, site),
            (None, Some(upstream), None, None) => match site_does {
                Self::Proxy(_)
                    if site.upstream.as_ref() == Some(upstream) && *proxy == site.proxy =>
                {
                    Ok(site_does.clone())
                }
                _ => Self::proxy(upstream, proxy, site),
            },
            (None, None, Some(redirect), None) => Self::redirect(redirect, regex),
            (None, None, None, Some(answer)) => Answer::new(answer).map(Self::Answer),
            (None, None, None, None) => match (&site.root, &site.upstream) {
                // Files of its own, since prepared heads hold for the fields of one route.
                (Some(root), _) => Self::files(root, files, compression, site),
                (None, Some(upstream)) if *proxy != site.proxy => {
                    Self::proxy(upstream, proxy, site)
                }
                _ => Ok(site_does.clone()),
            },
            _ => Err(Unusable::Wrong(
                "it has more than one of `root`, `upstream`, `redirect` and `answer`: keep one"
                    .to_owned(),
            )),
        }
    }

    fn files(
        root: &Path,
        config: &crate::FilesConfig,
        compression: Option<Arc<Compression>>,
        site: &SiteConfig,
    ) -> Result<Self, Unusable> {
        let files = Files::compressed(root, config, compression, &site.directories)
            .map_err(|error| Unusable::Serving(root.display().to_string(), error.into()))?;
        Ok(Self::Files(Arc::new(files)))
    }

    fn proxy(
        upstream: &UpstreamsConfig,
        config: &crate::ProxyConfig,
        site: &SiteConfig,
    ) -> Result<Self, Unusable> {
        let proxy = Proxy::new(upstream, config, site.header_size, &site.upstreams)
            .map_err(|error| Unusable::Serving(upstream.to_string(), error.into()))?;
        Ok(Self::Proxy(Arc::new(proxy)))
    }

    fn redirect(config: &RedirectConfig, regex: Option<&regex::Regex>) -> Result<Self, Unusable> {
        let to = Template::parse(&config.to, regex)
            .map_err(|why| Unusable::Wrong(format!("`redirect.to`: {why}")))?;
        match config.status {
            301 | 302 | 303 | 307 | 308 => {}
            status => {
                return Err(Unusable::Wrong(format!(
                    "`redirect.status` is {status}: choose 301, 302, 303, 307 or 308"
                )));
            }
        }
        let status = StatusCode::from_u16(config.status).unwrap_or(StatusCode::FOUND);
        Ok(Self::Redirect(to, status))
    }
}

impl Answer {
    fn new(config: &AnswerConfig) -> Result<Self, Unusable> {
        let status = StatusCode::from_u16(config.status).ok();
        let status = status.filter(|status| (200..600).contains(&status.as_u16()));
        let status = status.ok_or_else(|| {
            Unusable::Wrong(format!(
                "`answer.status` is {}: choose 200 to 599",
                config.status
            ))
        })?;
        let media_type = HeaderValue::from_str(&config.media_type).map_err(|_| {
            Unusable::Wrong("`answer.media_type` has a control character".to_owned())
        })?;
        let body = config.body.as_ref();
        Ok(Self {
            status,
            body: body.map(|body| (Bytes::from(body.clone()), media_type)),
        })
    }

    pub(super) fn response(&self) -> Response<Body> {
        let Some((body, media_type)) = &self.body else {
            return status_response(self.status);
        };
        let mut response = Response::new(Body::from(body.clone()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, media_type.clone());
        response
    }
}

/// Sends the client to another address.
pub(super) fn redirect(status: StatusCode, to: &str) -> Response<Body> {
    let Ok(location) = HeaderValue::try_from(to) else {
        return status_response(StatusCode::BAD_REQUEST);
    };
    let mut response = status_response(status);
    response.headers_mut().insert(header::LOCATION, location);
    response
}
