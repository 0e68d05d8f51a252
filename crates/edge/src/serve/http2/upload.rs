//! Content of requests, between the task of a connection and who reads it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use hikyaku_h2::error::Code;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;

use super::inbox::{Inbox, Note};
use hikyaku_content::BoxError;

/// Bytes up to which frames that follow each other are kept as one.
const CHUNK: usize = 16 * 1024;

/// Content of a request that has arrived and was not read.
#[derive(Debug, Default)]
pub(super) struct Upload(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    chunks: VecDeque<BytesMut>,
    trailers: Option<HeaderMap>,
    end: Option<End>,
    reader: Option<Waker>,
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// All of it has arrived.
    Complete,
    /// The stream was reset.
    Reset(Code),
    /// The connection is over.
    Closed,
}

impl Upload {
    /// Hands on content, and the end if there is one.
    pub(super) fn push(&self, data: &[u8], end: Option<End>) {
        self.change(|state| {
            state.keep(data);
            state.end = state.end.or(end);
        });
    }

    /// Ends the request, if it has not ended.
    pub(super) fn end(&self, end: End) {
        self.push(&[], Some(end));
    }

    /// Ends the request with trailers.
    pub(super) fn trailers(&self, trailers: HeaderMap) {
        self.change(|state| {
            state.trailers = Some(trailers);
            state.end = state.end.or(Some(End::Complete));
        });
    }

    /// Whether the request has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.0.lock().end.is_some()
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let reader = {
            let mut state = self.0.lock();
            change(&mut state);
            state.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

/// The content of a request, as its reader sees it. Reading it makes room in the windows.
#[derive(Debug)]
pub(super) struct UploadBody {
    upload: Arc<Upload>,
    inbox: Arc<Inbox>,
    stream: u32,
    /// Bytes to come, if the request announced a length.
    left: Option<u64>,
}

impl UploadBody {
    pub(super) const fn new(
        upload: Arc<Upload>,
        inbox: Arc<Inbox>,
        stream: u32,
        length: Option<u64>,
    ) -> Self {
        Self {
            upload,
            inbox,
            stream,
            left: length,
        }
    }

    fn on_read(&mut self, bytes: usize) {
        self.left = self.left.map(|left| left.saturating_sub(bytes as u64));
        self.inbox.put(Note::Read {
            stream: self.stream,
            bytes,
        });
    }
}

impl Body for UploadBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let chunk = {
            let mut state = self.upload.0.lock();
            let Some(chunk) = state.chunks.pop_front() else {
                return state.poll_end(cx);
            };
            chunk.freeze()
        };
        self.on_read(chunk.len());
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        let state = self.upload.0.lock();
        let is_read = state.chunks.is_empty() && state.trailers.is_none();
        is_read && state.end == Some(End::Complete)
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl State {
    /// Keeps content. Frames may have a byte each, which must not take a chunk each.
    fn keep(&mut self, data: &[u8]) {
        match self.chunks.back_mut() {
            Some(last) if last.len() + data.len() <= CHUNK => last.extend_from_slice(data),
            _ if data.is_empty() => {}
            _ => self.chunks.push_back(data.into()),
        }
    }

    fn poll_end(&mut self, cx: &Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(trailers) = self.trailers.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        match self.end {
            None => {
                self.reader = Some(cx.waker().clone());
                Poll::Pending
            }
            // A client that has seen enough of the response may send no more (RFC 9113 §8.1).
            Some(End::Complete | End::Reset(Code::NO_ERROR)) => Poll::Ready(None),
            Some(End::Reset(code)) => {
                let error = format!("the client reset the stream: {code}");
                Poll::Ready(Some(Err(error.into())))
            }
            Some(End::Closed) => Poll::Ready(Some(Err("the connection is over".into()))),
        }
    }
}

impl Drop for UploadBody {
    fn drop(&mut self) {
        let (bytes, has_ended) = {
            let mut state = self.upload.0.lock();
            let chunks = std::mem::take(&mut state.chunks);
            (chunks.iter().map(BytesMut::len).sum(), state.end.is_some())
        };
        if bytes > 0 || !has_ended {
            self.inbox.put(Note::Dropped {
                stream: self.stream,
                bytes,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn upload(length: Option<u64>) -> (Arc<Upload>, UploadBody, Arc<Inbox>) {
        let (upload, inbox) = (Arc::<Upload>::default(), Arc::<Inbox>::default());
        let body = UploadBody::new(Arc::clone(&upload), Arc::clone(&inbox), 1, length);
        (upload, body, inbox)
    }

    #[tokio::test]
    async fn a_request_ends_as_its_stream_does() {
        let cases = [
            ("whole", End::Complete, true),
            ("given up (RFC 9113 §8.1)", End::Reset(Code::NO_ERROR), true),
            ("cancelled", End::Reset(Code::CANCEL), false),
            ("without its connection", End::Closed, false),
        ];
        for (case, end, is_over) in cases {
            let (upload, mut body, _) = upload(None);
            upload.push(b"some", Some(end));
            let frame = body.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), b"some"[..], "{case}");
            let after = body.frame().await;
            assert_eq!(after.is_none(), is_over, "{case}: {after:?}");
        }
    }

    #[tokio::test]
    async fn reading_makes_room_and_dropping_gives_the_rest_back() {
        let (upload, mut body, inbox) = upload(Some(8));
        upload.push(b"some", None);
        body.frame().await.unwrap().unwrap();
        upload.push(b"more", None);
        assert_eq!(body.size_hint().exact(), Some(4));
        drop(body);
        let mut notes = Vec::new();
        inbox.take(&mut notes);
        let (read, rest) = (4, 4);
        let read = Note::Read {
            stream: 1,
            bytes: read,
        };
        let dropped = Note::Dropped {
            stream: 1,
            bytes: rest,
        };
        assert_eq!(notes, [read, dropped]);
    }

    #[tokio::test]
    async fn frames_of_a_byte_take_the_memory_of_few_chunks() {
        let (upload, mut body, _) = upload(None);
        for byte in 0..40_000_u32 {
            upload.push(&[byte as u8], None);
        }
        assert_eq!(upload.0.lock().chunks.len(), 40_000_usize.div_ceil(CHUNK));
        upload.push(&[7; CHUNK], Some(End::Complete));
        let mut sizes = Vec::new();
        let mut content = Vec::new();
        while let Some(frame) = body.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            sizes.push(data.len());
            content.extend_from_slice(&data);
        }
        assert_eq!(sizes, [CHUNK, CHUNK, 40_000 - 2 * CHUNK, CHUNK]);
        let bytes = content.iter().take(40_000).enumerate();
        assert!(bytes.into_iter().all(|(i, byte)| *byte == i as u8));
    }

    #[tokio::test]
    async fn trailers_come_last() {
        let (upload, mut body, _) = upload(None);
        upload.push(b"some", None);
        upload.trailers(HeaderMap::from_iter([(
            http::header::ETAG,
            "\"1\"".parse().unwrap(),
        )]));
        assert!(!body.is_end_stream());
        assert!(body.frame().await.unwrap().unwrap().is_data());
        assert!(body.frame().await.unwrap().unwrap().is_trailers());
        assert!(body.is_end_stream() && body.frame().await.is_none());
    }
}
