//! The requests of a connection.

use std::collections::VecDeque;

use super::stream::Stream;
use super::upload::End;

/// The requests of a connection that are not over, in ascending order of their streams.
#[derive(Default)]
pub(super) struct Streams(VecDeque<Box<Stream>>);

impl Streams {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a stream, whose identifier is larger than all others.
    pub(super) fn insert(&mut self, stream: Box<Stream>) {
        self.0.push_back(stream);
    }

    pub(super) fn get(&mut self, id: u32) -> Option<&mut Stream> {
        let position = self.position(id)?;
        self.0.get_mut(position).map(|stream| &mut **stream)
    }

    /// Hands content on to who reads that of a stream's request. Returns how many bytes nobody reads.
    pub(super) fn keep(&mut self, id: u32, data: &[u8], end: Option<End>) -> usize {
        let upload = self.get(id).and_then(|stream| stream.upload.as_ref());
        let Some(upload) = upload else {
            return data.len();
        };
        upload.push(data, end);
        0
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<Box<Stream>> {
        let position = self.position(id)?;
        self.0.remove(position)
    }

    /// Removes all, and gives their memory back.
    pub(super) fn clear(&mut self) {
        self.0 = VecDeque::new();
    }

    fn position(&self, id: u32) -> Option<usize> {
        if self.0.front()?.id == id {
            return Some(0);
        }
        self.0.binary_search_by_key(&id, |stream| stream.id).ok()
    }
}
