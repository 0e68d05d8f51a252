//! Sending a request.

use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use hikyaku_h1::request::{Encoder, LengthMismatch};
use http::HeaderMap;
use http_body::Body as _;
use tokio::io::AsyncWrite;
use tokio_util::io::poll_write_buf;

use super::super::error::ExchangeError;
use super::super::upload::Upload;
use super::Http1Error;

/// A request that is being sent.
pub(super) struct Sending {
    /// Kept until all of it is written, since its drop ends the upload.
    upload: Option<Upload>,
    encoder: Encoder,
    is_ended: bool,
    /// The head or a chunk's size, content, and the end of the chunk.
    output: Chain<Chain<Bytes, Bytes>, Bytes>,
    /// Whether some of it was written.
    pub(super) has_begun: bool,
}

impl Sending {
    pub(super) fn new(head: Bytes, encoder: Encoder, upload: Option<Upload>) -> Self {
        Self {
            upload,
            encoder,
            is_ended: false,
            output: head.chain(Bytes::new()).chain(Bytes::new()),
            has_begun: false,
        }
    }

    /// Sends the request as fast as the upstream takes it and the client sends it.
    ///
    /// # Errors
    /// If the content fails, or cannot be written.
    pub(super) fn poll<T: AsyncWrite + Unpin>(
        &mut self,
        io: &mut T,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), ExchangeError>> {
        loop {
            let filled = self.poll_fill(cx)?;
            if !self.output.has_remaining() {
                ready!(Pin::new(&mut *io).poll_flush(cx)).map_err(Http1Error::Io)?;
                ready!(filled);
                self.upload = None;
                return Poll::Ready(Ok(()));
            }
            let written = ready!(poll_write(io, &mut self.output, cx));
            if written.map_err(Http1Error::Io)? == 0 {
                let error = io::Error::from(io::ErrorKind::WriteZero);
                return Poll::Ready(Err(Http1Error::Io(error).into()));
            }
            self.has_begun = true;
        }
    }

    /// Adds content to the output, unless that has some. Pending while the client sends none.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ExchangeError>> {
        while !self.is_ended && !self.has_content() {
            let Some(upload) = &mut self.upload else {
                self.end(None).map_err(Http1Error::Length)?;
                break;
            };
            match ready!(Pin::new(&mut *upload).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        let is_end = upload.is_end_stream();
                        self.add(data).map_err(Http1Error::Length)?;
                        if is_end {
                            self.end(None).map_err(Http1Error::Length)?;
                        }
                    }
                    Err(frame) => {
                        let trailers = frame.into_trailers().ok();
                        self.end(trailers.as_ref()).map_err(Http1Error::Length)?;
                    }
                },
                Some(Err(error)) => return Poll::Ready(Err(ExchangeError::Content(error))),
                None => self.end(None).map_err(Http1Error::Length)?,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn has_content(&self) -> bool {
        self.output.last_ref().has_remaining() || self.output.first_ref().last_ref().has_remaining()
    }

    fn add(&mut self, data: Bytes) -> Result<(), LengthMismatch> {
        let around = self.encoder.data(data.len())?;
        let first = self.output.first_mut();
        let head = mem::take(first.first_mut());
        *first.first_mut() = join(head, around.before);
        *first.last_mut() = data;
        *self.output.last_mut() = around.after;
        Ok(())
    }

    fn end(&mut self, trailers: Option<&HeaderMap>) -> Result<(), LengthMismatch> {
        let end = self.encoder.end(trailers)?;
        let after = mem::take(self.output.last_mut());
        *self.output.last_mut() = join(after, end);
        self.is_ended = true;
        Ok(())
    }
}

fn join(bytes: Bytes, more: Vec<u8>) -> Bytes {
    match (bytes.is_empty(), more.is_empty()) {
        (_, true) => bytes,
        (true, _) => more.into(),
        _ => [&bytes[..], &more[..]].concat().into(),
    }
}

/// Writes in one call, and gathers only where there is something to gather.
fn poll_write<T: AsyncWrite + Unpin>(
    io: &mut T,
    output: &mut impl Buf,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    if output.chunk().len() < output.remaining() {
        return poll_write_buf(Pin::new(io), cx, output);
    }
    let written = ready!(Pin::new(io).poll_write(cx, output.chunk()))?;
    output.advance(written);
    Poll::Ready(Ok(written))
}
