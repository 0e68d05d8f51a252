//! Values of header fields with variables, such as `$client`.

use std::fmt::{self, Display};
use std::io::Write as _;
use std::net::IpAddr;

use aws_lc_rs::rand::SecureRandom;
use hikyaku_units::arm::Version;
use http::{HeaderValue, Method, Request, Uri};

use super::path::normal;
use super::pieces::{Piece, pieces};
use crate::hosts::requested_host;
use crate::{Peer, Scheme, TlsVersion, User};

/// The value of a field, read when the configuration is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FieldValue {
    /// It has no variables.
    Fixed(HeaderValue),
    Text(Vec<Part>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Text(Box<str>),
    Variable(Variable),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variable {
    /// Address of the client.
    Client,
    /// The host that was asked for, with its port if it has one.
    Host,
    /// HTTP version: `HTTP/2.0`.
    Protocol,
    Method,
    /// The path in its normal form, if it has one.
    Path,
    /// The query with its question mark.
    Query,
    RequestId,
    Scheme,
    /// `TLSv1.3`.
    TlsVersion,
    /// The name that the client has given with its password.
    User,
}

/// The parts of requests that variables stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// Any at all.
    pub(super) facts: bool,
    pub(super) id: bool,
}

/// A request, as far as variables stand for parts of it.
#[derive(Debug)]
pub(crate) struct Facts {
    client: IpAddr,
    host: Box<str>,
    method: Method,
    uri: Uri,
    version: Version,
    scheme: Scheme,
    tls: Option<TlsVersion>,
    user: Option<User>,
    id: Option<RequestId>,
}

/// A number of a request that no other has: 128 random bits.
///
/// Its text has 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(u128);

impl RequestId {
    /// `None` if the system has no randomness.
    fn random() -> Option<Self> {
        let mut bytes = [0; 16];
        let filled = aws_lc_rs::rand::SystemRandom::new().fill(&mut bytes);
        filled.ok().map(|()| Self(u128::from_be_bytes(bytes)))
    }
}

impl Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Needs {
    pub(super) const fn or(self, other: Self) -> Self {
        Self {
            facts: self.facts || other.facts,
            id: self.id || other.id,
        }
    }
}

impl Facts {
    /// The parts of a request, whose user is in its extensions.
    pub(super) fn of<B>(request: &Request<B>, peer: &Peer, needs: Needs) -> Self {
        let host = requested_host(request.uri(), request.headers());
        Self {
            client: peer.remote.ip().to_canonical(),
            host: host.unwrap_or_default().into(),
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: peer.version,
            scheme: peer.scheme,
            tls: peer.tls,
            user: request.extensions().get().cloned(),
            id: needs.id.then(RequestId::random).flatten(),
        }
    }

    /// The number of the request, where a variable stands for it.
    pub(super) const fn id(&self) -> Option<RequestId> {
        self.id
    }

    /// Appends the text of a variable.
    fn write(&self, variable: Variable, out: &mut Vec<u8>) {
        let text = match variable {
            Variable::Client => return write_to(out, self.client),
            Variable::RequestId => return self.id.iter().for_each(|id| write_to(out, id)),
            Variable::Path => return self.write_path(out),
            Variable::Query => match self.uri.query() {
                Some(query) => return out.extend([b"?", query.as_bytes()].concat()),
                None => "",
            },
            Variable::Host => &self.host,
            Variable::Method => self.method.as_str(),
            Variable::Protocol => match self.version {
                Version::H1 => "HTTP/1.1",
                Version::H2 => "HTTP/2.0",
                Version::H3 => "HTTP/3.0",
            },
            Variable::Scheme => self.scheme.name(),
            Variable::TlsVersion => match self.tls {
                Some(TlsVersion::Tls12) => "TLSv1.2",
                Some(TlsVersion::Tls13) => "TLSv1.3",
                None => "",
            },
            Variable::User => self.user.as_ref().map_or("", |user| &user.0),
        };
        out.extend_from_slice(text.as_bytes());
    }

    fn write_path(&self, out: &mut Vec<u8>) {
        let path = self.uri.path();
        match normal(path) {
            Ok(normal) => out.extend_from_slice(normal.as_bytes()),
            // It has a segment `.` or `..`.
            Err(_) => out.extend_from_slice(path.as_bytes()),
        }
    }
}

fn write_to(out: &mut Vec<u8>, value: impl Display) {
    // Writing to memory does not fail.
    write!(out, "{value}").unwrap_or_default();
}

