//! The sites of a server, by the hosts that requests are for.

use std::sync::Arc;

use hikyaku_units::ByteSize;
use http::{HeaderMap, Request, Response, StatusCode, Uri};

use crate::hosts::{Hosts, requested_host};
use crate::routes::{Site, SiteConfig, SiteError};
use crate::{
    Body, ErrorReason, Files, Peer, Proxy, Recoding, Refused, RequestBody, WholeFile,
    status_response,
};

/// The content of a server: its sites by their names.
#[derive(Debug)]
pub struct Content {
    hosts: Hosts<Arc<Site>>,
    /// For hosts that no site names.
    other: Option<Arc<Site>>,
    has_interim_responses: bool,
    has_tunnels: bool,
    has_body_sizes: bool,
    is_logged_everywhere: bool,
}

impl Content {
    /// Prepares the sites of a server.
    ///
    /// # Errors
    /// If a root can't be opened, an upstream can't be used, a setting is wrong, or two sites have the
    /// same name.
    pub fn new(sites: &[SiteConfig]) -> Result<Self, SiteError> {
        let mut content = Self::of(None);
        for config in sites {
            let site = Arc::new(Site::new(config)?);
            content.has_interim_responses |= site.has_interim_responses();
            content.has_tunnels |= site.has_tunnels();
            content.has_body_sizes |= site.has_body_sizes();
            content.is_logged_everywhere &= site.is_logged_everywhere();
            if config.names.is_empty() {
                content.other = Some(site);
                continue;
            }
            for name in &config.names {
                let added = content.hosts.add(name, Arc::clone(&site));
                added.map_err(|why| SiteError::Wrong {
                    place: config.place(),
                    why: format!("`names`: {why}"),
                })?;
            }
        }
        Ok(content)
    }

    fn of(other: Option<Site>) -> Self {
        Self {
            hosts: Hosts::default(),
            has_interim_responses: other.as_ref().is_some_and(Site::has_interim_responses),
            has_tunnels: other.as_ref().is_some_and(Site::has_tunnels),
            has_body_sizes: false,
            is_logged_everywhere: true,
            other: other.map(Arc::new),
        }
    }

    /// Answers a request. Never fails: an error becomes a response, with its [`ErrorReason`] in the
    /// extensions if the log should report more.
    ///
    /// The response may have content that its method or status forbids, until [`crate::omit_content`]
    /// has taken it.
    pub async fn respond(&self, request: Request<RequestBody>, peer: &Peer) -> Response<Body> {
        match self.site(request.uri(), request.headers(), peer) {
            Some(site) => site.respond(request, peer).await,
            None => misdirected(),
        }
    }

    /// Returns the file, or the stored response, that answers a request with all its content, if that is in
    /// memory. The request's method is GET or HEAD.
    ///
    /// `None` says nothing of the answer, which [`Content::respond`] then gives.
    pub fn whole_file<B>(&self, request: &Request<B>, peer: &Peer) -> Option<WholeFile> {
        let site = self.site(request.uri(), request.headers(), peer)?;
        site.whole_file(request.uri(), request.headers(), peer.scheme)
    }

    /// The size of a request's body that its route allows, where that has a limit of its own.
    pub fn body_size<B>(&self, request: &Request<B>, peer: &Peer) -> Option<ByteSize> {
        if !self.has_body_sizes {
            return None;
        }
        let site = self.site(request.uri(), request.headers(), peer)?;
        site.body_size(request.uri().path())
    }

    /// Has the content answer a request without a coding, for a response that is changed before it is coded.
    ///
    /// `None` where the request's route compresses nothing. The content may then answer in any coding that
    /// the client takes.
    pub fn recoding<B>(&self, request: &mut Request<B>, peer: &Peer) -> Option<Recoding> {
        let site = self.site(request.uri(), request.headers(), peer)?;
        let compression = site.compression(request.uri().path())?;
        Recoding::of(&compression, request)
    }

    /// Whether the access log has a line for a request.
    pub fn is_logged<B>(&self, request: &Request<B>, peer: &Peer) -> bool {
        if self.is_logged_everywhere {
            return true;
        }
        let site = self.site(request.uri(), request.headers(), peer);
        site.is_none_or(|site| site.is_logged(request.uri().path()))
    }

    /// Finds the site of a request. One without a host, of HTTP/1.0, is for the host of the handshake.
    fn site(&self, uri: &Uri, headers: &HeaderMap, peer: &Peer) -> Option<&Site> {
        let named = match self.hosts.is_empty() {
            true => None,
            false => requested_host(uri, headers)
                .or(peer.server_name.as_deref())
                .and_then(|host| self.hosts.get(host)),
        };
        named.or(self.other.as_ref()).map(|site| &**site)
    }

    /// Whether there may be interim responses (1xx) before a response.
    pub const fn has_interim_responses(&self) -> bool {
        self.has_interim_responses
    }

    /// Whether a client may ask for a stream of another protocol, by extended CONNECT.
    pub const fn has_tunnels(&self) -> bool {
        self.has_tunnels
    }
}

impl From<Files> for Content {
    fn from(files: Files) -> Self {
        Self::of(Some(files.into()))
    }
}

impl From<Proxy> for Content {
    fn from(proxy: Proxy) -> Self {
        Self::of(Some(proxy.into()))
    }
}

/// Answers a request for a host that is none of the server's (RFC 9110 §15.5.20).
fn misdirected() -> Response<Body> {
    let mut response = status_response(StatusCode::MISDIRECTED_REQUEST);
    let reason = ErrorReason::from("no site has this name");
    response.extensions_mut().insert(reason);
    response.extensions_mut().insert(Refused::Host);
    response
}
