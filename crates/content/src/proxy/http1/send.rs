//! Sending a request.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

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
    output: Output,
    /// Bytes of content with which a write was put off. The client may have sent more, which its
    /// connection hands on a piece at a turn.
    deferred: usize,
    /// Whether some of it was written.
    pub(super) has_begun: bool,
}

impl Sending {
    pub(super) fn new(head: Bytes, encoder: Encoder, upload: Option<Upload>) -> Self {
        Self {
            upload,
            encoder,
            is_ended: false,
            output: Output {
                head,
                ..Output::default()
            },
            deferred: 0,
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
            if filled.is_pending() && self.output.content > self.deferred {
                self.deferred = self.output.content;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
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
            self.deferred = self.output.content;
        }
    }

    /// Adds content to the output, unless that has enough. Pending while the client sends none.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ExchangeError>> {
        while !self.is_ended && self.output.content < BATCH {
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

    fn add(&mut self, data: Bytes) -> Result<(), LengthMismatch> {
        let around = self.encoder.data(data.len())?;
        for bytes in [around.before.into(), data, around.after] {
            self.output.push(bytes);
        }
        Ok(())
    }

    fn end(&mut self, trailers: Option<&HeaderMap>) -> Result<(), LengthMismatch> {
        self.output.push(self.encoder.end(trailers)?.into());
        self.is_ended = true;
        Ok(())
    }
}

/// Bytes that wait to be written.
#[derive(Default)]
struct Output {
    head: Bytes,
    /// Chunks' sizes, content, and the ends of chunks. None is empty.
    pieces: VecDeque<Bytes>,
    /// Bytes of all pieces.
    content: usize,
}

impl Output {
    fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.content += bytes.len();
            self.pieces.push_back(bytes);
        }
    }
}

impl Buf for Output {
    fn remaining(&self) -> usize {
        self.head.len() + self.content
    }

    fn chunk(&self) -> &[u8] {
        match self.pieces.front() {
            Some(piece) if self.head.is_empty() => piece,
            _ => &self.head,
        }
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let head = Some(&self.head).filter(|head| !head.is_empty());
        let pieces = head.into_iter().chain(&self.pieces);
        let filled = slices.iter_mut().zip(pieces);
        filled
            .map(|(slice, piece)| *slice = IoSlice::new(piece))
            .count()
    }

    fn advance(&mut self, length: usize) {
        let of_head = length.min(self.head.len());
        self.head.advance(of_head);
        let mut left = length - of_head;
        self.content -= left;
        while left > 0
            && let Some(piece) = self.pieces.front_mut()
        {
            let of_piece = left.min(piece.len());
            piece.advance(of_piece);
            left -= of_piece;
            if piece.is_empty() {
                self.pieces.pop_front();
            }
        }
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

/// Bytes of content that are gathered for one write.
const BATCH: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_written_in_order_whatever_is_taken_at_once() {
        for taken in [1, 3, 5, 7, 100] {
            let mut output = Output {
                head: Bytes::from_static(b"head"),
                ..Output::default()
            };
            for piece in ["5\r\n", "hello", "", "\r\n"] {
                output.push(piece.into());
            }
            let mut got = Vec::new();
            while output.has_remaining() {
                let mut slices = [IoSlice::new(&[]); 3];
                let filled = output.chunks_vectored(&mut slices);
                let all = slices[..filled].iter().flat_map(|slice| slice.to_vec());
                let now: Vec<u8> = all.take(taken).collect();
                assert!(now.starts_with(&output.chunk()[..output.chunk().len().min(taken)]));
                output.advance(now.len());
                got.extend(now);
            }
            assert_eq!(got, b"head5\r\nhello\r\n", "{taken}");
            assert_eq!(output.content, 0, "{taken}");
        }
    }
}
