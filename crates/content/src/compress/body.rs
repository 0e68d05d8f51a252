//! A response's body while it is coded.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as _, Frame};
use tokio::task::coop;

use super::budget::{self, Lease};
use super::encoder::{Encoder, Settings};
use crate::{Body, BoxError};

/// Most bytes that the encoder takes in a turn: a millisecond's work or less.
///
/// br codes blocks of 64 KiB, and at the end of a metablock up to twice its window. That is a few
/// milliseconds.
const SLICE: usize = 16 << 10;

/// Codes a body as it is asked for.
///
/// When the inner body has nothing ready, all of its bytes so far are flushed: a client never waits
/// for bytes that have arrived.
pub(super) struct Coded {
    inner: Body,
    settings: Settings,
    /// `None` before the first byte, and after the last.
    encoder: Option<Encoder>,
    /// `None` once the coded content is complete or has failed.
    lease: Option<Lease>,
    /// Content that the encoder has not taken.
    waiting: Bytes,
    /// Whether the encoder has content that the client can't decode yet.
    holds: bool,
    trailers: Option<HeaderMap>,
}

type Polled = Poll<Option<Result<Frame<Bytes>, BoxError>>>;

impl Coded {
    pub(super) const fn new(inner: Body, settings: Settings, lease: Lease) -> Self {
        Self {
            inner,
            settings,
            encoder: None,
            lease: Some(lease),
            waiting: Bytes::new(),
            holds: false,
            trailers: None,
        }
    }

    /// Takes the encoder, which is made for the first byte: a response that nobody reads needs none.
    fn take_encoder(&mut self) -> io::Result<Encoder> {
        match self.encoder.take() {
            Some(encoder) => Ok(encoder),
            None => {
                let rest = self.inner.size_hint().exact();
                let length = rest.map(|rest| rest + self.waiting.len() as u64);
                Encoder::new(self.settings, length)
            }
        }
    }

    /// Codes a slice of the waiting bytes.
    fn encode(&mut self) -> io::Result<Bytes> {
        let encoder = self.take_encoder()?;
        let slice = self.waiting.split_to(self.waiting.len().min(SLICE));
        let coded = self.encoder.insert(encoder).write(&slice)?;
        self.holds = true;
        budget::count(self.settings.coding, slice.len(), coded.len());
        Ok(coded.into())
    }

    fn flush(&mut self) -> io::Result<Bytes> {
        let encoder = self.take_encoder()?;
        let coded = self.encoder.insert(encoder).flush()?;
        self.holds = false;
        budget::count(self.settings.coding, 0, coded.len());
        Ok(coded.into())
    }

    /// Returns the last bytes, and gives the encoder up.
    fn finish(&mut self) -> io::Result<Bytes> {
        let coded = self.take_encoder()?.finish()?;
        self.lease = None;
        budget::count(self.settings.coding, 0, coded.len());
        Ok(coded.into())
    }

    /// Sends what the encoder holds while the inner body has nothing.
    fn poll_pause(&mut self, cx: &Context<'_>) -> Polled {
        if !self.holds {
            return Poll::Pending;
        }
        if !coop::has_budget_remaining() {
            // Perhaps this turn is over, and not the content.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let coded = self.flush()?;
        match coded.is_empty() {
            true => Poll::Pending,
            false => Poll::Ready(Some(Ok(Frame::data(coded)))),
        }
    }

    fn poll_coded(&mut self, cx: &mut Context<'_>) -> Polled {
        let mut has_worked = false;
        loop {
            if !self.waiting.is_empty() {
                if has_worked {
                    // Others go on before the encoder does.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                let turn = ready!(coop::poll_proceed(cx));
                turn.made_progress();
                let coded = self.encode()?;
                has_worked = true;
                if !coded.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(coded))));
                }
                continue;
            }
            if self.lease.is_none() {
                return Poll::Ready(self.trailers.take().map(Frame::trailers).map(Ok));
            }
            let frame = match Pin::new(&mut self.inner).poll_frame(cx) {
                Poll::Pending => return self.poll_pause(cx),
                Poll::Ready(frame) => frame.transpose()?,
            };
            match frame.map(Frame::into_data) {
                Some(Ok(data)) => self.waiting = data,
                end => {
                    let trailers = end.and_then(Result::err);
                    self.trailers = trailers.and_then(fit);
                    return Poll::Ready(Some(Ok(Frame::data(self.finish()?))));
                }
            }
        }
    }

    /// Ends the body after an error.
    fn give_up(&mut self) {
        (self.encoder, self.lease, self.trailers) = (None, None, None);
        self.waiting = Bytes::new();
    }
}

impl http_body::Body for Coded {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        let polled = self.poll_coded(cx);
        if matches!(polled, Poll::Ready(Some(Err(_)))) {
            self.give_up();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.lease.is_none() && self.waiting.is_empty() && self.trailers.is_none()
    }
}

/// Trailers without digests of the content as it was.
fn fit(frame: Frame<Bytes>) -> Option<HeaderMap> {
    let mut trailers = frame.into_trailers().ok()?;
    for name in &super::DIGESTS {
        trailers.remove(name);
    }
    (!trailers.is_empty()).then_some(trailers)
}

#[cfg(test)]
mod tests;
