//! Serving connections: one service for HTTP/1.1, 2 and 3.

mod balancer;
mod body;
mod carrier;
mod check;
pub(crate) mod cleartext;
mod executor;
mod h3;
mod handshake;
mod head;
mod http1;
mod http2;
mod idle;
mod interim;
mod plain;
mod quic;
mod session;
mod site;
mod tcp;
mod tls_io;
mod turns;
mod whole;

use std::sync::Arc;

use hikyaku_h2::priority::Parameters;
use hikyaku_units::arm::Version;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Body as _;

use crate::budget;
use crate::conn::{Asked, Conn};
use crate::ledger::Ticket;
use crate::metrics::add;
use crate::pace::paced;
use body::LimitedBody;
use check::{Fault, check, check_scheme};
use hikyaku_content::{Body, ErrorReason, RequestBody, Scheme, Stopping, omit_content};
pub use quic::QuicError;
pub(crate) use quic::{Handshakes, QuicConfig, QuicListener};
pub(crate) use site::{Service, Site};
pub(crate) use tcp::TcpAcceptor;

/// Answers the requests of one connection.
#[derive(Debug)]
pub(crate) struct Answerer {
    conn: Arc<Conn>,
    site: Arc<Site>,
}

impl Answerer {
    /// Answers a request: checks what no content has to care for, and applies the
    /// connection's decision to the response.
    async fn respond(&self, request: Request<RequestBody>, ticket: &mut Ticket) -> Response<Body> {
        let conn = &self.conn;
        let service = self.site.service_full();
        conn.meet(request.headers());
        let asked = conn.asked(&request);
        ticket.is_of(asked.client);
        ticket.logs(service.content.is_logged(&request, &conn.peer));
        let priority = Parameters::of(request.headers());
        let path = conn.route().map(|_| request.uri().clone());
        let method = request.method().clone();
        let mut response = self.checked(&service, request, &asked).await;
        omit_content(&method, &mut response);
        service.name_server(&mut response);
        conn.apply(response.headers_mut(), &asked);
        ticket.answered(&response);
        let length = response.body().size_hint().exact();
        let begun = path.and_then(|path| conn.responds(path.path(), response.headers(), length));
        if let Some(outstanding) = begun {
            ticket.sends(outstanding);
        }
        let response = budget::bounded(response, conn.account(), priority);
        match conn.pacing() {
            Some((pacer, rate)) => paced(response, pacer, rate),
            None => response,
        }
    }

    /// Lets the content answer requests that are valid and within the limits.
    async fn checked(
        &self,
        service: &Service,
        request: Request<RequestBody>,
        asked: &Asked,
    ) -> Response<Body> {
        let version = self.conn.peer.version;
        let checked = self.check(service, &request, asked.scheme());
        // Limited in any case, since that has the client get the answer whatever it still sends.
        let (uploads, timeouts) = (&self.conn.uploads, &service.timeouts);
        let body_size = |request: &_| {
            let of_route = service.content.body_size(request, &self.conn.peer);
            of_route.unwrap_or(service.limits.body_size)
        };
        let (request, outcome) = LimitedBody::limit(request, uploads, body_size, timeouts);
        match (checked, request) {
            (Err((status, reason)), _) | (Ok(()), Err((status, reason))) => {
                last(version, status, reason)
            }
            (Ok(()), Ok(request)) => {
                let response = self.answer(service, request, asked).await;
                match outcome.failure() {
                    Some((status, reason)) => last(version, status, reason),
                    None => response,
                }
            }
        }
    }

    /// Refuses a request that no content may answer.
    fn check<B>(
        &self,
        service: &Service,
        request: &Request<B>,
        scheme: Scheme,
    ) -> Result<(), Fault> {
        let peer = &self.conn.peer;
        check(request, peer.version, service.limits.header_size.into())?;
        match peer.scheme {
            Scheme::Http => check_scheme(request, scheme),
            Scheme::Https => Ok(()),
        }
    }

    /// Whether a request in the clear is not for the content: for an authority, or to be sent to https.
    fn is_beside<B>(&self, service: &Service, request: &Request<B>, scheme: Scheme) -> bool {
        self.conn.peer.scheme == Scheme::Http && service.cleartext.takes(request, scheme)
    }

    /// Lets the content answer, and spreads its pages where there are shards.
    async fn answer(
        &self,
        service: &Service,
        mut request: Request<RequestBody>,
        asked: &Asked,
    ) -> Response<Body> {
        let conn = &self.conn;
        let peer = conn.peer_of(asked);
        if self.is_beside(service, &request, asked.scheme()) {
            // Boxed, since few are.
            let served = self.site.served;
            return Box::pin(service.cleartext.respond(request, &peer, served)).await;
        }
        Stopping::attach(&self.site.end, &mut request);
        // The addresses of shards are of https.
        let shards = service.shards.as_ref();
        let Some(shards) = shards.filter(|_| peer.scheme == Scheme::Https) else {
            return service.content.respond(request, &peer).await;
        };
        let treatment = shards.prepare(&mut request, || conn.connections().n);
        let response = service.content.respond(request, &peer).await;
        let Some(treatment) = treatment else {
            return response;
        };
        let (response, spread) = shards.finish(treatment, response);
        if spread {
            add(&conn.shared.metrics.pages_spread, 1);
        }
        response
    }
}

/// Refuses a request after which an HTTP/1.1 connection ends. Nothing that follows a malformed request
/// can be trusted to be one, and the rest of a refused body is not waited for. Without `Connection:
/// close` clients would send their next request into the closing (RFC 9112 §9.6).
fn last(version: Version, status: StatusCode, reason: &str) -> Response<Body> {
    let mut response = refusal(status, reason);
    if version == Version::H1 {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

fn refusal(status: StatusCode, reason: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{status}: {reason}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response.extensions_mut().insert(ErrorReason::from(reason));
    response
}
