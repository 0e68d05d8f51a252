//! The address of the upstream server.

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};

use super::config::{ProxyConfig, UpstreamHttp};
use super::error::ProxyError;

/// The parts of an upstream server's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Upstream {
    pub(super) is_tls: bool,
    pub(super) http: UpstreamHttp,
    /// Name or address, an IPv6 one without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Host and, unless it is the scheme's own, port.
    pub(super) authority: Authority,
    /// The path before every request's own, without a slash at its end.
    prefix: String,
}

impl Upstream {
    /// Reads `http://`, `https://` or `h2c://` with a host, and optionally a port
    /// and a path that goes before the paths of all requests.
    pub(super) fn parse(url: &str, config: &ProxyConfig) -> Result<Self, ProxyError> {
        let refuse = |problem| ProxyError::Url {
            url: url.to_owned(),
            problem,
        };
        let parsed: Uri = url.parse().map_err(|_| refuse("it is no URL"))?;
        let (is_tls, http) = match (parsed.scheme_str(), config.upstream_http) {
            (Some("http"), http) => (false, http),
            (Some("https"), http) => (true, http),
            (Some("h2c"), UpstreamHttp::Auto | UpstreamHttp::Http2) => (false, UpstreamHttp::Http2),
            (Some("h2c"), UpstreamHttp::Http1) => {
                return Err(refuse("its scheme means HTTP/2, `upstream_http` says 1.1"));
            }
            _ => return Err(refuse("its scheme is none of http, https and h2c")),
        };
        let authority = parsed
            .authority()
            .filter(|authority| !authority.host().is_empty());
        let authority = authority.ok_or_else(|| refuse("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(refuse("it has a user name, which nothing would use"));
        }
        if parsed.query().is_some() {
            return Err(refuse("it has a query"));
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority
            .port_u16()
            .unwrap_or(if is_tls { 443 } else { 80 });
        Ok(Self {
            is_tls,
            http,
            host,
            port,
            authority: authority.clone(),
            prefix: parsed.path().trim_end_matches('/').to_owned(),
        })
    }

    pub(super) fn scheme(&self) -> Scheme {
        if self.is_tls {
            Scheme::HTTPS
        } else {
            Scheme::HTTP
        }
    }

    /// The path and query of the request to the upstream.
    pub(super) fn path_of(&self, requested: &Uri) -> Option<PathAndQuery> {
        let path = requested.path_and_query();
        let is_of_server = requested.path() == "*";
        if self.prefix.is_empty() || is_of_server {
            return Some(path.cloned().unwrap_or(PathAndQuery::from_static("/")));
        }
        let path = path.map_or("/", PathAndQuery::as_str);
        PathAndQuery::try_from(format!("{}{path}", self.prefix)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str, http: UpstreamHttp) -> Result<Upstream, String> {
        let config = ProxyConfig {
            upstream_http: http,
            ..ProxyConfig::default()
        };
        Upstream::parse(url, &config).map_err(|error| error.to_string())
    }

    #[test]
    fn urls_are_taken_apart() {
        use UpstreamHttp::{Auto, Http1, Http2};
        let cases = [
            ("http://a", Auto, false, Auto, "a", 80),
            ("http://a:8080/", Http1, false, Http1, "a", 8080),
            ("https://a.example", Auto, true, Auto, "a.example", 443),
            (
                "https://a.example:8443/x",
                Http2,
                true,
                Http2,
                "a.example",
                8443,
            ),
            ("h2c://127.0.0.1:80", Auto, false, Http2, "127.0.0.1", 80),
            ("http://[::1]:80", Http2, false, Http2, "::1", 80),
        ];
        for (url, config, is_tls, http, host, port) in cases {
            let upstream = parse(url, config).unwrap();
            let got = (
                upstream.is_tls,
                upstream.http,
                &*upstream.host,
                upstream.port,
            );
            assert_eq!(got, (is_tls, http, host, port), "{url}");
        }
    }

    #[test]
    fn unusable_urls_are_refused_with_the_reason() {
        let cases = [
            ("a", Auto, "scheme"),
            ("", Auto, "no URL"),
            ("ftp://a", Auto, "scheme"),
            ("http://", Auto, "no URL"),
            ("http://u:p@a", Auto, "user name"),
            ("http://a/?x", Auto, "query"),
            ("h2c://a", UpstreamHttp::Http1, "HTTP/2"),
        ];
        use UpstreamHttp::Auto;
        for (url, http, want) in cases {
            let error = parse(url, http).unwrap_err();
            assert!(error.contains(want), "{url}: {error}");
        }
    }

    #[test]
    fn paths_go_below_the_prefix() {
        let cases = [
            ("http://a", "/x?y", "/x?y"),
            ("http://a/", "/x", "/x"),
            ("http://a/b", "/x?y=%2F", "/b/x?y=%2F"),
            ("http://a/b/", "/", "/b/"),
            ("http://a", "*", "*"),
            ("http://a/b", "*", "*"),
            ("http://a", "https://h/x//..%2f?z", "/x//..%2f?z"),
        ];
        for (url, requested, want) in cases {
            let upstream = parse(url, UpstreamHttp::Auto).unwrap();
            let path = upstream.path_of(&requested.parse().unwrap()).unwrap();
            assert_eq!(path.as_str(), want, "{url} {requested}");
        }
    }
}
