//! Request bodies, bounded in size and time.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep};

use crate::sections::Timeouts;
use crate::uploads::UploadWindow;
use hikyaku_content::{BoxError, RequestBody};
use hikyaku_units::ByteSize;

type Refusal = (StatusCode, &'static str);

const TOO_LARGE: Refusal = (
    StatusCode::PAYLOAD_TOO_LARGE,
    "the request's body is larger than may be here (limits.body_size, or body_size of the route)",
);
const TOO_SLOW: Refusal = (
    StatusCode::REQUEST_TIMEOUT,
    "no byte of the request's body came for timeouts.body",
);

/// How reading a body went, for the response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome(Option<Arc<AtomicU8>>);

impl Outcome {
    /// The status to answer with instead, if the body was refused while it was read.
    pub(crate) fn failure(&self) -> Option<Refusal> {
        match self.0.as_ref()?.load(Ordering::Relaxed) {
            1 => Some(TOO_LARGE),
            2 => Some(TOO_SLOW),
            _ => None,
        }
    }
}

/// A request's body that ends with an error when it grows too large or comes too slowly.
///
/// Its unread rest is discarded once it is dropped. A client that sends first and reads then would else
/// lose an early answer to a reset.
pub(crate) struct LimitedBody {
    inner: RequestBody,
    left: u64,
    /// `None` for a tunnel, which may stand still.
    patience: Option<Duration>,
    timer: Option<Pin<Box<Sleep>>>,
    outcome: Arc<AtomicU8>,
    uploads: Arc<UploadWindow>,
    rest: Rest,
    /// State that `rest` gets once something was read.
    read_on: Rest,
}

/// The treatment of a body that nobody reads any more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Nothing: it is over, a tunnel's, or the client waits to be asked for it (RFC 9110 §10.1.1).
    Nothing,
    /// It is read and discarded for so long.
    Discard(Duration),
}

impl LimitedBody {
    /// Bounds the body of a request, or refuses it for the size that it announces. `body_size` is asked only
    /// where there is one.
    pub(crate) fn limit(
        request: Request<RequestBody>,
        uploads: &Arc<UploadWindow>,
        body_size: impl FnOnce(&Request<RequestBody>) -> ByteSize,
        timeouts: &Timeouts,
    ) -> (Result<Request<RequestBody>, Refusal>, Outcome) {
        if request.body().is_end_stream() {
            return (Ok(request), Outcome::default());
        }
        let discard = Rest::Discard(timeouts.linger);
        let (max, patience, read_on) = match *request.method() {
            // The bytes of a tunnel are no content (RFC 9110 §9.3.6).
            Method::CONNECT => (u64::MAX, None, Rest::Nothing),
            _ => (body_size(&request).bytes(), Some(timeouts.body), discard),
        };
        let too_large = request.body().size_hint().lower() > max;
        let outcome = Arc::new(AtomicU8::new(0));
        let awaits_continue = request.headers().contains_key(header::EXPECT);
        let request = request.map(|inner| {
            RequestBody::new(Self {
                inner,
                left: max,
                patience,
                timer: None,
                outcome: Arc::clone(&outcome),
                uploads: Arc::clone(uploads),
                rest: match awaits_continue {
                    true => Rest::Nothing,
                    false => read_on,
                },
                read_on,
            })
        });
        if too_large {
            return (Err(TOO_LARGE), Outcome::default());
        }
        (Ok(request), Outcome(Some(outcome)))
    }

    fn refuse(&self, code: u8, (_, reason): Refusal) -> BoxError {
        self.outcome.store(code, Ordering::Relaxed);
        reason.into()
    }

    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(patience) = self.patience else {
            return Poll::Pending;
        };
        self.timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)))
            .as_mut()
            .poll(cx)
    }

    /// Counts a frame against the limit.
    fn count(&mut self, frame: &Frame<Bytes>) -> Result<(), BoxError> {
        let length = length(frame);
        self.uploads.on_read(length);
        self.left = match self.left.checked_sub(length) {
            Some(left) => left,
            None => return Err(self.refuse(1, TOO_LARGE)),
        };
        Ok(())
    }
}

