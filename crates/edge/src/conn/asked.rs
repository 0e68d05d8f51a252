//! A request, as far as the choice for its client depends on it.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, Request};

use super::Conn;
use crate::behind::Through;
use crate::ledger::host;
use hikyaku_content::{Peer, Scheme, Via};

/// The parts of a request that its response's `Alt-Svc` depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// The client, as a trusted proxy names it; `None` for the connection's.
    pub(crate) client: Option<SocketAddr>,
    /// The scheme, as a trusted proxy names it; else the connection's.
    pub(super) scheme: Scheme,
    /// The port of the authority; `None` where there is none.
    pub(super) port: Option<u16>,
}

impl Asked {
    /// The scheme that the client asked for.
    pub(crate) const fn scheme(&self) -> Scheme {
        self.scheme
    }
}

impl Conn {
    /// The parts of a request that matter here.
    pub(crate) fn asked<B>(&self, request: &Request<B>) -> Asked {
        let client = (self.through == Through::Proxy).then(|| {
            let terms = self.shared.terms();
            terms.behind.client(request.headers(), self.peer.remote)
        });
        Asked {
            client,
            scheme: self.scheme_of(request.headers()),
            port: port(host(request)),
        }
    }

    /// The scheme of a request with these fields.
    pub(crate) fn scheme_of(&self, headers: &HeaderMap) -> Scheme {
        let named = match self.through {
            Through::Proxy => self.shared.terms().behind.scheme(headers),
            Through::Nothing | Through::Balancer(_) => None,
        };
        named.unwrap_or(self.peer.scheme)
    }

    /// Whether HTTP/3 can be advertised in the response to a request. Over QUIC there is https alone.
    /// A client must not take an advertisement for http without more (RFC 9114 §3.1.2, RFC 8164 §2).
    pub(super) fn may_offer(&self, asked: &Asked) -> bool {
        asked.scheme() == Scheme::Https
            && (self.peer.scheme == Scheme::Https || self.shared.terms().has_quic)
    }

    /// The peer of a request, for the content.
    pub(crate) fn peer_of(&self, asked: &Asked) -> Cow<'_, Peer> {
        let Some(remote) = asked.client else {
            return Cow::Borrowed(&self.peer);
        };
        Cow::Owned(Peer {
            remote,
            scheme: asked.scheme,
            via: Some(Via {
                address: self.client(),
                scheme: self.peer.scheme,
            }),
            ..self.peer.clone()
        })
    }

    /// The connection's peer, for a request of this scheme.
    pub(crate) fn peer_at(&self, scheme: Scheme) -> Cow<'_, Peer> {
        match scheme == self.peer.scheme {
            true => Cow::Borrowed(&self.peer),
            false => Cow::Owned(Peer {
                scheme,
                ..self.peer.clone()
            }),
        }
    }

    /// The balancer or proxy at its other end, to which the path that is measured leads.
    pub(crate) fn via(&self) -> Option<IpAddr> {
        match self.through {
            Through::Nothing => None,
            Through::Balancer(address) => Some(address),
            Through::Proxy => Some(self.client()),
        }
    }
}

/// The port of an authority; without one it is that of `https` (RFC 9110 §4.2.2).
fn port(authority: &str) -> Option<u16> {
    match authority.rsplit_once(':') {
        Some((_, digits)) if !digits.is_empty() && !digits.contains(']') => {
            digits.parse().ok().filter(|&port| port != 0)
        }
        _ => (!authority.is_empty()).then_some(HTTPS),
    }
}

const HTTPS: u16 = 443;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_without_a_port_has_that_of_https() {
        let cases = [
            ("a.example", Some(443)),
            ("a.example:", Some(443)),
            ("a.example:8443", Some(8443)),
            ("[2001:db8::1]", Some(443)),
            ("[2001:db8::1]:8443", Some(8443)),
            ("a.example:0", None),
            ("a.example:65536", None),
            ("a.example:x", None),
            ("", None),
        ];
        for (authority, want) in cases {
            assert_eq!(port(authority), want, "{authority}");
        }
    }
}
