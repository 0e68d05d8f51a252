//! A connection that is still read after writing has failed.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection whose failed writes do not end reading.
///
/// A server may answer a request before it has taken the whole of it, and close. Later writes then
/// fail, while the response waits to be read (RFC 9112 §9.5). Such writes stand still, and fail
/// only once there is nothing left to read.
pub(super) struct ReadOn<T> {
    io: T,
    writing: Writing,
}

enum Writing {
    Open,
    /// Writing has failed; the waker is woken at the end of reading.
    Failed(Option<Waker>),
    Closed,
}

impl<T> ReadOn<T> {
    pub(super) const fn new(io: T) -> Self {
        Self {
            io,
            writing: Writing::Open,
        }
    }

    /// The connection itself.
    pub(super) const fn get_ref(&self) -> &T {
        &self.io
    }

    fn poll_writing<R>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut T>, &mut Context<'_>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>>
    where
        T: Unpin,
    {
        match self.writing {
            Writing::Open => {
                let written = ready!(write(Pin::new(&mut self.io), cx));
                if written.is_ok() {
                    return Poll::Ready(written);
                }
            }
            Writing::Failed(_) => {}
            Writing::Closed => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
        self.writing = Writing::Failed(Some(cx.waker().clone()));
        Poll::Pending
    }

    fn reading_ends(&mut self) {
        if let Writing::Failed(waker) = &mut self.writing {
            if let Some(waker) = waker.take() {
                waker.wake();
            }
            self.writing = Writing::Closed;
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for ReadOn<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.io).poll_read(cx, buf));
        if read.is_err() || buf.filled().len() == before {
            self.reading_ends();
        }
        Poll::Ready(read)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for ReadOn<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_writing(cx, |io, cx| io.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_writing(cx, |io, cx| io.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_writing(cx, T::poll_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.writing {
            Writing::Open => Pin::new(&mut self.io).poll_shutdown(cx),
            Writing::Failed(_) | Writing::Closed => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A connection that takes nothing and has something to read.
    struct Answered(&'static [u8]);

    impl AsyncRead for Answered {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            buf.put_slice(std::mem::take(&mut self.0));
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Answered {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn writes_fail_only_once_all_has_been_read() {
        let (mut read, mut write) = tokio::io::split(ReadOn::new(Answered(b"answer")));
        let writing = tokio::spawn(async move { write.write_all(b"request").await });
        tokio::task::yield_now().await;
        assert!(!writing.is_finished());
        let mut got = String::new();
        read.read_to_string(&mut got).await.unwrap();
        assert_eq!(got, "answer");
        let failed = writing.await.unwrap().unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::BrokenPipe);
    }
}
