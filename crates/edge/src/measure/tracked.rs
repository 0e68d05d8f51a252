//! Response bodies of HTTP/1.1, followed until the transport has them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body as _, Frame, SizeHint};

use super::{Ledger, Ticket};
use hikyaku_content::{Body, BoxError};

/// A response's body of HTTP/1.1, which closes its exchange when the last byte is written.
///
/// That is later than when the last byte is *read* from the body: hyper may hold it back for the
/// socket. So the ticket travels with the last bytes themselves, and the exchange is closed when the
/// connection has written and dropped them.
#[derive(Debug)]
pub(crate) struct TrackedBody {
    body: Body,
    ledger: Arc<Ledger>,
    ticket: Option<Ticket>,
}

impl TrackedBody {
    /// Tracks `body`.
    pub(crate) fn new(body: Body, ticket: Ticket) -> Self {
        Self {
            body,
            ledger: Arc::clone(ticket.ledger()),
            ticket: Some(ticket),
        }
    }

    fn track(&mut self, bytes: Bytes) -> Content {
        if let Some(ticket) = &mut self.ticket {
            ticket.sent(bytes.len());
        }
        Content {
            bytes,
            last: self.is_end_stream().then(|| self.ticket.take()).flatten(),
            ledger: Arc::clone(&self.ledger),
        }
    }
}

impl http_body::Body for TrackedBody {
    type Data = Content;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Content>, BoxError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Some(ticket) = &mut self.ticket {
            ticket.waits(frame.is_pending());
        }
        Poll::Ready(match ready!(frame) {
            Some(Ok(frame)) => {
                // hyper does not read past trailers.
                if frame.is_trailers()
                    && let Some(ticket) = self.ticket.take()
                {
                    ticket.complete();
                }
                Some(Ok(frame.map_data(|bytes| self.track(bytes))))
            }
            Some(Err(error)) => {
                if let Some(mut ticket) = self.ticket.take() {
                    ticket.failed(&error);
                }
                Some(Err(error))
            }
            None => {
                if let Some(ticket) = self.ticket.take() {
                    ticket.complete();
                }
                None
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        // A body known to be empty is dropped without being read.
        if self.is_end_stream()
            && let Some(ticket) = self.ticket.take()
        {
            ticket.complete();
        }
    }
}

/// Content of a response, which is counted as the transport takes it.
#[derive(Debug)]
pub(crate) struct Content {
    bytes: Bytes,
    ledger: Arc<Ledger>,
    /// Of a response of which these are the last bytes.
    last: Option<Ticket>,
}

impl Buf for Content {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, bytes: usize) {
        self.bytes.advance(bytes);
        self.ledger.note_content(bytes);
    }

    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        self.ledger.note_content(length);
        self.bytes.copy_to_bytes(length)
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        if let Some(ticket) = self.last.take() {
            ticket.complete();
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http_body_util::{BodyExt, StreamBody};

    use super::super::Load;
    use super::*;

    fn ticket(ledger: &Arc<Ledger>) -> Ticket {
        ledger.open(&Request::get("https://a.example/x").body(()).unwrap())
    }

    fn ended(ledger: &Ledger) -> Vec<(bool, u64)> {
        let mut ended = Vec::new();
        ledger.take(&Context::from_waker(std::task::Waker::noop()), &mut ended);
        ended.iter().map(|e| (e.complete, e.bytes)).collect()
    }

    #[tokio::test]
    async fn an_exchange_ends_when_its_last_bytes_are_dropped() {
        let ledger = Arc::<Ledger>::default();
        let frames = [4, 4, 2].map(|length| Ok::<_, BoxError>(Frame::data(vec![7; length].into())));
        let stream = StreamBody::new(futures_util::stream::iter(frames));
        let mut body = TrackedBody::new(Body::boxed(stream), ticket(&ledger));
        let mut chunks = Vec::new();
        while let Some(frame) = body.frame().await {
            chunks.push(frame.unwrap().into_data().unwrap());
        }
        assert_eq!(ledger.content(), 0);
        chunks[0].advance(3);
        chunks[1].copy_to_slice(&mut [0; 4]);
        assert_eq!(ledger.content(), 7, "what was taken of the chunks");
        drop((body, chunks));
        assert_eq!(ended(&ledger), [(true, 10)]);
        assert_eq!(ledger.load(), Load::default());

        let body = Body::from(Bytes::from_static(&[7; 10]));
        let mut body = TrackedBody::new(body, ticket(&ledger));
        let mut chunks = Vec::new();
        while let Some(frame) = body.frame().await {
            chunks.push(frame.unwrap().into_data().unwrap());
        }
        drop(body);
        assert_eq!(ended(&ledger), [], "the last chunk is still to be written");
        assert_eq!(ledger.load().in_flight, 1);
        drop(chunks);
        assert_eq!(ended(&ledger), [(true, 10)]);
        assert_eq!(ledger.load(), Load::default());
    }

    #[tokio::test]
    async fn bodies_given_up_are_incomplete() {
        let ledger = Arc::<Ledger>::default();
        drop(ticket(&ledger));
        assert_eq!(ended(&ledger), [(false, 0)], "no response at all");

        drop(TrackedBody::new(Body::empty(), ticket(&ledger)));
        assert_eq!(ended(&ledger), [(true, 0)], "nothing to send");

        let body = Body::from(Bytes::from_static(&[7; 10]));
        drop(TrackedBody::new(body, ticket(&ledger)));
        assert_eq!(ended(&ledger), [(false, 0)], "never read");

        let frames = [
            Ok(Frame::data(Bytes::from_static(b"abc"))),
            Err("broke off"),
        ];
        let broken = StreamBody::new(futures_util::stream::iter(frames));
        let mut body = TrackedBody::new(Body::boxed(broken), ticket(&ledger));
        assert!(body.frame().await.unwrap().is_ok());
        assert!(body.frame().await.unwrap().is_err());
        drop(body);
        assert_eq!(ended(&ledger), [(false, 3)], "its source failed");
    }
}
