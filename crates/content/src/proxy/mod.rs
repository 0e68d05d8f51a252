//! A reverse proxy: requests are answered by an upstream server.
//!
//! Bodies stream both ways as they are read. The fields of one connection stay on it. `Forwarded`
//! and `X-Forwarded-*` describe the client to the upstream. The upstream may speak HTTP/1.0, 1.1 or
//! 2.

mod activity;
mod config;
mod connect;
mod description;
mod download;
mod error;
mod headers;
mod http1;
mod http2;
mod idle;
mod outgoing;
mod pool;
mod response;
mod special;
mod tls;
mod trailers;
mod tunnel;
mod upload;
mod upstream;
mod websocket;

use std::sync::Arc;
use std::time::Duration;

use http::uri::Authority;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body::Body as _;

use super::{Body, BoxError, ErrorReason, Interim, Peer, Protocol, RequestBody, status_response};
use activity::Activity;
use connect::Connector;
use download::{Download, Incoming};
use error::SendError;
use headers::InvalidHost;
use hikyaku_units::ByteSize;
use outgoing::{Outgoing, Route};
use pool::{Answer, Content, Pool};
use tunnel::Tunnel;
use upstream::Upstream;

use crate::header_size::HeaderSize;

pub use config::{ProxyConfig, UpstreamHttp};
pub use error::{BodyError, ProxyError};

/// Passes requests to an upstream server.
#[derive(Debug)]
pub struct Proxy {
    upstream: Upstream,
    pool: Pool,
    preserves_host: bool,
    trusts_forwarded: bool,
    idle_timeout: Duration,
    header_size: HeaderSize,
}

impl Proxy {
    /// Prepares for an upstream, without connecting to it.
    ///
    /// The URL has the scheme `http`, `https` or `h2c` (HTTP/2 in the clear), a host, and
    /// optionally a port and a path before all paths. Responses whose header section is larger than
    /// `header_size` are refused.
    ///
    /// # Errors
    /// If the URL cannot be used, or certificate authorities cannot be read.
    pub fn new(url: &str, config: &ProxyConfig, header_size: ByteSize) -> Result<Self, ProxyError> {
        let upstream = Upstream::parse(url, config)?;
        let header_size = header_size.into();
        let connector = Connector::new(upstream.clone(), config, header_size)?;
        Ok(Self {
            pool: Pool::new(connector, config),
            upstream,
            preserves_host: config.preserve_host,
            trusts_forwarded: config.trust_forwarded,
            idle_timeout: config.idle_timeout,
            header_size,
        })
    }

    pub(super) async fn respond(
        &self,
        request: Request<RequestBody>,
        peer: &Peer,
    ) -> Response<Body> {
        match self.forward(request, peer).await {
            Ok(response) => response,
            Err(refusal) => {
                let mut response = status_response(refusal.status());
                let reason = ErrorReason::from_error(&refusal);
                response.extensions_mut().insert(reason);
                response
            }
        }
    }

    async fn forward(
        &self,
        request: Request<RequestBody>,
        peer: &Peer,
    ) -> Result<Response<Body>, Refusal> {
        let (mut parts, mut body) = request.into_parts();
        let host = headers::requested_host(&parts)?;
        let tunnel = self.asked_tunnel(&mut parts, &mut body, peer)?;
        let interim = parts.extensions.remove::<Interim>();
        if headers::expects_continue(&parts.headers, peer.version) {
            interim.iter().for_each(Interim::send_continue);
        }
        let trusts = self.trusts_forwarded;
        let description = headers::prepare_request(&mut parts, host.as_ref(), peer, trusts);
        if let Some(tunnel) = &tunnel {
            headers::set_upgrade(&mut parts.headers, tunnel.protocol().clone());
        }
        let target = self.target(&parts.uri, host)?;
        let body = upload::settle(body, &parts.method, peer.version);
        let body = body.await.map_err(Refusal::Content)?;
        let activity = Activity::new();
        let route = Route {
            target,
            is_upgrade: tunnel.is_some(),
            activity: Arc::clone(&activity),
            interim,
        };
        let outgoing = Outgoing::new(parts, description, body, route);
        let answer = self.pool.send(outgoing).await;
        answer
            .and_then(|answer| self.pass(answer, activity, tunnel))
            .map_err(|source| Refusal::Upstream {
                authority: self.upstream.authority.clone(),
                source,
            })
    }

