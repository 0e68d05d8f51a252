//! Sending content of requests over HTTP/2.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::Body;

/// An error that ends the sending of a message's content.
#[derive(Debug)]
pub(super) enum SendError<E> {
    /// The peer wants no more of it, or the connection is over.
    Stopped(h2::Error),
    /// The content itself ended early. The stream is reset.
    Content(E),
}

impl<E> From<h2::Error> for SendError<E> {
    fn from(error: h2::Error) -> Self {
        Self::Stopped(error)
    }
}

/// Sends `body` over `stream`, no faster than the peer takes it (RFC 9113 §5.2).
///
/// # Errors
/// If the peer stops it, or if `body` fails. The stream is then reset with CANCEL.
pub(super) async fn send<B: Body<Data = Bytes>>(
    mut stream: SendStream<Bytes>,
    body: B,
) -> Result<(), SendError<B::Error>> {
    let mut body = pin!(body);
    loop {
        let frame = poll_fn(|cx| {
            poll_alive(&mut stream, cx)?;
            body.as_mut().poll_frame(cx).map(Ok::<_, h2::Error>)
        });
        let frame = match frame.await? {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                stream.send_reset(Reason::CANCEL);
                return Err(SendError::Content(error));
            }
            None => return Ok(stream.send_data(Bytes::new(), true)?),
        };
        match frame.into_data() {
            Ok(data) => {
                let is_end = body.is_end_stream();
                if !data.is_empty() {
                    poll_fn(|cx| poll_room(&mut stream, cx)).await?;
                }
                stream.send_data(data, is_end)?;
                if is_end {
                    return Ok(());
                }
            }
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                // Releases the reserved capacity for other streams.
                stream.reserve_capacity(0);
                return Ok(stream.send_trailers(trailers)?);
            }
        }
    }
}

/// Fails when the peer wants no more of a message.
fn poll_alive(stream: &mut SendStream<Bytes>, cx: &mut Context<'_>) -> Result<(), h2::Error> {
    match stream.poll_reset(cx)? {
        Poll::Ready(reason) => Err(reason.into()),
        Poll::Pending => Ok(()),
    }
}

/// Waits until the peer takes at least a byte. The rest of the data then waits for capacity: asking
/// for more would keep it from the other streams.
fn poll_room(stream: &mut SendStream<Bytes>, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
    poll_alive(stream, cx)?;
    stream.reserve_capacity(1);
    while stream.capacity() == 0 {
        match ready!(stream.poll_capacity(cx)) {
            Some(capacity) => capacity.map(drop)?,
            None => return Poll::Ready(Err(Reason::CANCEL.into())),
        }
    }
    Poll::Ready(Ok(()))
}
