//! Content of upstreams' responses over HTTP/1.1.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use hikyaku_h1::content::{Decoder, Part};
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, ReadBuf, ReadHalf, WriteHalf};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use super::super::error::ExchangeError;
use super::super::idle::Idle;
use super::receive::{LARGE, SMALL, poll_receive};
use super::send::Sending;
use super::transport::Transport;
use super::{Http1, Http1Error};

/// A response's content. After its end the connection waits for the next request. Dropped before,
/// the content ends the connection, and the rest of the request.
pub(in crate::proxy) struct ResponseBody {
    source: Option<Source>,
    decoder: Decoder,
    received: Bytes,
    home: Option<Home>,
}

/// The place of a connection that can be used again.
pub(super) struct Home {
    pub(super) idle: Arc<Idle>,
    /// The time that the upstream allows.
    pub(super) allows: Option<Duration>,
}

impl Home {
    pub(super) fn keep(self, connection: Http1) {
        self.idle.keep(connection, self.allows);
    }
}

impl ResponseBody {
    pub(super) fn new(
        source: Source,
        decoder: Decoder,
        received: Bytes,
        home: Option<Home>,
    ) -> Self {
        Self {
            source: Some(source),
            decoder,
            received,
            home,
        }
    }

    /// The task that still sends the request.
    pub(in crate::proxy) fn rest(&self) -> Option<AbortHandle> {
        match &self.source {
            Some(Source::Half {
                rest: Rest::Sending(task),
                ..
            }) => Some(task.abort_handle()),
            _ => None,
        }
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, Http1Error>> {
        loop {
            let part = self.decoder.decode(&mut self.received)?;
            if self.decoder.is_over() {
                self.finish();
            }
            if part != Part::Nothing {
                return Poll::Ready(Ok(part));
            }
            let Some(source) = &mut self.source else {
                return Poll::Ready(Ok(Part::End));
            };
            source.poll_rest(cx)?;
            let size = match self.decoder.is_chunked() {
                true => SMALL,
                false => LARGE,
            };
            let is_open = ready!(poll_receive(source, &mut self.received, size, cx))?;
            if !is_open {
                self.decoder.end_of_input()?;
            }
        }
    }

    /// Keeps the connection, if nothing was received that no request has asked for.
    fn finish(&mut self) {
        let source = self.source.take().and_then(Source::rejoin);
        if let (Some(connection), Some(home)) = (source, self.home.take())
            && self.received.is_empty()
        {
            home.keep(connection);
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Http1Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Http1Error>>> {
        Poll::Ready(match ready!(self.poll_part(cx))? {
            Part::Data(data) => Some(Ok(Frame::data(data))),
            Part::Trailers(trailers) => Some(Ok(Frame::trailers(trailers))),
            Part::End | Part::Nothing => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.decoder.is_over()
    }

    fn size_hint(&self) -> SizeHint {
        let remaining = self.decoder.remaining();
        remaining.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        // A source is left only if the content is not over.
        if let Some(rest) = self.rest() {
            rest.abort();
        }
    }
}

/// The end of a connection from which content is read.
pub(super) enum Source {
    Whole(Http1),
    /// The request is still being sent, since the response came early.
    Half {
        reading: ReadHalf<Transport>,
        rest: Rest,
        limits: hikyaku_h1::response::Limits,
        since: Instant,
    },
}

/// The rest of a request.
pub(super) enum Rest {
    Sending(JoinHandle<Result<WriteHalf<Transport>, ExchangeError>>),
    /// It was sent, or could not be written.
    Over(Option<WriteHalf<Transport>>),
}

impl Source {
    /// Sends the rest of the request beside reading its response.
    pub(super) fn split(connection: Http1, mut rest: Sending) -> Self {
        let Http1 {
            transport,
            limits,
            since,
        } = connection;
        let (reading, mut writing) = tokio::io::split(transport);
        let sending = tokio::spawn(async move {
            std::future::poll_fn(|cx| rest.poll(&mut writing, cx)).await?;
            Ok(writing)
        });
        Self::Half {
            reading,
            rest: Rest::Sending(sending),
            limits,
            since,
        }
    }

    /// Fails when the rest of the request cannot come any more. One that cannot be written may have its
    /// response nevertheless (RFC 9112 §9.5).
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Result<(), Http1Error> {
        let Self::Half { rest, .. } = self else {
            return Ok(());
        };
        let Rest::Sending(task) = rest else {
            return Ok(());
        };
        let Poll::Ready(sent) = Pin::new(task).poll(cx) else {
            return Ok(());
        };
        let (over, result) = match sent {
            Ok(Ok(writing)) => (Some(writing), Ok(())),
            Ok(Err(ExchangeError::Http1(Http1Error::Io(error)))) => {
                tracing::debug!(%error, "the rest of a request to the upstream");
                (None, Ok(()))
            }
            Ok(Err(error)) => (None, Err(Http1Error::Rest(error.into()))),
            Err(error) => (None, Err(Http1Error::Rest(error.into()))),
        };
        *rest = Rest::Over(over);
        result
    }

    /// The whole connection, if all of the request was sent.
    fn rejoin(self) -> Option<Http1> {
        match self {
            Self::Whole(connection) => Some(connection),
            Self::Half {
                reading,
                rest,
                limits,
                since,
            } => {
                let writing = match rest {
                    Rest::Sending(task) => task.now_or_never()?.ok()?.ok()?,
                    Rest::Over(writing) => writing?,
                };
                let transport = reading.unsplit(writing);
                Some(Http1 {
                    transport,
                    limits,
                    since,
                })
            }
        }
    }
}

impl AsyncRead for Source {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Whole(connection) => Pin::new(&mut connection.transport).poll_read(cx, buf),
            Self::Half { reading, .. } => Pin::new(reading).poll_read(cx, buf),
        }
    }
}
