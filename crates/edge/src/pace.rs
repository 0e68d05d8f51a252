//! Responses at no more than `policy.max_pacing_rate`, where the kernel does not pace a connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hikyaku_units::Rate;
use http::Response;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Sleep;

use hikyaku_content::{Body, BoxError};

use crate::clock;

/// The time of one content piece, which is as much as may leave at once.
const PIECE_TIME: Duration = Duration::from_millis(20);
/// Bounds of a piece, in bytes: a packet, and a piece of which a stream's buffer holds many.
const PIECE: (u64, u64) = (1200, 16 * 1024);
/// Being late by less than this is made up for: timers have ticks of a millisecond, and threads
/// others to serve.
const LATENESS: Duration = Duration::from_millis(20);

/// Gives out the times at which a connection's responses may send.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    /// When what was given out will have been sent.
    free: Mutex<Option<Instant>>,
}

impl Pacer {
    /// When `bytes` may be sent that are there at `now`.
    fn reserve(&self, now: Instant, bytes: u64, rate: Rate) -> Instant {
        let mut free = self.free.lock();
        let earliest = now.checked_sub(LATENESS).unwrap_or(now);
        let start = free.map_or(now, |free| free.max(earliest));
        let nanos = u128::from(bytes) * 8_000_000_000 / u128::from(rate.bits_per_sec().max(1));
        let time = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        *free = Some(start + time);
        start
    }
}

/// Holds a response to `rate`, shared with all others that have the same `pacer`.
pub(crate) fn paced(response: Response<Body>, pacer: Arc<Pacer>, rate: Rate) -> Response<Body> {
    response.map(|body| match http_body::Body::is_end_stream(&body) {
        true => body,
        false => Body::boxed(Paced {
            body,
            pacer,
            rate,
            content: Bytes::new(),
            wait: None,
        }),
    })
}

struct Paced {
    body: Body,
    pacer: Arc<Pacer>,
    rate: Rate,
    /// What was taken from the body, and is not sent yet.
    content: Bytes,
    /// For the next piece of it.
    wait: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    fn piece(&self) -> usize {
        let (least, most) = PIECE;
        let bytes = self.rate.bdp_bytes(PIECE_TIME).clamp(least, most);
        self.content.len().min(bytes as usize)
    }
}

impl http_body::Body for Paced {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        while self.content.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(content) => self.content = content,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                last => return Poll::Ready(last),
            }
        }
        let bytes = self.piece();
        if self.wait.is_none() {
            let at = self.pacer.reserve(clock::now(), bytes as u64, self.rate);
            self.wait = Some(Box::pin(tokio::time::sleep_until(at.into())));
        }
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(cx));
        }
        self.wait = None;
        Poll::Ready(Some(Ok(Frame::data(self.content.split_to(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.content.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, waiting) = (self.body.size_hint(), self.content.len() as u64);
        let mut all = SizeHint::new();
        all.set_lower(rest.lower() + waiting);
        if let Some(upper) = rest.upper() {
            all.set_upper(upper + waiting);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[test]
    fn times_are_given_out_at_the_rate() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let rate = Rate::from_mbps(8);
        // name, asked at ms, bytes, sent at ms
        let cases = [
            ("the first at once", 0, 10_000, 0),
            ("the second after it", 0, 10_000, 10),
            ("one that comes later", 5, 30_000, 20),
            ("a little late is made up for", 60, 10_000, 50),
            ("idle time is not", 200, 10_000, 180),
        ];
        let pacer = Pacer::default();
        for (name, asked, bytes, want) in cases {
            assert_eq!(pacer.reserve(at(asked), bytes, rate), at(want), "{name}");
        }
    }

    #[tokio::test]
    async fn content_passes_whole_and_in_pieces() {
        let content: Bytes = (0..100_000_u32).map(|i| i as u8).collect::<Vec<_>>().into();
        let rate = Rate::from_mbps(5);
        let response = paced(Response::new(content.clone().into()), Arc::default(), rate);
        let mut body = response.into_body();
        assert_eq!(http_body::Body::size_hint(&body).exact(), Some(100_000));
        let mut got = Vec::new();
        while let Some(frame) = body.frame().await {
            let piece = frame.unwrap().into_data().unwrap();
            assert!(piece.len() <= 12_500, "20 ms at 5 Mbit/s: {}", piece.len());
            got.extend_from_slice(&piece);
        }
        assert_eq!(got, content);
    }
}
