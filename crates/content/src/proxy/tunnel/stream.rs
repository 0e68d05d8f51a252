//! The direction to the client on a stream of HTTP/2 or 3: the body of a response.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::io::AsyncWrite;
use tokio::sync::mpsc;
use tokio_util::sync::PollSender;

/// Opens a stream. Returns the end for writing, a future that resolves when the reader is gone, and
/// the body.
///
/// If the writing end is dropped without a shutdown, the body ends with an error, as a reset
/// connection does. So no reader takes it for complete.
pub(super) fn open() -> (Outlet, impl Future<Output = ()> + Send + 'static, Inlet) {
    // The next chunk is read while the last one is sent.
    let (send, receive) = mpsc::channel(1);
    let watched = send.clone();
    let gone = async move { watched.closed().await };
    (Outlet(PollSender::new(send)), gone, Inlet(receive))
}

/// A chunk, or the orderly end.
type Item = Option<Bytes>;

/// The end for writing.
pub(super) struct Outlet(PollSender<Item>);

impl Outlet {
    fn poll_send(&mut self, cx: &mut Context<'_>, item: Item) -> Poll<io::Result<()>> {
        let sent = ready!(self.0.poll_reserve(cx)).and_then(|()| self.0.send_item(item));
        Poll::Ready(sent.map_err(|_| io::ErrorKind::ConnectionReset.into()))
    }
}

impl AsyncWrite for Outlet {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Err(error) = ready!(self.0.poll_reserve(cx)) {
            let _: tokio_util::sync::PollSendError<Item> = error;
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let bytes = Bytes::copy_from_slice(buf);
        ready!(self.poll_send(cx, Some(bytes)))?;
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(cx, None)
    }
}

/// The end for reading.
pub(super) struct Inlet(mpsc::Receiver<Item>);

impl Body for Inlet {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(match ready!(self.0.poll_recv(cx)) {
            Some(Some(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(None) => None,
            None => Some(Err(io::Error::new(
                io::ErrorKind::ConnectionReset,
                "the tunnel broke off",
            ))),
        })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use http_body_util::BodyExt;
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn an_end_is_orderly_only_if_it_was_shut_down() {
        for orderly in [true, false] {
            let (mut outlet, gone, mut inlet) = open();
            tokio::spawn(async move {
                outlet.write_all(b"some").await.unwrap();
                outlet.write_all(b"more").await.unwrap();
                if orderly {
                    outlet.shutdown().await.unwrap();
                }
                drop(gone);
            });
            for want in ["some", "more"] {
                let frame = inlet.frame().await.unwrap().unwrap();
                assert_eq!(frame.into_data().unwrap(), want);
            }
            let end = inlet.frame().await;
            assert_eq!(end.is_none(), orderly, "{end:?}");
        }
    }

    #[tokio::test]
    async fn a_reader_that_goes_is_noticed() {
        let (mut outlet, gone, inlet) = open();
        let mut gone = Box::pin(gone);
        assert!(gone.as_mut().now_or_never().is_none());
        drop(inlet);
        gone.await;
        let error = outlet.write_all(b"more").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
}
