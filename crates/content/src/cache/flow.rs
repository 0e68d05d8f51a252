//! Content that arrives once, and that any number of clients read meanwhile.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;

/// Chunks that wait for the slowest reader, once content is not kept.
const AHEAD: usize = 8;

/// Content while it arrives.
///
/// It is kept from its beginning as long as it may be stored. Content that turns out to be too large goes
/// on to those who read it, at the pace of the slowest of them.
#[derive(Debug)]
pub(super) struct Flow {
    /// As it was announced.
    length: Option<u64>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    chunks: VecDeque<Bytes>,
    /// The number of chunks before these, which all readers have read.
    gone: usize,
    is_kept: bool,
    /// Nobody else may begin to read it.
    is_closed: bool,
    end: Option<End>,
    /// By their numbers.
    readers: Vec<Option<Place>>,
    /// Of the one who fills it.
    filler: Option<Waker>,
}

#[derive(Clone, Debug)]
enum End {
    Whole(Option<HeaderMap>),
    Broken(Arc<str>),
}

/// The place of a reader.
#[derive(Debug)]
struct Place {
    /// The number of the chunk that it reads next.
    next: usize,
    waker: Option<Waker>,
}

impl Flow {
    pub(super) fn new(length: Option<u64>) -> Arc<Self> {
        let state = State {
            chunks: VecDeque::new(),
            gone: 0,
            is_kept: true,
            is_closed: false,
            end: None,
            readers: Vec::new(),
            filler: None,
        };
        Arc::new(Self {
            length,
            state: Mutex::new(state),
        })
    }

    /// The length that was announced.
    pub(super) const fn length(&self) -> Option<u64> {
        self.length
    }

    /// Adds a chunk, unless it is empty.
    pub(super) fn push(&self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.change(|state| state.chunks.push_back(chunk));
        }
    }

    /// Ends the content, with its trailers.
    pub(super) fn finish(&self, trailers: Option<HeaderMap>) {
        self.change(|state| state.end = Some(End::Whole(trailers)));
    }

    /// Ends the content before its end.
    pub(super) fn break_off(&self, why: &str) {
        self.change(|state| {
            state.end.get_or_insert_with(|| End::Broken(why.into()));
        });
    }

    /// Lets go of the content that everybody has read.
    pub(super) fn stop_keeping(&self) {
        self.change(|state| {
            state.is_kept = false;
            state.forget_read();
        });
    }

    /// Waits until a chunk is wanted. Returns whether there is anybody who reads, or who may: content that is
    /// kept is wanted in any case.
    pub(super) fn poll_wanted(&self, cx: &Context<'_>) -> Poll<bool> {
        let mut state = self.state.lock();
        if state.is_kept {
            return Poll::Ready(true);
        }
        if state.readers.iter().all(Option::is_none) {
            return Poll::Ready(false);
        }
        if state.chunks.len() < AHEAD {
            return Poll::Ready(true);
        }
        state.filler = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Lets no further clients join those who read it.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
    }

    /// Whether further clients may read it.
    pub(super) fn is_open(&self) -> bool {
        !self.state.lock().is_closed
    }

    /// The whole content in one piece, of which `last` has not been added. `None` if it was not kept.
    pub(super) fn whole(&self, last: &Bytes) -> Option<Bytes> {
        let state = self.state.lock();
        if !state.is_kept {
            return None;
        }
        // Copied, since chunks may be small parts of large buffers.
        let chunks = || state.chunks.iter().chain([last]);
        let mut whole = BytesMut::with_capacity(chunks().map(Bytes::len).sum());
        chunks().for_each(|chunk| whole.extend_from_slice(chunk));
        Some(whole.freeze())
    }

    /// A reader of all or of a part, which must be within the announced length. `None` if the beginning
    /// is gone.
    pub(super) fn reader(self: &Arc<Self>, part: Option<Range<u64>>) -> Option<Reader> {
        let mut state = self.state.lock();
        if state.gone > 0 {
            return None;
        }
        let place = Some(Place {
            next: 0,
            waker: None,
        });
        let number = match state.readers.iter().position(Option::is_none) {
            Some(free) => {
                state.readers[free] = place;
                free
            }
            None => {
                state.readers.push(place);
                state.readers.len() - 1
            }
        };
        drop(state);
        Some(Reader {
            flow: Arc::clone(self),
            number,
            skip: part.as_ref().map_or(0, |part| part.start),
            is_part: part.is_some(),
            left: part.map(|part| part.end - part.start).or(self.length),
        })
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        let readers = state.readers.iter_mut().flatten();
        let wakers: Vec<_> = readers.filter_map(|place| place.waker.take()).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// Drops the chunks that all readers have read, where the content is not kept.
    fn forget_read(&mut self) {
        if self.is_kept {
            return;
        }
        let places = self.readers.iter().flatten();
        let slowest = places.map(|place| place.next).min();
        let gone = slowest.unwrap_or(self.gone + self.chunks.len());
        let count = gone.saturating_sub(self.gone).min(self.chunks.len());
        self.chunks.drain(..count);
        self.gone += count;
        if (count > 0 || slowest.is_none())
            && let Some(filler) = self.filler.take()
        {
            filler.wake();
        }
    }
}

