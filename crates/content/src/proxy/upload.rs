//! A request's body on its way to the upstream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hikyaku_units::arm::Version;
use http::Method;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Empty};
use parking_lot::Mutex;

use super::activity::Activity;
use super::trailers;
use crate::{BoxError, RequestBody};

/// A body, which can be sent again over another connection.
pub(super) struct Upload {
    source: Arc<Mutex<Source>>,
    /// The number of the attempt.
    attempt: u32,
    /// The number of kept frames that were sent.
    next: usize,
    activity: Arc<Activity>,
}

/// A body for further attempts. While it exists, sent frames are kept.
pub(super) struct Replay {
    source: Arc<Mutex<Source>>,
    activity: Arc<Activity>,
}

struct Source {
    body: RequestBody,
    /// The frames that were sent, kept for further attempts.
    kept: Vec<Bytes>,
    kept_bytes: usize,
    /// Whether `kept` holds all that was sent.
    is_whole: bool,
    /// The attempt that goes on; former ones are over.
    attempt: u32,
}

impl Upload {
    pub(super) fn new(body: RequestBody, activity: Arc<Activity>) -> Self {
        let source = Source {
            body,
            kept: Vec::new(),
            kept_bytes: 0,
            is_whole: true,
            attempt: 0,
        };
        activity.upload_begins();
        Self {
            source: Arc::new(Mutex::new(source)),
            attempt: 0,
            next: 0,
            activity,
        }
    }

    /// Returns the same body for further attempts.
    pub(super) fn replay(&self) -> Replay {
        Replay {
            source: Arc::clone(&self.source),
            activity: Arc::clone(&self.activity),
        }
    }

    fn poll_source(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let has_replay = Arc::strong_count(&self.source) > 1;
        let mut source = self.source.lock();
        if source.attempt != self.attempt {
            return Poll::Ready(Some(Err("it is sent over another connection".into())));
        }
        if let Some(data) = source.kept.get(self.next) {
            self.next += 1;
            return Poll::Ready(Some(Ok(Frame::data(data.clone()))));
        }
        let frame = ready!(Pin::new(&mut source.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            source.keep(frame, has_replay);
        }
        self.next = source.kept.len();
        Poll::Ready(frame)
    }
}

impl Replay {
    /// Ends the former attempt, and begins another. `None` if too much was sent to send it again.
    pub(super) fn restart(&self) -> Option<Upload> {
        let mut source = self.source.lock();
        if !source.is_whole {
            return None;
        }
        source.attempt += 1;
        self.activity.upload_begins();
        Some(Upload {
            source: Arc::clone(&self.source),
            attempt: source.attempt,
            next: 0,
            activity: Arc::clone(&self.activity),
        })
    }
}

impl Source {
    fn keep(&mut self, frame: &Frame<Bytes>, wanted: bool) {
        let data = frame.data_ref();
        self.kept_bytes += data.map_or(0, Bytes::len);
        // Trailers are rare, and a body with trailers is seldom small.
        self.is_whole &= wanted && data.is_some() && self.kept_bytes <= MAX_KEPT;
        match data {
            Some(data) if self.is_whole => self.kept.push(data.clone()),
            _ => self.kept = Vec::new(),
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = self.poll_source(cx);
        self.activity.waits_for_client(frame.is_pending());
        if frame.is_ready() {
            self.activity.touch();
        }
        frame.map(trailers::without_forbidden)
    }

    fn is_end_stream(&self) -> bool {
        let source = self.source.lock();
        self.next >= source.kept.len() && source.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let source = self.source.lock();
        let kept = source.kept.iter().skip(self.next);
        let again: usize = kept.map(Bytes::len).sum();
        match source.body.size_hint().exact() {
            Some(rest) => SizeHint::with_exact(rest + again as u64),
            None => SizeHint::default(),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.activity.upload_ends();
    }
}

/// Waits for the first frame of a body that may turn out to be empty, so that a request without
/// content is sent without.
///
/// HTTP/2 and 3 announce neither length nor coding (RFC 9113 §8.1, RFC 9114 §4.1). HTTP/1.1 does by
/// its fields. Methods that are defined by their content have some.
pub(super) async fn settle(
    body: RequestBody,
    method: &Method,
    version: Version,
) -> Result<RequestBody, BoxError> {
    let has_content = matches!(*method, Method::POST | Method::PUT | Method::PATCH);
    let is_announced = version == Version::H1 || body.size_hint().exact().is_some();
    if has_content || is_announced || body.is_end_stream() {
        return Ok(body);
    }
    let mut body = body;
    match body.frame().await.transpose()? {
        Some(first) => Ok(RequestBody::new(Settled {
            first: Some(first),
            rest: body,
        })),
        None => Ok(RequestBody::new(
            Empty::new().map_err(|never| match never {}),
        )),
    }
}

/// A body whose first frame has been read.
struct Settled {
    first: Option<Frame<Bytes>>,
    rest: RequestBody,
}

impl Body for Settled {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(first))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_end_stream()
    }
}

/// Bytes of a body that are kept for further attempts.
const MAX_KEPT: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::StreamBody;

