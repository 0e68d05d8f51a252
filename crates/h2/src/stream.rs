//! The open streams of a connection.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use bytes::Bytes;
use hikyaku_http_common::content::Content;
use hikyaku_http_common::priority::{Parameters, Priority};
use http::{HeaderMap, Method};

use crate::output::Output;

/// A stream whose request has arrived, until both sides have ended it (RFC 9113 §5.1).
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    pub(crate) priority: Priority,
    /// The parameters of the priority that the response itself has.
    pub(crate) by_server: Parameters,
    pub(crate) receiving: Receiving,
    pub(crate) sending: Sending,
}

/// The client's side of a stream.
#[derive(Debug)]
pub(crate) struct Receiving {
    /// The content that may still come.
    pub(crate) content: Content,
    /// Bytes that the client may still send.
    pub(crate) window: i64,
    /// Bytes of padding, for which the client has got no credit again.
    pub(crate) padding: u32,
    /// Whether nobody reads the content.
    pub(crate) is_stopped: bool,
    pub(crate) has_ended: bool,
}

/// The server's side of a stream.
#[derive(Debug)]
pub(crate) struct Sending {
    /// The request's method as far as it decides about content: GET stands for all others.
    pub(crate) method: Method,
    pub(crate) phase: Phase,
    /// The content that the caller may still give.
    pub(crate) content: Content,
    /// Bytes that may still be sent; below zero after the peer made its window smaller.
    pub(crate) window: i64,
    pub(crate) queue: Queue,
    /// Trailers that follow the queue.
    pub(crate) trailers: Option<Box<HeaderMap>>,
    /// Whether the scheduler has the stream.
    pub(crate) is_ready: bool,
    /// Whether END_STREAM is in the output.
    pub(crate) has_ended: bool,
}

/// The part of a response that the caller may give next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Head,
    Content,
    /// Nothing: the whole response is there.
    Complete,
}

impl Stream {
    pub(crate) fn is_over(&self) -> bool {
        self.receiving.has_ended && self.sending.has_ended
    }
}

impl Sending {
    /// Whether content can be sent, as far as the stream's own window is concerned.
    pub(crate) fn has_sendable(&self) -> bool {
        self.queue.len > 0 && self.window > 0
    }
}

/// Content that waits to be sent. A single chunk takes no allocation.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    first: Bytes,
    others: VecDeque<Bytes>,
    /// Bytes of all chunks.
    pub(crate) len: usize,
}

impl Queue {
    pub(crate) fn push(&mut self, data: Bytes) {
        if data.is_empty() {
            return;
        }
        self.len += data.len();
        if self.first.is_empty() {
            self.first = data;
        } else {
            self.others.push_back(data);
        }
    }

    /// Moves `length` bytes to the output; there are as many.
    pub(crate) fn move_to(&mut self, output: &mut Output, mut length: usize) {
        while length > 0 {
            let piece = self.take(length);
            length -= piece.len();
            output.content(piece);
        }
    }

    /// Takes a part of the first chunk, of `max` bytes at most.
    fn take(&mut self, max: usize) -> Bytes {
        let taken = if self.first.len() > max {
            self.first.split_to(max)
        } else {
            let next = self.others.pop_front().unwrap_or_default();
            std::mem::replace(&mut self.first, next)
        };
        self.len -= taken.len();
        taken
    }
}

/// The open streams. A slot stays with its stream, and is used again after it.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    slots: Vec<Stream>,
    free: Vec<usize>,
    /// Identifiers in ascending order, each with its slot.
    ids: VecDeque<(u32, usize)>,
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The slot of a stream; `None` if the stream is not open.
    pub(crate) fn slot(&self, id: u32) -> Option<usize> {
        let position = self.position(id)?;
        Some(self.ids[position].1)
    }

    /// The slots of all streams.
    pub(crate) fn slots(&self) -> impl Iterator<Item = usize> {
        self.ids.iter().map(|(_, slot)| *slot)
    }

    /// Adds a stream, whose identifier is larger than all others.
    pub(crate) fn insert(&mut self, stream: Stream) -> usize {
        let id = stream.id;
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot] = stream;
            slot
        } else {
            self.slots.push(stream);
            self.slots.len() - 1
        };
        self.ids.push_back((id, slot));
        slot
    }

    /// Removes a stream, and drops what waits to be sent.
    pub(crate) fn remove(&mut self, slot: usize) {
        let stream = &mut self.slots[slot];
        stream.sending.queue = Queue::default();
        stream.sending.trailers = None;
        let id = stream.id;
        if let Some(position) = self.position(id) {
            self.ids.remove(position);
            self.free.push(slot);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn position(&self, id: u32) -> Option<usize> {
        if let Some((last, _)) = self.ids.back()
            && *last == id
        {
            return Some(self.ids.len() - 1);
        }
        self.ids.binary_search_by_key(&id, |(id, _)| *id).ok()
    }
}

impl Index<usize> for Streams {
    type Output = Stream;

    fn index(&self, slot: usize) -> &Stream {
        &self.slots[slot]
    }
}

impl IndexMut<usize> for Streams {
    fn index_mut(&mut self, slot: usize) -> &mut Stream {
        &mut self.slots[slot]
    }
}

/// How a stream was closed (RFC 9113 §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Both sides have ended it.
    Ended,
    /// This side reset it: frames that were on their way are ignored.
    Reset,
    /// The client reset it.
    ResetByPeer,
}

/// The streams that were closed last.
#[derive(Debug, Default)]
pub(crate) struct RecentlyClosed(VecDeque<(u32, Closed)>);

impl RecentlyClosed {
    /// The number of streams that are remembered.
    const MAX: usize = 256;

    pub(crate) fn push(&mut self, id: u32, how: Closed) {
        if self.0.len() == Self::MAX {
            self.0.pop_front();
        }
        self.0.push_back((id, how));
    }

    /// How a stream was closed; `None` if that was long ago, or the stream was never open.
    pub(crate) fn how(&self, id: u32) -> Option<Closed> {
        let found = self.0.iter().rev().find(|(other, _)| *other == id);
        found.map(|(_, how)| *how)
    }

    pub(crate) fn release(&mut self) {
        self.0.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_give_their_chunks_in_order() {
        let mut queue = Queue::default();
        for chunk in ["abc", "", "d", "ef"] {
            queue.push(Bytes::from_static(chunk.as_bytes()));
        }
        let mut taken = Vec::new();
        while queue.len > 0 {
            taken.push(queue.take(2));
        }
        assert_eq!(taken, ["ab", "c", "d", "ef"]);
        assert!(queue.take(1).is_empty());
    }

    #[test]
    fn the_last_closed_streams_are_remembered() {
        let mut closed = RecentlyClosed::default();
        for id in 1..=300 {
            closed.push(id, Closed::Ended);
        }
        assert_eq!(closed.how(300), Some(Closed::Ended));
        assert_eq!(closed.how(45), Some(Closed::Ended));
        assert_eq!(closed.how(44), None);
    }
}
