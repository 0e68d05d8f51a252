//! The key of a resource: its scheme, host and target (RFC 9111 §2).
//!
//! The key is what the client asked for, before a route rewrites it: the address that people know, and
//! purge.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};

use hashbrown::Equivalent;
use http::uri::PathAndQuery;
use http::{HeaderMap, Uri};

use crate::Scheme;
use crate::hosts::requested_host;

/// The key of a stored resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) scheme: Scheme,
    pub(super) host: Box<str>,
    pub(super) target: Box<str>,
}

/// The key that a request asks by, which needs no allocation where the request has it in its form.
#[derive(Debug)]
pub(super) struct AskedKey<'a> {
    pub(super) scheme: Scheme,
    pub(super) host: Cow<'a, str>,
    pub(super) target: Cow<'a, str>,
}

/// Parameters of a query that are not in keys.
#[derive(Debug, Default)]
pub(super) struct Ignored {
    names: Vec<Box<str>>,
    beginnings: Vec<Box<str>>,
}

impl Ignored {
    pub(super) fn new(names: &[String]) -> Self {
        let mut ignored = Self::default();
        for name in names {
            match name.strip_suffix('*') {
                Some(beginning) => ignored.beginnings.push(beginning.into()),
                None => ignored.names.push(name.as_str().into()),
            }
        }
        ignored
    }

    fn has(&self, parameter: &str) -> bool {
        let name = parameter
            .split_once('=')
            .map_or(parameter, |(name, _)| name);
        self.names.iter().any(|ignored| **ignored == *name)
            || self
                .beginnings
                .iter()
                .any(|ignored| name.starts_with(&**ignored))
    }

    /// A target without the parameters.
    fn without<'a>(&self, target: &'a str) -> Cow<'a, str> {
        if self.names.is_empty() && self.beginnings.is_empty() {
            return target.into();
        }
        let Some((path, query)) = target.split_once('?') else {
            return target.into();
        };
        if !query.split('&').any(|parameter| self.has(parameter)) {
            return target.into();
        }
        let kept = query.split('&').filter(|parameter| !self.has(parameter));
        let kept: Vec<_> = kept.collect();
        match kept.is_empty() {
            true => path.into(),
            false => format!("{path}?{}", kept.join("&")).into(),
        }
    }
}

impl<'a> AskedKey<'a> {
    /// The key of a request. One without a host, of HTTP/1.0, has an empty one.
    pub(super) fn of(
        scheme: Scheme,
        uri: &'a Uri,
        headers: &'a HeaderMap,
        ignored: &Ignored,
    ) -> Self {
        let target = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let authority = requested_host(uri, headers).unwrap_or_default();
        Self {
            scheme,
            host: host(scheme, authority),
            target: ignored.without(target),
        }
    }

    pub(super) fn to_key(&self) -> Key {
        Key {
            scheme: self.scheme,
            host: self.host.as_ref().into(),
            target: self.target.as_ref().into(),
        }
    }
}

impl Key {
    /// The key as requests ask by it.
    pub(super) fn asked(&self) -> AskedKey<'_> {
        AskedKey {
            scheme: self.scheme,
            host: (&*self.host).into(),
            target: (&*self.target).into(),
        }
    }
}

/// An authority in lower case, without the port of its scheme.
pub(super) fn host(scheme: Scheme, authority: &str) -> Cow<'_, str> {
    let port = match scheme {
        Scheme::Http => ":80",
        Scheme::Https => ":443",
    };
    let host = authority.strip_suffix(port).unwrap_or(authority);
    match host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => host.to_ascii_lowercase().into(),
        false => host.into(),
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.scheme.hash(state);
        self.host.hash(state);
        self.target.hash(state);
    }
}

/// As that of the [`Key`] to which it is equivalent.
impl Hash for AskedKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.scheme.hash(state);
        self.host.hash(state);
        self.target.hash(state);
    }
}

impl Equivalent<Key> for AskedKey<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.scheme == key.scheme && self.host == *key.host && self.target == *key.target
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;

    fn key(uri: &str, ignored: &[&str]) -> String {
        let names: Vec<_> = ignored.iter().map(|name| (*name).to_owned()).collect();
        let uri: Uri = uri.parse().unwrap();
        let headers = HeaderMap::new();
        let scheme = uri
            .scheme_str()
            .and_then(|name| Scheme::of(name.as_bytes()));
        let ignored = Ignored::new(&names);
        let asked = AskedKey::of(scheme.unwrap_or_default(), &uri, &headers, &ignored);
        let key = asked.to_key();
        assert!(asked.equivalent(&key));
        let hasher = hashbrown::DefaultHashBuilder::default();
        assert_eq!(hasher.hash_one(&key), hasher.hash_one(&asked), "{key:?}");
        format!("{} {}{}", key.scheme.name(), key.host, key.target)
    }

    #[test]
    fn a_key_is_a_scheme_a_host_and_a_target() {
        let cases = [
            ("https://a.example/x?y=1", "https a.example/x?y=1"),
            ("https://A.Example:443/X", "https a.example/X"),
            ("https://a.example:8443/", "https a.example:8443/"),
            ("https://a.example:80/", "https a.example:80/"),
            ("https://a.example", "https a.example/"),
            ("http://A.example:80/x", "http a.example/x"),
            ("http://a.example:443/x", "http a.example:443/x"),
            ("/x", "https /x"),
        ];
        for (uri, want) in cases {
            assert_eq!(key(uri, &[]), want, "{uri}");
        }
    }

    #[test]
    fn parameters_that_are_ignored_are_in_no_key() {
        let ignored = ["fbclid", "utm_*"];
        let cases = [
            ("/x?a=1&b=2", "/x?a=1&b=2"),
            ("/x?a=1&fbclid=9&b=2", "/x?a=1&b=2"),
            ("/x?utm_source=a&utm_medium=b", "/x"),
            ("/x?fbclid", "/x"),
            ("/x?fbclid2=1", "/x?fbclid2=1"),
            ("/x?", "/x?"),
        ];
        for (uri, want) in cases {
            assert_eq!(key(uri, &ignored), format!("https {want}"), "{uri}");
        }
    }
}
