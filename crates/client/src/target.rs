//! The target of a fetch: a URL, and its request.

use std::fmt;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version};
use url::Url;

use super::error::GetError;

/// Scheme, host and port (RFC 6454 §4): the scope within which a connection may be shared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    /// Whether the scheme is `https`.
    pub(super) secure: bool,
    /// A name or an address; IPv6 without brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Origin {
    fn of(url: &Url) -> Option<Self> {
        let secure = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
        let port = url.port_or_known_default()?;
        Some(Self { secure, host, port })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

/// A URL that is ready to be requested.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) url: Url,
    pub(super) origin: Origin,
    absolute: Uri,
    origin_form: Uri,
    host: HeaderValue,
}

impl Target {
    /// Parses a URL of the command line.
    pub(super) fn parse(text: &str) -> Result<Self, GetError> {
        let refuse = |reason: String| GetError::Url {
            url: text.to_owned(),
            reason,
        };
        if !text.contains("://") {
            return Err(refuse(format!("it has no scheme; write https://{text}")));
        }
        let url = Url::parse(text).map_err(|error| refuse(error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refuse(
                "it holds credentials; send them with --header 'authorization: ...'".to_owned(),
            ));
        }
        Self::new(url).ok_or_else(|| refuse("the scheme is not http or https".to_owned()))
    }

    /// A target; `None` if the URL is not of HTTP.
    pub(super) fn new(mut url: Url) -> Option<Self> {
        url.set_fragment(None);
        let origin = Origin::of(&url)?;
        let absolute: Uri = url.as_str().parse().ok()?;
        let origin_form: Uri = absolute.path_and_query()?.as_str().parse().ok()?;
        let host = HeaderValue::from_str(absolute.authority()?.as_str()).ok()?;
        Some(Self {
            url,
            origin,
            absolute,
            origin_form,
            host,
        })
    }
}

/// The parts that all requests have in common.
#[derive(Clone, Debug)]
pub(super) struct Template {
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Template {
    /// The template of a plain GET for a page's resources: the same fields, no body.
    pub(super) fn for_resources(&self) -> Self {
        Self {
            method: Method::GET,
            headers: self.headers.clone(),
            body: Bytes::new(),
        }
    }

    /// Builds the request for `target` over `version`. HTTP/1.1 takes the path and a Host field,
    /// the others the whole URI for their pseudo-header fields.
    pub(super) fn request(&self, target: &Target, version: Version) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = self.method.clone();
        *request.headers_mut() = self.headers.clone();
        if version == Version::HTTP_11 {
            *request.uri_mut() = target.origin_form.clone();
            let headers = request.headers_mut();
            headers.entry(HOST).or_insert_with(|| target.host.clone());
        } else {
            *request.uri_mut() = target.absolute.clone();
        }
        *request.version_mut() = version;
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let cases: &[(&str, Result<&str, &str>)] = &[
            ("https://a.test", Ok("https://a.test:443")),
            ("http://a.test/x?y#z", Ok("http://a.test:80")),
            ("https://[::1]:8443/", Ok("https://[::1]:8443")),
            ("a.test:8443/x", Err("write https://a.test:8443/x")),
            ("ftp://a.test/", Err("not http or https")),
            ("https://me:secret@a.test/", Err("credentials")),
            ("https://", Err("empty host")),
        ];
        for (text, want) in cases {
            match (Target::parse(text), want) {
                (Ok(target), Ok(want)) => assert_eq!(target.origin.to_string(), *want, "{text}"),
                (Err(error), Err(want)) => {
                    assert!(error.to_string().contains(want), "{text}: {error}");
                }
                (got, _) => panic!("{text}: {got:?}"),
            }
        }
    }

    #[test]
    fn request_form_follows_the_version() {
        let target = Target::parse("https://a.test:8443/x?y=1#frag").unwrap();
        let template = Template {
            method: Method::GET,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        };
        let one = template.request(&target, Version::HTTP_11);
        assert_eq!(one.uri(), "/x?y=1");
        assert_eq!(one.headers()[HOST], "a.test:8443");
        let two = template.request(&target, Version::HTTP_2);
        assert_eq!(two.uri(), "https://a.test:8443/x?y=1");
        assert!(!two.headers().contains_key(HOST));
    }
}
