//! Responses.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use hikyaku_h3_quic::{Acknowledged, Code, RequestHead, Sending, StreamError};
use http::{HeaderMap, Method, Response, StatusCode, header, response};
use http_body::{Body as _, Frame};

use super::super::head::{date, length_to_announce};
use crate::ledger::Ticket;
use hikyaku_content::{Body, BoxError};

/// The response to one request.
pub(super) struct Answer {
    sending: Sending<response::Parts>,
    /// To HEAD: without content, and with the length that it would have.
    to_head: bool,
    /// Code that the stream is reset with where content ends early.
    broken_off: Code,
}

/// Why a response was not sent whole.
pub(super) enum Unsent {
    /// Its content ended early.
    Content(BoxError),
    /// The client wants no more, or is gone.
    Stream(StreamError),
}

impl From<StreamError> for Unsent {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

impl Answer {
    pub(super) const fn new(sending: Sending<response::Parts>) -> Self {
        Self {
            sending,
            to_head: false,
            broken_off: Code::InternalError,
        }
    }

    /// Takes note of the request that is answered.
    pub(super) fn answers(&mut self, head: &RequestHead) {
        self.to_head = head.parts.method == Method::HEAD;
        if head.parts.method == Method::CONNECT {
            // RFC 9220 §3: a connection that was reset is a request that is cancelled.
            self.broken_off = Code::RequestCancelled;
        }
        self.sending.answers(&head.parts.method, head.priority);
    }

    /// Gives the stream up.
    pub(super) fn reset(self, code: Code) {
        self.sending.reset(code);
    }

    /// Answers a request whose header section is not taken: too large (RFC 9114 §4.2.2), or too slow.
    pub(super) async fn refuse(mut self, status: StatusCode) {
        let refused = match self.sending.head(status, &HeaderMap::new()) {
            Ok(()) => self.sending.finish().await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = refused {
            tracing::debug!("HTTP/3 response: {error}");
        }
    }

    /// Sends an interim response (1xx).
    pub(super) async fn interim(&mut self, response: Response<()>) -> Result<(), StreamError> {
        self.sending.head(response.status(), response.headers())?;
        self.sending.flush().await
    }

    /// Result of `response`; `None` if the client has given up before.
    pub(super) async fn unless_stopped<T>(
        &mut self,
        response: impl Future<Output = T>,
    ) -> Option<T> {
        let mut response = pin!(response);
        poll_fn(|cx| {
            if let Poll::Ready(response) = response.as_mut().poll(cx) {
                return Poll::Ready(Some(response));
            }
            self.sending.poll_stopped(cx).map(|()| None)
        })
        .await
    }

    /// Sends a response.
    pub(super) async fn send(
        mut self,
        response: Response<Body>,
        ticket: &mut Ticket,
    ) -> Result<Acknowledged, Unsent> {
        let (head, body) = complete_head(response, self.to_head).into_parts();
        self.sending.head(head.status, &head.headers)?;
        if self.sending.takes_content() {
            match self.send_body(body, ticket).await {
                Err(Unsent::Content(error)) => {
                    self.sending.reset(self.broken_off);
                    return Err(Unsent::Content(error));
                }
                sent => sent?,
            }
        }
        self.sending.complete();
        Ok(self.sending.finish().await?)
    }

    async fn send_body(&mut self, body: Body, ticket: &mut Ticket) -> Result<(), Unsent> {
        let mut body = pin!(body);
        let mut trailers = None;
        while !body.is_end_stream() {
            let frame = poll_fn(|cx| {
                let frame = body.as_mut().poll_frame(cx);
                ticket.waits(frame.is_pending());
                if frame.is_pending() {
                    if let Poll::Ready(Err(error)) = self.sending.poll_flush(cx) {
                        return Poll::Ready(Err(Unsent::Stream(error)));
                    }
                    if self.sending.poll_stopped(cx).is_ready() {
                        return Poll::Ready(Err(Unsent::Stream(StreamError::Closed)));
                    }
                }
                frame.map(Ok)
            });
            let Some(frame) = frame.await? else {
                break;
            };
            let frame: Frame<Bytes> = frame.map_err(Unsent::Content)?;
            match frame.into_data() {
                // An empty DATA frame would only cost bytes.
                Ok(data) if data.is_empty() => {}
                Ok(data) => {
                    ticket.sent(data.len());
                    self.sending.data(data).await?;
                }
                Err(frame) => trailers = frame.into_trailers().ok(),
            }
        }
        if let Some(trailers) = trailers {
            self.sending.trailers(&trailers).await?;
        }
        Ok(())
    }
}

/// Adds what hyper adds for HTTP/1.1 and 2.
fn complete_head(mut response: Response<Body>, to_head: bool) -> Response<Body> {
    let length = length_to_announce(&response).filter(|_| !to_head);
    let headers = response.headers_mut();
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    headers.entry(header::DATE).or_insert_with(date);
    response
}
