//! HTTP/1.1 towards the upstream (RFC 9112).
//!
//! The task that waits for the response drives the connection itself. It sends the request and reads
//! the response. Then the connection is idle again.

mod body;
mod receive;
mod send;
mod transport;

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use hikyaku_h1::content::{ContentError, Decoder, Part};
use hikyaku_h1::request::{Encoder, LengthMismatch};
use hikyaku_h1::response::{Framing, Head, HeadError, Limits};
use http::{Method, Response, StatusCode};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::error::ExchangeError;
use super::idle::Idle;
use super::response;
use super::upload::Upload;
use crate::header_size::HeaderSize;
use crate::{BoxError, Interim};
use body::{Home, Source};
use receive::{SMALL, poll_receive};
use send::Sending;

pub(super) use body::ResponseBody;
pub(super) use transport::{Transport, Upgraded};

/// A connection on which no request is under way.
pub(super) struct Http1 {
    transport: Transport,
    limits: Limits,
    /// When it was made.
    since: Instant,
}

/// A request in the form of HTTP/1.1.
pub(super) struct Request<'a> {
    pub(super) method: &'a Method,
    pub(super) head: Bytes,
    pub(super) encoder: Encoder,
    /// The content, if there is any.
    pub(super) content: Option<Upload>,
    pub(super) interim: Option<&'a Interim>,
}

/// The content that follows a response's head.
pub(super) enum Content {
    /// All of it, received with the head.
    Whole(Bytes),
    Streaming(ResponseBody),
    /// Another protocol's, after 101 (RFC 9110 §15.2.2).
    Upgraded(Upgraded),
}

impl Content {
    /// The task that still sends the request.
    pub(super) fn rest(&self) -> Option<AbortHandle> {
        match self {
            Self::Streaming(body) => body.rest(),
            Self::Whole(_) | Self::Upgraded(_) => None,
        }
    }
}

/// How an exchange failed.
pub(super) struct Failure {
    pub(super) error: ExchangeError,
    /// Whether nothing of the request was sent.
    pub(super) is_unsent: bool,
}

impl Failure {
    const fn begun(error: ExchangeError) -> Self {
        Self {
            error,
            is_unsent: false,
        }
    }
}

impl Http1 {
    /// Begins HTTP/1.1 over `transport`. Heads of responses may have up to `header_size` bytes.
    pub(super) fn new(transport: impl Into<Transport>, header_size: HeaderSize) -> Self {
        let limits = Limits {
            size: header_size.head_size(),
            fields: header_size.fields(),
        };
        Self {
            transport: transport.into(),
            limits,
            since: Instant::now(),
        }
    }

    /// When the connection was made.
    pub(super) const fn since(&self) -> Instant {
        self.since
    }

    /// Whether the upstream has neither closed the connection nor sent unasked bytes. A
    /// waker of `cx` is woken when it does.
    pub(super) fn is_usable(&mut self, cx: &mut Context<'_>) -> bool {
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        Pin::new(&mut self.transport)
            .poll_read(cx, &mut buffer)
            .is_pending()
    }

    /// Whether the connection is usable now.
    pub(super) fn is_usable_now(&mut self) -> bool {
        self.is_usable(&mut Context::from_waker(Waker::noop()))
    }

    /// Sends a request, and waits for the head of its response. Interim responses go to
    /// `request.interim`. The connection returns to `idle` after the response's end.
    ///
    /// # Errors
    /// If the connection, the upstream, or the request's content fails.
    pub(super) async fn send(
        self,
        request: Request<'_>,
        idle: &Arc<Idle>,
    ) -> Result<Response<Content>, Failure> {
        let mut exchange = Exchange {
            connection: self,
            sending: Some(Sending::new(request.head, request.encoder, request.content)),
            received: Bytes::new(),
            failed: None,
        };
        match poll_fn(|cx| exchange.poll_head(request.interim, cx)).await {
            Ok(head) => exchange.respond(head, request.method, idle),
            Err(failure) => Err(failure),
        }
    }
}

/// A request that is being sent, and whose response is waited for.
struct Exchange {
    connection: Http1,
    /// `None` once all of the request was sent.
    sending: Option<Sending>,
    received: Bytes,
    /// The failure of sending. A server may answer a request before it has taken the whole of it, and
    /// close. The response then waits to be read (RFC 9112 §9.5).
    failed: Option<Failure>,
}