impl FieldValue {
    /// Reads a value.
    ///
    /// # Errors
    /// If it has a control character, or a variable that is not there. The error ends a sentence about the
    /// field.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if HeaderValue::from_str(text).is_err() {
            return Err("has a control character".to_owned());
        }
        let mut parts = Vec::new();
        let mut fixed = String::new();
        for piece in pieces(text)? {
            parts.push(match piece {
                Piece::Text(text) => {
                    fixed.push_str(text);
                    Part::Text(text.into())
                }
                Piece::Variable(name) => Part::Variable(Variable::of(name).ok_or_else(|| {
                    format!("names the variable `{name}`: there are {}", names())
                })?),
            });
        }
        let has_variables = parts.iter().any(|part| matches!(part, Part::Variable(_)));
        match HeaderValue::try_from(fixed) {
            Ok(fixed) if !has_variables => Ok(Self::Fixed(fixed)),
            _ => Ok(Self::Text(parts)),
        }
    }

    pub(super) fn needs(&self) -> Needs {
        let has = |what: fn(&Part) -> bool| match self {
            Self::Fixed(_) => false,
            Self::Text(parts) => parts.iter().any(what),
        };
        Needs {
            facts: has(|_| true),
            id: has(|part| *part == Part::Variable(Variable::RequestId)),
        }
    }

    /// The value for a request; `None` if nothing is left of it, or no field can have it. Values without
    /// variables need no facts.
    pub(super) fn of(&self, facts: Option<&Facts>) -> Option<HeaderValue> {
        let parts = match self {
            Self::Fixed(value) => return Some(value.clone()),
            Self::Text(parts) => parts,
        };
        let facts = facts?;
        let mut value = Vec::with_capacity(64);
        for part in parts {
            match part {
                Part::Text(text) => value.extend_from_slice(text.as_bytes()),
                Part::Variable(variable) => facts.write(*variable, &mut value),
            }
        }
        let value = (!value.is_empty()).then_some(value)?;
        HeaderValue::try_from(value).ok()
    }
}

impl Variable {
    fn of(name: &str) -> Option<Self> {
        let known = NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, variable)| *variable)
    }
}

const NAMES: [(&str, Variable); 10] = [
    ("client", Variable::Client),
    ("host", Variable::Host),
    ("method", Variable::Method),
    ("path", Variable::Path),
    ("protocol", Variable::Protocol),
    ("query", Variable::Query),
    ("request_id", Variable::RequestId),
    ("scheme", Variable::Scheme),
    ("tls_version", Variable::TlsVersion),
    ("user", Variable::User),
];

fn names() -> String {
    let names = NAMES.map(|(name, _)| format!("${name}"));
    format!("{}, and $$ is a dollar sign", names.join(", "))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn facts(uri: &str, tls: Option<TlsVersion>, version: Version) -> Facts {
        let request = Request::builder().method("POST").uri(uri);
        let request = request.header("host", "a.example:8443").body(()).unwrap();
        let peer = Peer {
            remote: SocketAddr::new("::ffff:192.0.2.7".parse().unwrap(), 1234),
            local: SocketAddr::from(([192, 0, 2, 2], 443)),
            version,
            tls,
            server_name: None,
            scheme: match tls {
                Some(_) => Scheme::Https,
                None => Scheme::Http,
            },
            via: None,
        };
        let needs = Needs {
            facts: true,
            id: true,
        };
        Facts::of(&request, &peer, needs)
    }

    #[test]
    fn variables_stand_for_parts_of_the_request() {
        let facts = facts("/a//%62?c=d", Some(TlsVersion::Tls13), Version::H2);
        let cases = [
            ("$client", "192.0.2.7"),
            (
                "$scheme://$host$path$query",
                "https://a.example:8443/a/b?c=d",
            ),
            ("$method ${path}x", "POST /a/bx"),
            ("$protocol over $tls_version", "HTTP/2.0 over TLSv1.3"),
            ("$$5", "$5"),
            ("plain", "plain"),
        ];
        for (text, want) in cases {
            let value = FieldValue::parse(text).unwrap();
            assert_eq!(value.of(Some(&facts)).unwrap(), want, "{text}");
            assert_eq!(
                value.needs().facts,
                text.contains("$") && text != "$$5",
                "{text}"
            );
        }
        let value = FieldValue::parse("$request_id").unwrap();
        let id = value.of(Some(&facts)).unwrap();
        assert_eq!(id, facts.id().unwrap().to_string());
        assert_eq!(id.len(), 32);
    }

    #[test]
    fn each_request_has_an_id_of_its_own_where_it_is_needed() {
        let request = || facts("/", None, Version::H1);
        assert_ne!(request().id(), request().id());
        let (id, other) = ("$request_id", "$client");
        for (text, want) in [(id, true), (other, false)] {
            assert_eq!(FieldValue::parse(text).unwrap().needs().id, want, "{text}");
        }
    }

    #[test]
    fn values_of_which_nothing_is_left_are_none() {
        let clear = facts("/a/../b", None, Version::H3);
        for (text, want) in [
            ("$query", None),
            ("$tls_version", None),
            ("$user", None),
            ("$scheme", Some("http")),
            ("$path", Some("/a/../b")),
            ("", Some("")),
        ] {
            let value = FieldValue::parse(text).unwrap().of(Some(&clear));
            assert_eq!(
                value.as_ref().map(|value| value.to_str().unwrap()),
                want,
                "{text}"
            );
        }
        assert_eq!(FieldValue::parse("$path").unwrap().of(None), None);
    }

    #[test]
    fn no_client_can_add_a_field() {
        let odd = facts("/%0d%0aa:%20b?%0d%0a", None, Version::H1);
        let value = FieldValue::parse("$path$query").unwrap().of(Some(&odd));
        assert_eq!(value.unwrap(), "/%0D%0Aa:%20b?%0d%0a");
    }

    #[test]
    fn unknown_variables_are_refused_with_the_known_ones() {
        let cases = [
            (
                "$clint",
                "names the variable `clint`: there are $client, $host, $method",
            ),
            ("a $", "has a `$` without a name"),
            ("a\r\nb: c", "has a control character"),
            ("$1", "names the variable `1`"),
        ];
        for (text, want) in cases {
            let error = FieldValue::parse(text).unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
        }
    }
}
