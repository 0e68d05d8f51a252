//! Interim responses (1xx).
//!
//! hyper's server sends none. On HTTP/1.1 they are written beneath it, between a request and its
//! response. hyper flushes the stream whenever it has written all it has, and it has nothing of a
//! request that is not answered yet.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use futures_util::future::poll_fn;
use http::Response;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use hikyaku_content::{Body, InterimHeads};

/// The next message to a client.
pub(super) enum Next {
    Interim(Response<()>),
    Response(Response<Body>),
}

/// A response that is waited for, and those that come before it through the request's
/// [`Interim`](hikyaku_content::Interim).
pub(super) struct Coming<'a, A> {
    /// `None` where there are none.
    heads: Option<InterimHeads>,
    responding: Pin<&'a mut A>,
    response: Option<Response<Body>>,
}

impl<'a, A: Future<Output = Response<Body>>> Coming<'a, A> {
    pub(super) const fn new(heads: Option<InterimHeads>, responding: Pin<&'a mut A>) -> Self {
        Self {
            heads,
            responding,
            response: None,
        }
    }

    /// None that comes before the response is left when that is returned.
    pub(super) async fn next(&mut self) -> Next {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        if self.response.is_none()
            && let Poll::Ready(response) = self.responding.as_mut().poll(cx)
        {
            self.response = Some(response);
        }
        if let Some(head) = self.heads.as_ref().and_then(InterimHeads::pop) {
            return Poll::Ready(Next::Interim(head));
        }
        match self.response.take() {
            Some(response) => Poll::Ready(Next::Response(response)),
            None => Poll::Pending,
        }
    }
}

/// Sends interim responses on one connection of HTTP/1.1.
#[derive(Clone, Debug, Default)]
pub(super) struct InterimWriter(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    written: usize,
    /// Of the task that drives the connection.
    connection: Option<Waker>,
    /// Of the request that waits until all is written.
    request: Option<Waker>,
}

impl InterimWriter {
    /// Returns when the response has been handed to the stream. The request that it
    /// precedes must not be answered before.
    pub(super) async fn send(&self, head: Response<()>) {
        {
            let mut waiting = self.0.lock();
            encode(&head, &mut waiting.bytes);
            if let Some(connection) = waiting.connection.take() {
                connection.wake();
            }
        }
        poll_fn(|cx| {
            let mut waiting = self.0.lock();
            if waiting.bytes.is_empty() {
                return Poll::Ready(());
            }
            waiting.request = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// RFC 9112 §4: the reason is that of the status.
fn encode(head: &Response<()>, bytes: &mut Vec<u8>) {
    let status = head.status();
    let reason = status.canonical_reason().unwrap_or_default();
    bytes.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).as_bytes());
    for (name, value) in head.headers() {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
}

/// A stream on which an [`InterimWriter`] writes, too.
#[derive(Debug)]
pub(super) struct WithInterim<T> {
    io: T,
    writer: InterimWriter,
}

impl<T: AsyncWrite + Unpin> WithInterim<T> {
    pub(super) fn new(io: T) -> (Self, InterimWriter) {
        let writer = InterimWriter::default();
        let stream = Self {
            io,
            writer: writer.clone(),
        };
        (stream, writer)
    }

    fn poll_write_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut waiting = self.writer.0.lock();
        let waiting = &mut *waiting;
        while waiting.written < waiting.bytes.len() {
            let rest = &waiting.bytes[waiting.written..];
            let written = ready!(Pin::new(&mut self.io).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            waiting.written += written;
        }
        if waiting.written > 0 {
            waiting.bytes = Vec::new();
            waiting.written = 0;
            if let Some(request) = waiting.request.take() {
                request.wake();
            }
        }
        if !waiting
            .connection
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            waiting.connection = Some(cx.waker().clone());
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WithInterim<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for WithInterim<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_interim(cx))?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::future::join;
    use http::StatusCode;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use hikyaku_content::Interim;

    fn hints() -> Response<()> {
        let response = Response::builder().status(StatusCode::EARLY_HINTS);
        response.header("link", "</a>").body(()).unwrap()
    }

    #[tokio::test]
    async fn interim_responses_are_written_when_the_stream_is_flushed() {
        // Eight bytes fit, so that it has to be written in pieces.
        let (near, mut far) = tokio::io::duplex(8);
        let (mut stream, writer) = WithInterim::new(near);
        let flush = async move {
            // The remainder of the response before.
            stream.write_all(b"end").await.unwrap();
            stream.flush().await.unwrap();
            let mut writing = pin!(writer.send(hints()));
            poll_fn(|cx| {
                assert!(writing.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            stream.flush().await.unwrap();
            writing.await;
            stream.write_all(b"response").await.unwrap();
        };
        let mut got = String::new();
        let (read, ()) = join(far.read_to_string(&mut got), flush).await;
        read.unwrap();
        let want = "endHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nresponse";
        assert_eq!(got, want);
    }

    #[tokio::test]
    async fn interim_responses_go_before_the_response() {
        let (interim, heads) = Interim::channel();
        let mut responding = pin!(async move {
            interim.send(hints());
            tokio::task::yield_now().await;
            // At the same time as the response.
            interim.send(hints());
            Response::new(Body::empty())
        });
        let mut sent = Vec::new();
        let mut coming = Coming::new(Some(heads), responding.as_mut());
        let response = loop {
            match coming.next().await {
                Next::Interim(head) => sent.push(head.status().as_u16()),
                Next::Response(response) => break response,
            }
        };
        assert_eq!(response.status(), 200);
        assert_eq!(sent, [103, 103]);
    }
}
