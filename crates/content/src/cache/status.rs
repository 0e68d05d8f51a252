//! The outcome of a request: `Cache-Status` (RFC 9211), the access log and the counts.

use std::fmt::Write as _;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};

use crate::Body;

/// The outcome of a request at the cache, in the extensions of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheOutcome {
    /// A fresh stored response answered it.
    Hit,
    /// A stale stored response answered it, as the response or the operator allows.
    Stale,
    /// A stored response answered it, of which the upstream had said that it is current.
    Revalidated,
    /// The response to another request of the same time answered it.
    Collapsed,
    /// The upstream answered it.
    Miss,
    /// The upstream answered it, since the cache is not for such requests.
    Pass,
}

impl CacheOutcome {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Hit,
        Self::Stale,
        Self::Revalidated,
        Self::Collapsed,
        Self::Miss,
        Self::Pass,
    ];

    /// The name in the access log and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Revalidated => "revalidated",
            Self::Collapsed => "collapsed",
            Self::Miss => "miss",
            Self::Pass => "pass",
        }
    }

    pub(super) const fn index(self) -> usize {
        self as usize
    }
}

/// Why a request went to the upstream (RFC 9211 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forwarded {
    Bypass,
    Method,
    UriMiss,
    VaryMiss,
    Request,
    Stale,
}

impl Forwarded {
    const fn token(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Request => "request",
            Self::Stale => "stale",
        }
    }
}

/// The member that this cache adds to `Cache-Status`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Status {
    /// `None` for a hit.
    forwarded: Option<Forwarded>,
    /// The upstream's status, where it is not the response's.
    upstream: Option<StatusCode>,
    ttl: Option<i64>,
    is_stored: bool,
    is_collapsed: bool,
}

impl Status {
    pub(super) fn hit(ttl: i64) -> Self {
        Self {
            ttl: Some(ttl),
            ..Self::default()
        }
    }

    pub(super) fn forwarded(why: Forwarded) -> Self {
        Self {
            forwarded: Some(why),
            ..Self::default()
        }
    }

    pub(super) fn answered(self, status: StatusCode) -> Self {
        Self {
            upstream: Some(status),
            ..self
        }
    }

    pub(super) fn stored(self, ttl: i64) -> Self {
        Self {
            ttl: Some(ttl),
            is_stored: true,
            ..self
        }
    }

    pub(super) fn with_ttl(self, ttl: i64) -> Self {
        Self {
            ttl: Some(ttl),
            ..self
        }
    }

    pub(super) fn collapsed(self, is_collapsed: bool) -> Self {
        Self {
            is_collapsed,
            ..self
        }
    }

    /// Adds the member after those of the caches before this one (RFC 9211 §2).
    pub(super) fn add_to(self, headers: &mut HeaderMap) {
        let mut text = String::from(NAME);
        match self.forwarded {
            None => text.push_str("; hit"),
            Some(why) => {
                let _ = write!(text, "; fwd={}", why.token());
            }
        }
        if let Some(status) = self.upstream {
            let _ = write!(text, "; fwd-status={}", status.as_u16());
        }
        if let Some(ttl) = self.ttl {
            let _ = write!(text, "; ttl={ttl}");
        }
        for (is_said, word) in [
            (self.is_stored, "; stored"),
            (self.is_collapsed, "; collapsed"),
        ] {
            if is_said {
                text.push_str(word);
            }
        }
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.append(CACHE_STATUS, value);
        }
    }

    /// Marks a response with the member, and with the outcome for the log.
    pub(super) fn mark(self, response: &mut Response<Body>, outcome: CacheOutcome) {
        self.add_to(response.headers_mut());
        response.extensions_mut().insert(outcome);
    }
}

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// The name of this cache, as in `Via`.
const NAME: &str = "hikyaku";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_say_what_was_done() {
        let cases = [
            (Status::hit(7), "hikyaku; hit; ttl=7"),
            (Status::hit(-7), "hikyaku; hit; ttl=-7"),
            (
                Status::forwarded(Forwarded::UriMiss).stored(60),
                "hikyaku; fwd=uri-miss; ttl=60; stored",
            ),
            (
                Status::forwarded(Forwarded::VaryMiss)
                    .stored(60)
                    .collapsed(true),
                "hikyaku; fwd=vary-miss; ttl=60; stored; collapsed",
            ),
            (
                Status::forwarded(Forwarded::Stale)
                    .answered(StatusCode::NOT_MODIFIED)
                    .stored(60),
                "hikyaku; fwd=stale; fwd-status=304; ttl=60; stored",
            ),
            (
                Status::forwarded(Forwarded::Request),
                "hikyaku; fwd=request",
            ),
            (Status::forwarded(Forwarded::Method), "hikyaku; fwd=method"),
            (Status::forwarded(Forwarded::Bypass), "hikyaku; fwd=bypass"),
        ];
        for (status, want) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(CACHE_STATUS, HeaderValue::from_static("origin; hit"));
            status.add_to(&mut headers);
            let members: Vec<_> = headers.get_all(CACHE_STATUS).iter().collect();
            assert_eq!(members, ["origin; hit", want]);
        }
    }
}
