//! Access by the answer of another server.

use http::request::Parts;
use http::uri::{self, PathAndQuery};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::{BodyExt, Empty};

use super::config::ForwardAuthConfig;
use crate::hosts::requested_host;
use crate::proxy::settle_connection;
use crate::{
    Body, BoxError, Peer, Proxy, ProxyConfig, RequestBody, Scheme, SiteConfig, UpstreamsConfig,
};

const X_FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const X_FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");

/// Fields that are about the content of a request, or make its response depend on a former one.
const OF_CONTENT: [HeaderName; 10] = [
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TRAILER,
    header::EXPECT,
    header::RANGE,
    header::IF_RANGE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
];

/// Asks another server about each request.
#[derive(Debug)]
pub(super) struct ForwardAuth {
    proxy: Proxy,
    target: PathAndQuery,
    copied: Vec<HeaderName>,
}

impl ForwardAuth {
    /// The server is reached as the upstreams of the site are.
    ///
    /// # Errors
    /// If the URL or a name can't be used. The error names the key.
    pub(super) fn new(config: &ForwardAuthConfig, site: &SiteConfig) -> Result<Self, BoxError> {
        let (server, target) = split(&config.url);
        let urls = UpstreamsConfig::from(&*server);
        let proxy = ProxyConfig {
            preserve_host: false,
            response_timeout: config.timeout,
            // They are of the site's upstreams.
            health: None,
            tls_server_name: None,
            ..site.proxy.clone()
        };
        let name = |name: &String| {
            let wrong = || format!("`forward_auth.copy_headers` names `{name}`, which is no field");
            name.parse().map_err(|_| wrong())
        };
        Ok(Self {
            proxy: Proxy::new(&urls, &proxy, site.header_size, &site.upstreams)?,
            target,
            copied: config
                .copy_headers
                .iter()
                .map(name)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Takes away a client's own fields of the names that only the server may give.
    pub(super) fn drop_fields(&self, headers: &mut HeaderMap) {
        settle_connection(headers);
        for name in &self.copied {
            headers.remove(name);
        }
    }

    /// Lets a request pass, with the fields that it gets, or returns the response for its client.
    ///
    /// [`ForwardAuth::drop_fields`] comes before.
    pub(super) async fn check(
        &self,
        request: &mut Request<RequestBody>,
        peer: &Peer,
    ) -> Result<(), Response<Body>> {
        let question = self.question(request, peer.scheme);
        let answer = self.proxy.respond(question, peer).await;
        if !answer.status().is_success() {
            return Err(answer);
        }
        let headers = request.headers_mut();
        for name in &self.copied {
            for value in answer.headers().get_all(name) {
                headers.append(name, value.clone());
            }
        }
        Ok(())
    }

    /// The request without its content, as GET of the server's URL.
    fn question(&self, request: &Request<RequestBody>, scheme: Scheme) -> Request<RequestBody> {
        let host = requested_host(request.uri(), request.headers());
        let mut parts = uri::Parts::default();
        parts.path_and_query = Some(self.target.clone());
        if let Some(Ok(host)) = host.map(str::parse) {
            parts.scheme = Some(match scheme {
                Scheme::Http => uri::Scheme::HTTP,
                Scheme::Https => uri::Scheme::HTTPS,
            });
            parts.authority = Some(host);
        }
        let (mut head, body) = Request::new(no_content()).into_parts();
        head.method = Method::GET;
        head.uri = Uri::from_parts(parts).unwrap_or_default();
        head.headers = request.headers().clone();
        describe(&mut head, request.method(), request.uri());
        Request::from_parts(head, body)
    }
}

/// Takes away the fields about the content, and adds the method and the target of the request.
fn describe(question: &mut Parts, method: &Method, uri: &Uri) {
    let headers: &mut HeaderMap = &mut question.headers;
    for name in &OF_CONTENT {
        headers.remove(name);
    }
    // A handshake of WebSocket is asked about as any other request.
    for name in [header::UPGRADE, header::CONNECTION] {
        headers.remove(name);
    }
    if let Ok(method) = HeaderValue::from_str(method.as_str()) {
        headers.insert(X_FORWARDED_METHOD, method);
    }
    let target = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    if let Ok(target) = HeaderValue::from_str(target) {
        headers.insert(X_FORWARDED_URI, target);
    }
}

/// The URL of a server, and the target there.
fn split(url: &str) -> (String, PathAndQuery) {
    let parsed = url.parse::<Uri>().ok();
    let parts = parsed.map(Uri::into_parts);
    match parts {
        Some(http::uri::Parts {
            scheme: Some(scheme),
            authority: Some(authority),
            path_and_query,
            ..
        }) => (
            format!("{scheme}://{authority}"),
            path_and_query.unwrap_or(PathAndQuery::from_static("/")),
        ),
        // The proxy reports the fault of it.
        _ => (url.to_owned(), PathAndQuery::from_static("/")),
    }
}

fn no_content() -> RequestBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split_into_server_and_target() {
        let cases = [
            ("http://a:9091/verify?rd=1", "http://a:9091", "/verify?rd=1"),
            ("https://a", "https://a", "/"),
            ("h2c://[::1]:80/", "h2c://[::1]:80", "/"),
            ("nonsense", "nonsense", "/"),
        ];
        for (url, server, target) in cases {
            let (got, path) = split(url);
            assert_eq!((&*got, path.as_str()), (server, target), "{url}");
        }
    }
}
