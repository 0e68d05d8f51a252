//! The address of the upstream server.

use std::path::PathBuf;

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};

use super::config::{ProxyConfig, UpstreamHttp};
use super::error::ProxyError;

/// The parts of an upstream server's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Upstream {
    pub(super) place: Place,
    pub(super) http: UpstreamHttp,
    /// Host and, unless it is the scheme's own, port.
    pub(super) authority: Authority,
    /// Its name in messages.
    pub(super) name: String,
    /// The path before every request's own, without a slash at its end.
    prefix: String,
}

/// Where an upstream takes connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the clear.
    Tcp(Host),
    /// With TLS.
    Tls(Host),
    /// In the clear, on a Unix socket.
    Socket(PathBuf),
}

/// A host and a port of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    /// Name or address, an IPv6 one without brackets.
    pub(super) name: String,
    pub(super) port: u16,
}

impl Upstream {
    /// Reads `http://`, `https://` or `h2c://` with a host, and optionally a port and a path that goes
    /// before the paths of all requests. With `unix:` and `h2c+unix:` it reads the path of a socket.
    pub(super) fn parse(url: &str, config: &ProxyConfig) -> Result<Self, ProxyError> {
        let refuse = |problem| ProxyError::Url {
            url: url.to_owned(),
            problem,
        };
        let (scheme, socket) = match url.split_once("unix:") {
            Some(("", path)) => ("http", Some(path)),
            Some(("h2c+", path)) => ("h2c", Some(path)),
            _ => (url.split_once(':').map_or("", |(scheme, _)| scheme), None),
        };
        let http = match (scheme, config.upstream_http) {
            ("h2c", UpstreamHttp::Auto | UpstreamHttp::Http2) => UpstreamHttp::Http2,
            ("h2c", UpstreamHttp::Http1) => {
                return Err(refuse("its scheme means HTTP/2, `upstream_http` says 1.1"));
            }
            (_, http) => http,
        };
        match socket {
            Some(path) => Self::socket(path, http).map_err(refuse),
            None => Self::host(url, http).map_err(refuse),
        }
    }

    fn socket(path: &str, http: UpstreamHttp) -> Result<Self, &'static str> {
        if !path.starts_with('/') {
            return Err("the path of its socket does not begin with a slash");
        }
        Ok(Self {
            place: Place::Socket(path.into()),
            http,
            authority: Authority::from_static("localhost"),
            name: format!("unix:{path}"),
            prefix: String::new(),
        })
    }

    fn host(url: &str, http: UpstreamHttp) -> Result<Self, &'static str> {
        let parsed: Uri = url.parse().map_err(|_| "it is no URL")?;
        let place: fn(Host) -> Place = match parsed.scheme_str() {
            Some("http" | "h2c") => Place::Tcp,
            Some("https") => Place::Tls,
            _ => return Err("its scheme is none of http, https, h2c, unix and h2c+unix"),
        };
        let authority = parsed
            .authority()
            .filter(|authority| !authority.host().is_empty());
        let authority = authority.ok_or("it has no host")?;
        if authority.as_str().contains('@') {
            return Err("it has a user name, which nothing would use");
        }
        if parsed.query().is_some() {
            return Err("it has a query");
        }
        let usual = match parsed.scheme_str() {
            Some("https") => 443,
            _ => 80,
        };
        let host = Host {
            name: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(usual),
        };
        Ok(Self {
            place: place(host),
            http,
            name: authority.to_string(),
            authority: authority.clone(),
            prefix: parsed.path().trim_end_matches('/').to_owned(),
        })
    }

    pub(super) fn scheme(&self) -> Scheme {
        match self.is_tls() {
            true => Scheme::HTTPS,
            false => Scheme::HTTP,
        }
    }

    pub(super) const fn is_tls(&self) -> bool {
        matches!(self.place, Place::Tls(_))
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
        for (url, config, is_tls, http, name, port) in cases {
            let upstream = parse(url, config).unwrap();
            let name = name.to_owned();
            let host = Host { name, port };
            let place = match is_tls {
                true => Place::Tls(host),
                false => Place::Tcp(host),
            };
            assert_eq!((upstream.place, upstream.http), (place, http), "{url}");
        }
    }

    #[test]
    fn sockets_have_a_path_and_the_host_localhost() {
        use UpstreamHttp::{Auto, Http1, Http2};
        let cases = [
            ("unix:/run/app.sock", Auto, Auto),
            ("unix:/run/app.sock", Http1, Http1),
            ("unix:/run/app.sock", Http2, Http2),
            ("h2c+unix:/run/app.sock", Auto, Http2),
        ];
        for (url, config, http) in cases {
            let upstream = parse(url, config).unwrap();
            assert_eq!(upstream.place, Place::Socket("/run/app.sock".into()));
            assert_eq!(upstream.http, http, "{url}");
            assert_eq!(upstream.authority, "localhost");
            assert_eq!(upstream.name, "unix:/run/app.sock");
            let path = upstream.path_of(&"/x?y".parse().unwrap()).unwrap();
            assert_eq!(path, "/x?y");
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
            ("h2c+unix:/a", UpstreamHttp::Http1, "HTTP/2"),
            ("unix:run/app.sock", Auto, "begin with a slash"),
            ("unix:", Auto, "begin with a slash"),
            ("https+unix:/a", Auto, "URL"),
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