    fn body(chunks: &'static [&'static str]) -> RequestBody {
        let frames = chunks
            .iter()
            .map(|chunk| Ok(Frame::data(Bytes::from(*chunk))));
        RequestBody::new(StreamBody::new(futures_util::stream::iter(frames)))
    }

    async fn text(body: impl Body<Data = Bytes, Error = BoxError>) -> Result<String, BoxError> {
        let mut body = std::pin::pin!(body);
        let mut text = String::new();
        while let Some(frame) = body.frame().await {
            text += std::str::from_utf8(&frame?.into_data().unwrap_or_default())?;
        }
        Ok(text)
    }

    #[tokio::test]
    async fn each_attempt_repeats_the_former_ones() {
        for sent in 0..=3 {
            let mut first = Upload::new(body(&["a", "bc", "d"]), Activity::new());
            let replay = first.replay();
            for _ in 0..sent {
                first.frame().await.unwrap().unwrap();
            }
            let mut second = replay.restart().unwrap();
            assert!(text(first).await.is_err(), "{sent}: the first goes on");
            // One more frame than the first has sent.
            for _ in 0..3.min(sent + 1) {
                second.frame().await.unwrap().unwrap();
            }
            let third = replay.restart().unwrap();
            assert!(text(second).await.is_err(), "{sent}: the second goes on");
            assert_eq!(text(third).await.unwrap(), "abcd", "{sent}");
        }
    }

    #[tokio::test]
    async fn a_body_is_sent_again_only_as_long_as_it_is_kept_whole() {
        let large = || {
            let chunk = Bytes::from(vec![0; MAX_KEPT / 2 + 1]);
            let frames = [chunk.clone(), chunk].map(|chunk| Ok(Frame::data(chunk)));
            RequestBody::new(StreamBody::new(futures_util::stream::iter(frames)))
        };
        let mut first = Upload::new(large(), Activity::new());
        let replay = first.replay();
        first.frame().await.unwrap().unwrap();
        let mut second = replay.restart().unwrap();
        second.frame().await.unwrap().unwrap();
        second.frame().await.unwrap().unwrap();
        assert!(replay.restart().is_none(), "more than is kept");
        assert_eq!(replay.source.lock().kept.len(), 0, "and nothing is held");
        assert!(second.frame().await.is_none(), "the second goes on");

        let mut alone = Upload::new(body(&["a"]), Activity::new());
        alone.frame().await.unwrap().unwrap();
        assert_eq!(alone.source.lock().kept.len(), 0, "nothing for nobody");
    }

    #[tokio::test]
    async fn a_body_of_no_frames_is_none() {
        let cases: &[(&str, Version, &[&str], bool)] = &[
            ("DELETE", Version::H3, &[], true),
            ("GET", Version::H2, &["a"], false),
            ("POST", Version::H3, &[], false),
            ("GET", Version::H1, &[], false),
        ];
        for (method, version, chunks, none) in cases {
            let method: Method = method.parse().unwrap();
            let settled = settle(body(chunks), &method, *version).await.unwrap();
            assert_eq!(settled.is_end_stream(), *none, "{method} {version:?}");
            assert_eq!(text(settled).await.unwrap(), chunks.concat(), "{method}");
        }
    }
}
