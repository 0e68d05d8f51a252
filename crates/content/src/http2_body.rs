//! Content of requests and of upstreams' responses over HTTP/2.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http::{HeaderMap, header};
use http_body::{Body, Frame, SizeHint};

/// Content of a message. Reading it makes room in the flow control windows.
#[derive(Debug)]
pub struct Http2Body {
    stream: RecvStream,
    /// The number of bytes still to come, if the message announced a length.
    left: Option<u64>,
    data_is_over: bool,
    /// Whether it is over where the peer resets the stream without an error.
    may_be_given_up: bool,
}

impl Http2Body {
    /// Makes the content of a response that comes on `stream` after a head with these fields.
    #[must_use]
    pub fn of_response(stream: RecvStream, headers: &HeaderMap) -> Self {
        Self::new(stream, headers, false)
    }

    /// Makes the content of a request that comes on `stream` after a head with these fields.
    ///
    /// A client that has seen enough of the response may send no more (RFC 9113 §8.1): the content is
    /// then over.
    #[must_use]
    pub fn of_request(stream: RecvStream, headers: &HeaderMap) -> Self {
        Self::new(stream, headers, true)
    }

    fn new(stream: RecvStream, headers: &HeaderMap, may_be_given_up: bool) -> Self {
        let left = match stream.is_end_stream() {
            true => Some(0),
            false => announced_length(headers),
        };
        Self {
            stream,
            left,
            data_is_over: false,
            may_be_given_up,
        }
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, h2::Error>>> {
        let data = ready!(self.stream.poll_data(cx));
        if let Some(Ok(data)) = &data {
            // It fails only if the stream is over.
            let _ = self.stream.flow_control().release_capacity(data.len());
            let length = data.len() as u64;
            self.left = self.left.map(|left| left.saturating_sub(length));
        }
        Poll::Ready(data)
    }

    fn poll_message(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if !self.data_is_over {
            match ready!(self.poll_data(cx)) {
                Some(data) => return Poll::Ready(Some(data.map(Frame::data))),
                None => self.data_is_over = true,
            }
        }
        let trailers = ready!(self.stream.poll_trailers(cx));
        Poll::Ready(trailers.map(|it| it.map(Frame::trailers)).transpose())
    }
}

impl Body for Http2Body {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        Poll::Ready(match ready!(self.poll_message(cx)) {
            Some(Err(error)) if self.may_be_given_up && is_no_error(&error) => None,
            frame => frame,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

fn is_no_error(error: &h2::Error) -> bool {
    error.reason() == Some(Reason::NO_ERROR)
}

/// The length that a message announces; `None` if it announces none, or several.
fn announced_length(headers: &HeaderMap) -> Option<u64> {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let first = lengths.next()?;
    let same = lengths.all(|length| length == first);
    first.to_str().ok()?.parse().ok().filter(|_| same)
}

#[cfg(test)]
mod tests {
    use h2::SendStream;
    use http::Request;
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_client_may_give_up_a_request() {
        let cases = [
            ("a request", Reason::NO_ERROR, true, true),
            ("a request that failed", Reason::CANCEL, true, false),
            ("a response", Reason::NO_ERROR, false, false),
        ];
        for (case, reason, may_be_given_up, is_over) in cases {
            let (mut sending, receiving) = stream().await;
            let mut body = Http2Body::new(receiving, &HeaderMap::new(), may_be_given_up);
            let data = Bytes::from_static(b"some");
            sending.send_data(data.clone(), false).unwrap();
            let frame = body.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), data, "{case}");
            sending.send_reset(reason);
            let end = body.frame().await;
            assert_eq!(end.is_none(), is_over, "{case}: {end:?}");
        }
    }

    /// Both ends of a request's content.
    async fn stream() -> (SendStream<Bytes>, RecvStream) {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (client, server) =
            tokio::join!(h2::client::handshake(near), h2::server::handshake(far));
        let ((requests, connection), mut server) = (client.unwrap(), server.unwrap());
        tokio::spawn(connection);
        let mut requests = requests.ready().await.unwrap();
        let request = Request::post("https://a.example/").body(()).unwrap();
        let (_, sending) = requests.send_request(request, false).unwrap();
        let (request, reply): (_, h2::server::SendResponse<Bytes>) =
            server.accept().await.unwrap().unwrap();
        tokio::spawn(async move {
            let _reply = reply;
            while server.accept().await.is_some() {}
        });
        (sending, request.into_body())
    }
}
