//! The browser's view: scripts in pages, their reports, and fields of responses.

use std::sync::Arc;
use std::time::Instant;

use http::{Request, Response};

use super::{Answerer, Service};
use crate::beacon::{Beacon, Point, Visit};
use crate::clock;
use crate::conn::Asked;
use crate::ledger::host;
use hikyaku_content::{Body, Peer, Recoding, RequestBody, Scheme};

/// The fields of a response to one request, where its site has any.
pub(super) struct Fields {
    beacon: Arc<Beacon>,
    is_visit: bool,
}

impl Fields {
    /// `None` where nothing is on.
    pub(super) fn of<B>(service: &Service, request: &Request<B>) -> Option<Self> {
        if !service.beacons.is_on() {
            return None;
        }
        let beacon = service.beacons.of(host(request))?;
        Some(Self {
            beacon: Arc::clone(beacon),
            is_visit: Beacon::is_visit(request.headers()),
        })
    }

    /// Adds the fields to a response.
    pub(super) fn add(self, answerer: &Answerer, asked: &Asked, response: &mut Response<Body>) {
        let is_https = asked.scheme() == Scheme::Https;
        let decision = || answerer.conn.server_timing(asked);
        let headers = response.headers_mut();
        self.beacon.head(self.is_visit, is_https, headers, decision);
    }
}

/// The purpose of a request for one of the beacon's own addresses.
pub(super) fn point<'a, B>(
    service: &'a Service,
    request: &Request<B>,
) -> Option<(&'a Beacon, Point)> {
    if !service.beacons.is_on() {
        return None;
    }
    let beacon = service.beacons.of(host(request))?;
    Some((beacon, beacon.point(request.uri().path())?))
}

/// A request whose response may get the script.
pub(super) struct Visited {
    visit: Visit,
    host: String,
    at: Instant,
    /// Where the page is compressed after it got the script.
    recoding: Option<Recoding>,
}

impl Visited {
    /// Prepares a request for the content; `None` where its response stays as it is.
    pub(super) fn of(
        service: &Service,
        request: &mut Request<RequestBody>,
        peer: &Peer,
    ) -> Option<Box<Self>> {
        if !service.beacons.is_on() {
            return None;
        }
        // HTTP/3 is not for pages in the clear.
        let beacon = service.beacons.of(host(request))?;
        if peer.scheme != Scheme::Https || !beacon.takes(request) {
            return None;
        }
        let at = clock::now();
        let host = host(request).to_owned();
        // First, as its tags are the outermost.
        let recoding = service.content.recoding(request, peer);
        // Boxed, since every request would have the room for it.
        Some(Box::new(Self {
            visit: Visit::of(beacon, request.headers_mut()),
            host,
            at,
            recoding,
        }))
    }

    /// Finishes the content's response.
    pub(super) fn finish(
        self,
        answerer: &Answerer,
        asked: &Asked,
        response: Response<Body>,
    ) -> Response<Body> {
        let conn = &answerer.conn;
        let receiver = &conn.shared.receiver;
        let page = || conn.page(asked, self.at);
        let mut response = self.visit.finish(response, &self.host, receiver, page);
        if let Some(recoding) = self.recoding {
            recoding.apply(&mut response);
        }
        response
    }
}

impl Answerer {
    /// Answers a request for one of the beacon's own addresses.
    pub(super) async fn receive(
        &self,
        (beacon, point): (&Beacon, Point),
        request: Request<RequestBody>,
        peer: &Peer,
    ) -> Response<Body> {
        let receiver = &self.conn.shared.receiver;
        let client = peer.remote.ip();
        receiver.respond(point, beacon, request, client).await
    }
}
