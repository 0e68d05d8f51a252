//! From the connections that are traced to the one who reads, with bounds.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use http_body::Frame;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Sleep;

use super::{millis, record};

use crate::clock;

/// Bytes that wait for a slow reader; further records are dropped.
const BUFFER: usize = 1 << 20;

/// A pipe that takes records until `deadline`, `limit` bytes at most.
pub(super) fn new(deadline: Instant, limit: u64) -> (Feed, TraceBody) {
    let pipe = Arc::new(Pipe {
        open: AtomicBool::new(true),
        begun: clock::now(),
        limit,
        state: Mutex::default(),
    });
    let body = TraceBody {
        pipe: Arc::clone(&pipe),
        deadline: Box::pin(tokio::time::sleep_until(deadline.into())),
        ended: false,
    };
    (Feed::of(&pipe), body)
}

#[derive(Debug)]
struct Pipe {
    /// Records are still taken.
    open: AtomicBool,
    begun: Instant,
    limit: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    buffer: Vec<u8>,
    /// Bytes taken so far.
    bytes: u64,
    records: u64,
    connections: u64,
    dropped: u64,
    /// Of these, the ones pending a report.
    gap: u64,
    feeds: usize,
    end: Option<&'static str>,
    reader: Option<Waker>,
}

impl State {
    fn take(&mut self, record: &[u8]) {
        self.buffer.extend_from_slice(record);
        self.bytes += record.len() as u64;
        self.records += 1;
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl Pipe {
    fn push(&self, one: &[u8]) {
        let mut state = self.state.lock();
        if state.end.is_some() {
            return;
        }
        if state.bytes + one.len() as u64 > self.limit {
            self.end(&mut state, "size");
        } else if state.buffer.len() + one.len() > BUFFER {
            state.dropped += 1;
            state.gap += 1;
            return;
        } else {
            let gap = std::mem::take(&mut state.gap);
            if gap > 0 {
                state.take(&record(&json!({
                    "time": millis(clock::since(self.begun)),
                    "name": "hikyaku:events_dropped",
                    "data": { "events": gap },
                })));
            }
            state.take(one);
        }
        state.wake();
    }

    fn end(&self, state: &mut State, why: &'static str) {
        state.end.get_or_insert(why);
        self.open.store(false, Ordering::Relaxed);
    }
}

/// Where records go in. The trace ends when the last of a pipe's feeds goes.
#[derive(Debug)]
pub(super) struct Feed(Arc<Pipe>);

impl Feed {
    fn of(pipe: &Arc<Pipe>) -> Self {
        pipe.state.lock().feeds += 1;
        Self(Arc::clone(pipe))
    }

    /// Whether it still takes records.
    pub(super) fn is_open(&self) -> bool {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Takes a whole record, or drops it.
    pub(super) fn push(&self, record: &[u8]) {
        self.0.push(record);
    }

    /// Counts a connection.
    pub(super) fn connection_began(&self) {
        self.0.state.lock().connections += 1;
    }
}

impl Clone for Feed {
    fn clone(&self) -> Self {
        Self::of(&self.0)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.feeds -= 1;
        if state.feeds == 0 {
            self.0.end(&mut state, "connections");
            state.wake();
        }
    }
}

/// The body of the answer: the records, and a last one that reports why there are no more.
pub(crate) struct TraceBody {
    pipe: Arc<Pipe>,
    deadline: Pin<Box<Sleep>>,
    ended: bool,
}

impl Drop for TraceBody {
    fn drop(&mut self) {
        let mut state = self.pipe.state.lock();
        self.pipe.end(&mut state, "reader");
        state.buffer = Vec::new();
    }
}

impl TraceBody {
    fn last(&self, state: &State) -> Vec<u8> {
        record(&json!({
            "time": millis(clock::since(self.pipe.begun)),
            "name": "hikyaku:trace_ended",
            "data": {
                "reason": state.end,
                "connections": state.connections,
                "records": state.records,
                "dropped": state.dropped,
            },
        }))
    }
}

impl http_body::Body for TraceBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let over = self.deadline.as_mut().poll(cx).is_ready();
        let pipe = Arc::clone(&self.pipe);
        let mut state = pipe.state.lock();
        if over {
            pipe.end(&mut state, "time");
        }
        let data = if !state.buffer.is_empty() {
            std::mem::take(&mut state.buffer)
        } else if self.ended {
            return Poll::Ready(None);
        } else if state.end.is_some() {
            self.ended = true;
            self.last(&state)
        } else {
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        };
        Poll::Ready(Some(Ok(Frame::data(data.into()))))
    }
}