impl Exchange {
    fn poll_head(
        &mut self,
        interim: Option<&Interim>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Head, Failure>> {
        self.poll_send(cx)?;
        loop {
            while !self.received.is_empty()
                && let Some(head) = Head::parse(&mut self.received, &self.connection.limits)?
            {
                if !head.status.is_informational() || head.status == StatusCode::SWITCHING_PROTOCOLS
                {
                    return Poll::Ready(Ok(head));
                }
                let passed = interim.zip(response::interim(head.status, &head.headers));
                if let Some((interim, head)) = passed {
                    interim.send(head);
                }
            }
            let transport = &mut self.connection.transport;
            let received = ready!(poll_receive(transport, &mut self.received, SMALL, cx));
            if let Some(failed) = self.failed.take_if(|_| !matches!(received, Ok(true))) {
                return Poll::Ready(Err(failed));
            }
            if !received? {
                return Poll::Ready(Err(Http1Error::Closed.into()));
            }
        }
    }

    /// Goes on with sending. A connection that takes no more is still read.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let Some(sending) = &mut self.sending else {
            return Ok(());
        };
        let Poll::Ready(sent) = sending.poll(&mut self.connection.transport, cx) else {
            return Ok(());
        };
        let is_unsent = !sending.has_begun;
        self.sending = None;
        match sent {
            Err(error @ ExchangeError::Http1(Http1Error::Io(_))) => {
                self.failed = Some(Failure { error, is_unsent });
                Ok(())
            }
            sent => sent.map_err(Failure::begun),
        }
    }

    /// Goes on to the content after a response's head.
    fn respond(
        self,
        head: Head,
        method: &Method,
        idle: &Arc<Idle>,
    ) -> Result<Response<Content>, Failure> {
        let content = match head.status {
            StatusCode::SWITCHING_PROTOCOLS => Content::Upgraded(Upgraded {
                received: self.received,
                transport: self.connection.transport,
            }),
            _ => self.content(&head, method, idle)?,
        };
        let mut response = Response::new(content);
        *response.status_mut() = head.status;
        *response.version_mut() = head.version;
        *response.headers_mut() = head.headers;
        Ok(response)
    }

    fn content(
        mut self,
        head: &Head,
        method: &Method,
        idle: &Arc<Idle>,
    ) -> Result<Content, Failure> {
        let framing = head.framing(method)?;
        let has_failed = self.failed.is_some();
        let is_kept = head.is_persistent() && framing != Framing::UntilClose && !has_failed;
        let home = is_kept.then(|| Home {
            idle: Arc::clone(idle),
            allows: response::keep_alive(&head.headers),
        });
        let decoder = Decoder::new(framing, self.connection.limits);
        let Some(whole) = self.whole(&decoder) else {
            return Ok(self.stream(decoder, home));
        };
        if let Some(home) = home.filter(|_| self.received.is_empty()) {
            home.keep(self.connection);
        }
        Ok(Content::Whole(whole))
    }

    /// Takes the content if all of it has been received in a piece, and the whole request was sent.
    fn whole(&mut self, decoder: &Decoder) -> Option<Bytes> {
        if self.sending.is_some() {
            return None;
        }
        let (mut decoder, mut left) = (decoder.clone(), self.received.clone());
        let mut whole = Bytes::new();
        while !decoder.is_over() {
            match decoder.decode(&mut left) {
                Ok(Part::Data(data)) if whole.is_empty() => whole = data,
                Ok(Part::End) => {}
                _ => return None,
            }
        }
        self.received = left;
        Some(whole)
    }

    fn stream(self, decoder: Decoder, home: Option<Home>) -> Content {
        let source = match self.sending {
            None => Source::Whole(self.connection),
            Some(rest) => Source::split(self.connection, rest),
        };
        Content::Streaming(ResponseBody::new(source, decoder, self.received, home))
    }
}

/// Why an exchange over HTTP/1.1 failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Http1Error {
    #[error("the connection failed")]
    Io(#[from] io::Error),
    #[error("the connection was closed before the response")]
    Closed,
    #[error(transparent)]
    Head(#[from] HeadError),
    #[error(transparent)]
    Content(#[from] ContentError),
    #[error(transparent)]
    Length(#[from] LengthMismatch),
    #[error("the rest of the request failed after the response had begun")]
    Rest(#[source] BoxError),
}

impl<E: Into<Http1Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::begun(ExchangeError::Http1(error.into()))
    }
}
