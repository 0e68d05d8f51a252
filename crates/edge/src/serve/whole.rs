//! Whole files and stored responses in memory, answered without waiting.

use http::{HeaderValue, Method, Request, StatusCode, header};

use super::{Answerer, Service};
use crate::ledger::{Ticket, host};
use hikyaku_content::{Scheme, WholeFile};

/// Whether the server gives the response its `Date`. A stored one keeps that of its origin (RFC 9111 §4.2.3).
pub(super) fn is_undated(file: &WholeFile) -> bool {
    !file.headers().contains_key(header::DATE)
}

/// Whether the response to a request may not be the file as it is, since browsers report of it.
fn is_for_browsers(service: &Service, request: &Request<()>) -> bool {
    if !service.beacons.is_on() {
        return false;
    }
    let beacon = service.beacons.of(host(request));
    beacon.is_some_and(|beacon| {
        beacon.changes(request.headers()) || beacon.point(request.uri().path()).is_some()
    })
}

impl Answerer {
    /// Returns the file that answers a request, where that is in memory and sent as it is.
    ///
    /// `None` says nothing of the answer, which [`Answerer::respond`] then gives.
    pub(super) fn whole_file(&self, service: &Service, request: &Request<()>) -> Option<WholeFile> {
        let is_changed = service.shards.is_some() || self.conn.pacing().is_some();
        // Spans begin elsewhere.
        let is_traced = self.conn.shared.tracer.get().is_some();
        if is_changed || is_traced || !matches!(*request.method(), Method::GET | Method::HEAD) {
            return None;
        }
        let scheme = self.conn.scheme_of(request.headers());
        if self.is_beside(service, request, scheme) || is_for_browsers(service, request) {
            return None;
        }
        let peer = self.conn.peer_at(scheme);
        let file = service.content.whole_file(request, &peer)?;
        if scheme == Scheme::Http && file.has(&header::STRICT_TRANSPORT_SECURITY) {
            return None;
        }
        self.check(service, request, scheme).ok()?;
        Some(file)
    }

    /// Takes note that the request is answered by a file. Returns the `Alt-Svc` of the response.
    pub(super) fn answers_by(
        &self,
        file: &WholeFile,
        request: &Request<()>,
        ticket: &mut Ticket,
    ) -> Option<HeaderValue> {
        let conn = &self.conn;
        conn.meet(request.headers());
        let asked = conn.asked(request);
        ticket.is_of(asked.client);
        ticket.logs(file.is_logged());
        let alt_svc = conn.alt_svc(&asked);
        ticket.answered_with(StatusCode::OK);
        ticket.cached(file.cache_outcome());
        let length = file.content().len();
        let path = request.uri().path();
        if let Some(outstanding) = conn.responds(path, file.headers(), Some(length as u64)) {
            ticket.sends(outstanding);
        }
        if *request.method() != Method::HEAD {
            ticket.sent(length);
        }
        alt_svc
    }
}