impl Body for LimitedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        // Whoever reads has the client send.
        self.rest = self.read_on;
        let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) else {
            ready!(self.poll_patience(cx));
            // It only gets time to read the answer.
            if let Rest::Discard(time) = self.read_on {
                self.rest = Rest::Discard(time.min(BRIEFLY));
            }
            return Poll::Ready(Some(Err(self.refuse(2, TOO_SLOW))));
        };
        let patience = self.patience;
        if let Some((timer, patience)) = self.timer.as_mut().zip(patience) {
            timer.as_mut().reset(Instant::now() + patience);
        }
        match &frame {
            Some(Ok(frame)) => self.count(frame)?,
            _ => self.rest = Rest::Nothing,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for LimitedBody {
    fn drop(&mut self) {
        if let Rest::Discard(time) = self.rest
            && !self.inner.is_end_stream()
            && let Ok(runtime) = Handle::try_current()
        {
            let body = std::mem::take(&mut self.inner);
            runtime.spawn(discard(body, time, Arc::clone(&self.uploads)));
        }
    }
}

/// Reads a body for `time` at most.
async fn discard(mut body: RequestBody, time: Duration, uploads: Arc<UploadWindow>) {
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            uploads.on_read(length(&frame));
        }
    };
    let _ = tokio::time::timeout(time, reading).await;
}

fn length(frame: &Frame<Bytes>) -> u64 {
    frame.data_ref().map_or(0, |data| data.len() as u64)
}

/// How long a client that sends nothing is given to read an early answer.
const BRIEFLY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{StreamExt, stream};
    use http_body_util::StreamBody;
    use tokio::sync::mpsc;

    use super::*;
    use crate::sections::Limits;
    use crate::uploads::UploadMemory;

    /// A request whose body has 100 frames of 1000 bytes, each of which is noted when it is
    /// read. `headers` are set.
    fn request(headers: &[(&'static str, &str)]) -> (Request<RequestBody>, mpsc::Receiver<usize>) {
        let (send, receive) = mpsc::channel(200);
        let frames = stream::iter(0..100).map(move |count| {
            send.try_send(count).unwrap();
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[7; 1000])))
        });
        let body = RequestBody::new(StreamBody::new(frames).map_err(Into::into));
        let mut request = Request::post("https://a.example/").body(body).unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        (request, receive)
    }

    #[tokio::test]
    async fn unread_bodies_are_discarded_within_bounds() {
        // name, headers, frames that the content reads, limit, frames read in all
        type Headers = &'static [(&'static str, &'static str)];
        let cases: &[(&str, Headers, usize, u64, usize)] = &[
            ("never read", &[], 0, 1 << 20, 100),
            ("read in part", &[], 3, 1 << 20, 100),
            ("read whole", &[], 100, 1 << 20, 100),
            ("larger than the limit", &[], 100, 10_000, 100),
            ("asks first", &[("expect", "100-continue")], 0, 1 << 20, 0),
            ("asked", &[("expect", "100-continue")], 1, 1 << 20, 100),
        ];
        for &(name, headers, frames, limit, want) in cases {
            let (request, mut noted) = request(headers);
            let held = Limits::default().upload_memory;
            let memory = [(); 2].map(|()| Arc::new(UploadMemory::new(held)));
            let uploads = Arc::new(UploadWindow::new(memory, 0));
            let size = |_: &_| ByteSize::from_bytes(limit);
            let (limited, _) = LimitedBody::limit(request, &uploads, size, &Timeouts::default());
            let mut body = limited.unwrap().into_body();
            for _ in 0..frames {
                if body.frame().await.unwrap().is_err() {
                    break;
                }
            }
            drop(body);
            let mut count = 0;
            while noted.recv().await.is_some() {
                count += 1;
            }
            assert_eq!(count, want, "{name}");
        }
    }
}
