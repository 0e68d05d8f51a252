//! A reverse proxy: requests are answered by an upstream server, or by one of a group.
//!
//! Bodies stream both ways as they are read. The fields of one connection stay on it. `Forwarded`
//! and `X-Forwarded-*` describe the client to the upstream. The upstream may speak HTTP/1.0, 1.1 or
//! 2.

mod activity;
mod checks;
mod config;
mod connect;
mod description;
mod download;
mod error;
mod failure;
mod group;
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
mod upstreams;
mod websocket;

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, Uri};
use http_body::Body as _;

use super::{
    Body, BoxError, ErrorReason, Interim, Peer, Protocol, Refused, RequestBody, Trace,
    status_response,
};
use activity::Activity;
use download::{Download, Incoming};
use error::SendError;
use group::{Answered, Group, Member, Turn};
use headers::InvalidHost;
use hikyaku_units::ByteSize;
use outgoing::{Outgoing, Route};
use pool::{Answer, Content};
use tunnel::Tunnel;

use crate::header_size::HeaderSize;

pub use config::{
    Balance, HashBy, HealthConfig, ProxyConfig, Statuses, UpstreamConfig, UpstreamHttp,
    UpstreamsConfig,
};
pub use error::{BodyError, ProxyError};
pub use failure::UpstreamError;
pub use group::LatencySnapshot;
pub(crate) use headers::{append_element, elements, settle_connection};
pub(crate) use special::is_written_by_proxy;
pub use upstreams::{UpstreamStatus, Upstreams};

/// Passes requests to an upstream server, or to one of a group.
#[derive(Debug)]
pub struct Proxy {
    group: Group,
    preserves_host: bool,
    sends_via: bool,
    idle_timeout: Duration,
    header_size: HeaderSize,
}

impl Proxy {
    /// Prepares for upstreams that answer the same requests, without connecting to them.
    ///
    /// A URL has the scheme `http`, `https` or `h2c` (HTTP/2 in the clear), a host, and optionally a
    /// port and a path before all paths. Or it is `unix:` or, for HTTP/2, `h2c+unix:`, with the path of a
    /// socket. Responses whose header section is larger than `header_size` are refused. An upstream of
    /// `known` with the same URL and settings keeps its state.
    ///
    /// # Errors
    /// If a URL or a setting cannot be used, or certificate authorities cannot be read.
    pub fn new(
        upstreams: &UpstreamsConfig,
        config: &ProxyConfig,
        header_size: ByteSize,
        known: &Upstreams,
    ) -> Result<Self, ProxyError> {
        if let Some((key, problem)) = config.fault() {
            return Err(ProxyError::Setting { key, problem });
        }
        let header_size = header_size.into();
        let mut members = Vec::new();
        for (index, upstream) in upstreams.as_slice().iter().enumerate() {
            if upstreams.urls().take(index).any(|url| url == upstream.url) {
                let (url, problem) = (upstream.url.clone(), "it is named twice");
                return Err(ProxyError::Url { url, problem });
            }
            members.push(Member::new(upstream, config, header_size, known)?);
        }
        Ok(Self {
            group: Group::new(members, config),
            preserves_host: config.preserve_host,
            sends_via: config.via,
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
                if let Some(refused) = refusal.refused() {
                    response.extensions_mut().insert(refused);
                }
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
        let key = self.group.key(&parts, peer);
        let tunnel = self.asked_tunnel(&mut parts, &mut body, peer)?;
        let interim = parts.extensions.remove::<Interim>();
        let trace = parts.extensions.remove::<Trace>();
        if headers::expects_continue(&parts.headers, peer.version) {
            interim.iter().for_each(Interim::send_continue);
        }
        let description = headers::prepare_request(&mut parts, host.as_ref(), peer, self.sends_via);
        if let Some(tunnel) = &tunnel {
            headers::set_upgrade(&mut parts.headers, tunnel.protocol().clone());
        }
        let body = upload::settle(body, &parts.method, peer.version);
        let body = body.await.map_err(Refusal::Content)?;
        let activity = Activity::new();
        let route = Route {
            target: Uri::default(),
            host: host.filter(|_| self.preserves_host),
            is_upgrade: tunnel.is_some(),
            activity: Arc::clone(&activity),
            interim,
        };
        let outgoing = Outgoing::new(parts, description, body, route);
        let Answered { answer, turn, name } =
            self.group.send(outgoing, key, trace.as_ref()).await?;
        let state = turn.state();
        let passed = self.pass(answer, turn, activity, tunnel);
        passed.map_err(|source| {
            state.erred((&source).into());
            let name = name.to_owned();
            Refusal::Upstream { name, source }
        })
    }

    /// Whether the upstream may speak another protocol with a client.
    pub(super) fn has_tunnels(&self) -> bool {
        self.group.has_upgrades()
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

    fn pass(
        &self,
        answer: Answer,
        turn: Turn<'_>,
        activity: Arc<Activity>,
        tunnel: Option<Tunnel>,
    ) -> Result<Response<Body>, SendError> {
        let Answer { response, rest } = answer;
        let (mut parts, content) = response.into_parts();
        let upgrade = |_: &Tunnel| headers::upgrade_of(&parts.headers);
        let protocol = tunnel.as_ref().and_then(upgrade);
        response::prepare(&mut parts, self.header_size, self.sends_via)?;
        let incoming = match content {
            Content::Http1(http1::Content::Upgraded(upstream)) => {
                let tunnel = tunnel.ok_or(SendError::UnaskedUpgrade)?;
                let idle = self.idle_timeout;
                let body = tunnel.begin(upstream, &mut parts, protocol, idle, turn.keep())?;
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
        let download = Download::new(incoming, activity, rest, self.idle_timeout, turn.keep());
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
    #[error("each upstream has proxy.max_requests requests under way")]
    Full,
    #[error("upstream {name}")]
    Upstream {
        name: String,
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
            Self::Full => StatusCode::SERVICE_UNAVAILABLE,
            Self::Host(_) | Self::Target(_) | Self::Content(_) => StatusCode::BAD_REQUEST,
            Self::Upstream { source, .. } => source.status(),
        }
    }

    /// The reason where the upstream has no part in it.
    fn refused(&self) -> Option<Refused> {
        match self {
            Self::Connect | Self::Protocol => Some(Refused::NotOffered),
            Self::Full => Some(Refused::Busy),
            Self::Host(_) | Self::Target(_) | Self::Content(_) => Some(Refused::Malformed),
            Self::NoKey | Self::Upstream { .. } => None,
        }
    }
}
