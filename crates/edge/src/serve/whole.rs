//! Whole files in memory, answered without waiting.

use http::{HeaderValue, Method, Request, StatusCode};

use super::check::check;
use super::{Answerer, Service};
use crate::ledger::Ticket;
use hikyaku_content::WholeFile;

/// `Server` of responses in which the content names none.
pub(super) const SERVER: HeaderValue = HeaderValue::from_static("hikyaku");

impl Answerer {
    /// Returns the file that answers a request, where that is in memory and sent as it is.
    ///
    /// `None` says nothing of the answer, which [`Answerer::respond`] then gives.
    pub(super) fn whole_file(&self, service: &Service, request: &Request<()>) -> Option<WholeFile> {
        let is_changed = service.shards.is_some() || self.conn.pacing().is_some();
        if is_changed || !matches!(*request.method(), Method::GET | Method::HEAD) {
            return None;
        }
        let file = service.content.whole_file(request, &self.conn.peer)?;
        let header_size = service.limits.header_size.into();
        check(request, self.conn.peer.version, header_size).ok()?;
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
        let alt_svc = conn.alt_svc();
        ticket.answered_with(StatusCode::OK);
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
