//! One request and its response.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hikyaku_h2::connection::Connection;
use hikyaku_h2::error::{Code, Unsent};
use http::{Method, Response, header};
use http_body::Body as _;

use super::super::head::{date, length_to_announce};
use super::inbox::StreamWaker;
use super::upload::{End, Upload};
use crate::ledger::Ticket;
use hikyaku_content::{Body, BoxError, InterimHeads};

/// A response that is to come, with the ticket of its exchange.
pub(super) type Responding = Pin<Box<dyn Future<Output = (Response<Body>, Box<Ticket>)> + Send>>;

/// One request and its response.
pub(super) struct Stream {
    pub(super) id: u32,
    is_head: bool,
    /// Code of the reset where content ends early.
    broken_off: Code,
    part: Part,
    /// `None` once nobody reads the request's content, or where there is none.
    pub(super) upload: Option<Arc<Upload>>,
    /// Bytes of the request that were read, and for which the client has got no window again.
    pub(super) unclaimed: u32,
    /// `None` until the stream waits for something.
    pub(super) waker: Option<Arc<StreamWaker>>,
}

/// The part of the response that comes next.
enum Part {
    Head {
        responding: Responding,
        /// Interim responses that come before it; `None` where there are none.
        interim: Option<InterimHeads>,
    },
    Content {
        body: Body,
        ticket: Box<Ticket>,
    },
    /// The engine has all of it, and the output not yet.
    Sent(Box<Ticket>),
    Over,
}

/// The event for which a stream waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Its waker.
    Waker,
    /// Until the client has taken the content that the engine has.
    Client,
    /// Nothing, as the stream was reset.
    Nothing,
}

impl Stream {
    /// A request whose response is to come.
    pub(super) fn new(
        id: u32,
        method: &Method,
        upload: Option<Arc<Upload>>,
        responding: Responding,
        interim: Option<InterimHeads>,
    ) -> Box<Self> {
        let part = Part::Head {
            responding,
            interim,
        };
        Self::with_part(id, method, upload, part)
    }

    /// A request whose response the engine has.
    pub(super) fn sent(id: u32, method: &Method, ticket: Box<Ticket>) -> Box<Self> {
        Self::with_part(id, method, None, Part::Sent(ticket))
    }

    fn with_part(id: u32, method: &Method, upload: Option<Arc<Upload>>, part: Part) -> Box<Self> {
        Box::new(Self {
            id,
            is_head: *method == Method::HEAD,
            // RFC 8441 §5: a connection that was reset is a stream that is cancelled.
            broken_off: match *method {
                Method::CONNECT => Code::CANCEL,
                _ => Code::INTERNAL_ERROR,
            },
            part,
            upload,
            unclaimed: 0,
            waker: None,
        })
    }

    /// Whether neither the response nor the request's content is waited for.
    pub(super) fn is_over(&self) -> bool {
        let reads = || self.upload.as_ref().is_some_and(|it| !it.has_ended());
        matches!(self.part, Part::Over) && !reads()
    }

    /// Takes note that the output has the whole response.
    pub(super) fn complete(&mut self) {
        if let Part::Sent(ticket) = std::mem::replace(&mut self.part, Part::Over) {
            ticket.complete();
        }
    }

    /// Goes on with the response.
    pub(super) fn poll(&mut self, engine: &mut Connection, cx: &mut Context<'_>) -> Wait {
        match self.try_poll(engine, cx) {
            Poll::Pending => Wait::Waker,
            Poll::Ready(Ok(())) => Wait::Client,
            Poll::Ready(Err(error)) => {
                tracing::debug!("HTTP/2 response: {error}");
                engine.reset(self.id, self.broken_off);
                Wait::Nothing
            }
        }
    }

    fn try_poll(
        &mut self,
        engine: &mut Connection,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BoxError>> {
        if let Part::Head {
            responding,
            interim,
        } = &mut self.part
        {
            let response = responding.as_mut().poll(cx);
            // None that comes before the response is left then.
            while let Some(head) = interim.as_ref().and_then(InterimHeads::pop) {
                engine.send_head(self.id, head.status(), head.headers(), false)?;
            }
            let (response, ticket) = ready!(response);
            self.send_head(engine, response, ticket)?;
        }
        self.poll_content(engine, cx)
    }

    fn send_head(
        &mut self,
        engine: &mut Connection,
        response: Response<Body>,
        ticket: Box<Ticket>,
    ) -> Result<(), Unsent> {
        let length = length_to_announce(&response).filter(|_| !self.is_head);
        let (mut head, body) = response.into_parts();
        if let Some(length) = length {
            head.headers.insert(header::CONTENT_LENGTH, length.into());
        }
        head.headers.entry(header::DATE).or_insert_with(date);
        let is_end = body.is_end_stream();
        engine.send_head(self.id, head.status, &head.headers, is_end)?;
        self.part = match is_end {
            true => Part::Sent(ticket),
            false => Part::Content { body, ticket },
        };
        Ok(())
    }

    /// Hands content to the engine, unless that has some that the client has not taken.
    fn poll_content(
        &mut self,
        engine: &mut Connection,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BoxError>> {
        while let Part::Content { body, ticket } = &mut self.part {
            if engine.queued(self.id) > 0 {
                break;
            }
            let frame = Pin::new(&mut *body).poll_frame(cx);
            ticket.waits(frame.is_pending());
            let is_end = match ready!(frame) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        let is_end = body.is_end_stream();
                        ticket.sent(data.len());
                        if !data.is_empty() || is_end {
                            engine.send_data(self.id, data, is_end)?;
                        }
                        is_end
                    }
                    Err(frame) => {
                        let trailers = frame.into_trailers().unwrap_or_default();
                        engine.send_trailers(self.id, trailers)?;
                        true
                    }
                },
                Some(Err(error)) => {
                    ticket.failed(&error);
                    return Poll::Ready(Err(error));
                }
                None => {
                    engine.send_data(self.id, bytes::Bytes::new(), true)?;
                    true
                }
            };
            if is_end {
                self.on_sent();
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Takes note that the engine has the whole response.
    fn on_sent(&mut self) {
        if let Part::Content { ticket, .. } = std::mem::replace(&mut self.part, Part::Over) {
            self.part = Part::Sent(ticket);
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(upload) = &self.upload {
            upload.end(End::Closed);
        }
    }
}
