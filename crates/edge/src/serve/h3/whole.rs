//! Whole files in memory, sent in one write while the connection reads.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hikyaku_h3_quic::{
    Acknowledged, Prepared, Request as Incoming, RequestHead, Sending, StreamError,
};
use http::{HeaderValue, Request, StatusCode, response};

use super::super::executor::Waiting;
use super::super::head::date;
use super::super::whole::is_undated;
use super::Handler;
use crate::ledger::Ticket;
use hikyaku_content::WholeFile;

/// How far a request has been answered.
// Lives for a moment on the stack; a box would cost an allocation a request.
#[allow(clippy::large_enum_variant)]
pub(super) enum Answered {
    /// QUIC has the whole response.
    Whole,
    /// The rest waits until QUIC takes it.
    Sending(Waiting),
    /// Not at all. The request's head may have been read.
    Not {
        request: Incoming,
        head: Option<RequestHead>,
    },
}

impl Handler {
    /// Answers a request whose answer is a file in memory, if nothing has to be waited for.
    pub(super) fn answer_whole(self: &Arc<Self>, mut request: Incoming) -> Answered {
        let Some(mut head) = request.receiving.try_head() else {
            return Answered::Not {
                request,
                head: None,
            };
        };
        if head.protocol.is_none() && request.receiving.is_known_empty() {
            let asked = Request::from_parts(head.parts, ());
            let service = self.answerer.site.service();
            if let Some(file) = self.answerer.whole_file(&service, &asked) {
                let mut sending = request.sending;
                sending.answers(asked.method(), head.priority);
                return self.send_whole(&file, &asked, sending);
            }
            head.parts = asked.into_parts().0;
        }
        Answered::Not {
            request,
            head: Some(head),
        }
    }

    fn send_whole(
        self: &Arc<Self>,
        file: &WholeFile,
        request: &Request<()>,
        mut sending: Sending<response::Parts>,
    ) -> Answered {
        let mut ticket = self.answerer.conn.ledger.open(request);
        let alt_svc = self.answerer.answers_by(file, request, &mut ticket);
        let date = date();
        let date = ("date", date.as_bytes());
        let alt_svc = alt_svc.as_ref().map(HeaderValue::as_bytes);
        let more = [date, ("alt-svc", alt_svc.unwrap_or_default())];
        let more = &more[usize::from(!is_undated(file))..1 + usize::from(alt_svc.is_some())];
        let head = file.prepared_h3(|headers| Prepared::new(StatusCode::OK, headers));
        if let Err(error) = sending.whole(head, more, file.content()) {
            tracing::debug!("HTTP/3 response: {error}");
            return Answered::Whole;
        }
        let mut cx = Context::from_waker(Waker::noop());
        match sending.poll_finish(&mut cx) {
            Poll::Ready(sent) => {
                self.sent_whole(sent, &sending, ticket);
                Answered::Whole
            }
            Poll::Pending => {
                let handler = Arc::clone(self);
                Answered::Sending(Box::pin(async move {
                    let sent = poll_fn(|cx| sending.poll_finish(cx)).await;
                    handler.sent_whole(sent, &sending, ticket);
                }))
            }
        }
    }

    fn sent_whole(
        &self,
        sent: Result<Acknowledged, StreamError>,
        sending: &Sending<response::Parts>,
        ticket: Ticket,
    ) {
        match sent {
            Ok(acknowledged) => {
                sending.complete();
                ticket.complete_with(|exchange| {
                    self.acknowledged.hand_over(exchange, acknowledged);
                });
            }
            Err(error) => tracing::debug!("HTTP/3 response: {error}"),
        }
    }
}
