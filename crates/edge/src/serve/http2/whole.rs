//! Whole files in memory, handed to the engine while the connection reads.

use hikyaku_h2::error::{Code, Unsent};
use hikyaku_h2::message::Prepared;
use http::{HeaderValue, Method, Request, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};

use super::super::head::date;
use super::super::whole::is_undated;
use super::Http2;
use super::stream::Stream;
use crate::ledger::Ticket;
use hikyaku_content::WholeFile;

impl<T: AsyncRead + AsyncWrite + Unpin> Http2<T> {
    /// Answers a request by a file in memory.
    pub(super) fn send_whole(
        &mut self,
        stream: u32,
        file: &WholeFile,
        request: &Request<()>,
        mut ticket: Box<Ticket>,
    ) {
        let alt_svc = self.answerer.answers_by(file, request, &mut ticket);
        let method = request.method();
        match self.send_file(stream, file, method, alt_svc.as_ref()) {
            Ok(()) => self.streams.insert(Stream::sent(stream, method, ticket)),
            Err(error) => {
                tracing::debug!("HTTP/2 response: {error}");
                self.engine.reset(stream, Code::INTERNAL_ERROR);
            }
        }
    }

    fn send_file(
        &mut self,
        stream: u32,
        file: &WholeFile,
        method: &Method,
        alt_svc: Option<&HeaderValue>,
    ) -> Result<(), Unsent> {
        let date = date();
        let date = ("date", date.as_bytes());
        let value = alt_svc.map(HeaderValue::as_bytes);
        let more = [date, ("alt-svc", value.unwrap_or_default())];
        let more = &more[usize::from(!is_undated(file))..1 + usize::from(value.is_some())];
        let content = file.content();
        let end = *method == Method::HEAD || content.is_empty();
        let head = file.prepared_h2(|headers| Prepared::new(StatusCode::OK, headers));
        self.engine.send_prepared(stream, head, more, end)?;
        if !end {
            self.engine.send_data(stream, content.clone(), true)?;
        }
        Ok(())
    }
}