    /// Whether the upstream may speak another protocol with a client.
    pub(super) fn has_tunnels(&self) -> bool {
        self.pool.has_upgrades()
    }

    /// The tunnel that a request asks for, if the upstream can be asked for one.
    fn asked_tunnel(
        &self,
        parts: &mut http::request::Parts,
        body: &mut RequestBody,
        peer: &Peer,
    ) -> Result<Option<Tunnel>, Refusal> {
        if parts.method == Method::CONNECT && parts.extensions.get::<Protocol>().is_none() {
            return Err(Refusal::Connect);
        }
        if self.has_tunnels() {
            return Tunnel::asked(parts, body, peer.version).map_err(|_| Refusal::NoKey);
        }
        match parts.method {
            Method::CONNECT => Err(Refusal::Protocol),
            _ => Ok(None),
        }
    }

    /// The absolute URI of the request to the upstream.
    fn target(&self, requested: &Uri, host: Option<Authority>) -> Result<Uri, Refusal> {
        let host = host.filter(|_| self.preserves_host);
        let mut target = http::uri::Parts::default();
        target.scheme = Some(self.upstream.scheme());
        target.authority = Some(host.unwrap_or_else(|| self.upstream.authority.clone()));
        target.path_and_query = self.upstream.path_of(requested);
        Uri::from_parts(target).map_err(Refusal::Target)
    }

    fn pass(
        &self,
        answer: Answer,
        activity: Arc<Activity>,
        tunnel: Option<Tunnel>,
    ) -> Result<Response<Body>, SendError> {
        let Answer { response, rest } = answer;
        let (mut parts, content) = response.into_parts();
        let upgrade = |_: &Tunnel| headers::upgrade_of(&parts.headers);
        let protocol = tunnel.as_ref().and_then(upgrade);
        response::prepare(&mut parts, self.header_size)?;
        let incoming = match content {
            Content::Http1(http1::Content::Upgraded(upstream)) => {
                let tunnel = tunnel.ok_or(SendError::UnaskedUpgrade)?;
                let body = tunnel.begin(upstream, &mut parts, protocol, self.idle_timeout)?;
                return Ok(Response::from_parts(parts, body));
            }
            _ if parts.status.is_success() && tunnel.is_some_and(|it| it.is_of_stream()) => {
                return Err(SendError::NoWebSocket);
            }
            Content::Http1(http1::Content::Whole(bytes)) => {
                return Ok(Response::from_parts(parts, Body::received(bytes)));
            }
            Content::Http1(http1::Content::Streaming(body)) => Incoming::Left(body),
            // HTTP/2 has no such switch (RFC 9113 §8.6).
            Content::Http2(_) if parts.status == StatusCode::SWITCHING_PROTOCOLS => {
                return Err(SendError::UnaskedUpgrade);
            }
            Content::Http2(body) if body.is_end_stream() => {
                return Ok(Response::from_parts(parts, Body::empty()));
            }
            Content::Http2(body) => Incoming::Right(body),
        };
        let download = Download::new(incoming, activity, rest, self.idle_timeout);
        Ok(Response::from_parts(parts, Body::boxed(download)))
    }
}

/// Why the proxy answers a request itself.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("refusing CONNECT: this is no forward proxy")]
    Connect,
    #[error("refusing extended CONNECT: the upstream is asked over HTTP/2 alone")]
    Protocol,
    #[error("making a key for WebSocket: the system has no randomness")]
    NoKey,
    #[error(transparent)]
    Host(#[from] InvalidHost),
    #[error("making the upstream's URL")]
    Target(#[source] http::uri::InvalidUriParts),
    #[error("reading the request's content")]
    Content(#[source] BoxError),
    #[error("upstream {authority}")]
    Upstream {
        authority: Authority,
        #[source]
        source: SendError,
    },
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Connect => StatusCode::METHOD_NOT_ALLOWED,
            Self::Protocol => StatusCode::NOT_IMPLEMENTED,
            Self::NoKey => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Host(_) | Self::Target(_) | Self::Content(_) => StatusCode::BAD_REQUEST,
            Self::Upstream { source, .. } => source.status(),
        }
    }
}