/// A client's way through the content, as the body of its response.
#[derive(Debug)]
pub(super) struct Reader {
    flow: Arc<Flow>,
    number: usize,
    /// Bytes before its part.
    skip: u64,
    /// Bytes of its part, if they are known.
    left: Option<u64>,
    /// It ends after these bytes, wherever the content ends.
    is_part: bool,
}

/// Why content ended before its end.
#[derive(Clone, Debug, thiserror::Error)]
#[error("reading a response that the cache receives: {0}")]
pub(super) struct Broken(Arc<str>);

impl Reader {
    /// Cuts the reader's part out of a chunk.
    fn cut(&mut self, mut chunk: Bytes) -> Bytes {
        let skipped = chunk.len().min(clamp(self.skip));
        let _ = chunk.split_to(skipped);
        self.skip -= skipped as u64;
        if let Some(left) = &mut self.left {
            chunk.truncate(clamp(*left));
            *left -= chunk.len() as u64;
        }
        chunk
    }

    fn poll_chunk(&self, cx: &Context<'_>) -> Poll<Result<Bytes, End>> {
        let mut state = self.flow.state.lock();
        let state = &mut *state;
        let Some(Some(place)) = state.readers.get_mut(self.number) else {
            return Poll::Ready(Err(End::Whole(None)));
        };
        match (state.chunks.get(place.next - state.gone), &state.end) {
            (Some(chunk), _) => {
                let chunk = chunk.clone();
                place.next += 1;
                state.forget_read();
                Poll::Ready(Ok(chunk))
            }
            (None, Some(end)) => Poll::Ready(Err(end.clone())),
            (None, None) => {
                place.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

fn clamp(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl http_body::Body for Reader {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        loop {
            // A part may end long before the content does.
            if self.is_part && self.left == Some(0) {
                return Poll::Ready(None);
            }
            return Poll::Ready(match ready!(self.poll_chunk(cx)) {
                Ok(chunk) => {
                    let chunk = self.cut(chunk);
                    if chunk.is_empty() {
                        continue;
                    }
                    Some(Ok(Frame::data(chunk)))
                }
                Err(End::Whole(trailers)) => {
                    (self.is_part, self.left) = (true, Some(0));
                    trailers.map(|trailers| Ok(Frame::trailers(trailers)))
                }
                Err(End::Broken(why)) => Some(Err(Broken(why))),
            });
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.flow.state.lock();
        if let Some(place) = state.readers.get_mut(self.number) {
            *place = None;
        }
        state.forget_read();
    }
}

#[cfg(test)]
mod tests;
