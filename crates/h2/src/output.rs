//! Bytes for the transport, as slices of frames and of content.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// Bytes for the transport: frames of the engine, and content without a copy.
///
/// It is a [`Buf`], so that a caller can write it with one gathered write. Its memory can serve many
/// connections, one after the other.
#[derive(Debug, Default)]
pub struct Output {
    /// Bytes of frames, of which those before `taken` are written.
    frames: Vec<u8>,
    taken: usize,
    pieces: VecDeque<Piece>,
    remaining: usize,
    /// Bytes of content among the remaining ones.
    content: usize,
}

#[derive(Debug)]
enum Piece {
    /// The next bytes of `frames`.
    Frames(usize),
    Content(Bytes),
}

impl Output {
    /// Makes an empty output, without memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.remaining == 0
    }

    /// Bytes of content that are to be written.
    pub fn remaining_content(&self) -> usize {
        self.content
    }

    /// Gives memory back that an empty output does not need.
    pub fn release_memory(&mut self) {
        self.frames.shrink_to_fit();
        self.pieces.shrink_to_fit();
    }

    /// Appends the bytes of frames that `write` appends.
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.frames.len();
        write(&mut self.frames);
        let added = self.frames.len() - before;
        if added == 0 {
            return;
        }
        self.remaining += added;
        match self.pieces.back_mut() {
            Some(Piece::Frames(length)) => *length += added,
            _ => self.pieces.push_back(Piece::Frames(added)),
        }
    }

    /// Appends content.
    pub(crate) fn content(&mut self, content: Bytes) {
        self.remaining += content.len();
        self.content += content.len();
        self.pieces.push_back(Piece::Content(content));
    }

    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut frames = &self.frames[self.taken..];
        self.pieces.iter().map(move |piece| match piece {
            Piece::Frames(length) => {
                let (slice, rest) = frames.split_at(*length);
                frames = rest;
                slice
            }
            Piece::Content(content) => content,
        })
    }

    /// Forgets the frames that are written.
    fn compact(&mut self) {
        if self.taken == self.frames.len() {
            self.frames.clear();
            self.taken = 0;
        } else if self.taken >= MAX_TAKEN {
            self.frames.drain(..self.taken);
            self.taken = 0;
        }
    }
}

impl Buf for Output {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        self.slices().next().unwrap_or_default()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        for (slice, chunk) in slices.iter_mut().zip(self.slices()) {
            *slice = IoSlice::new(chunk);
            count += 1;
        }
        count
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.remaining, "no more than there is");
        self.remaining -= count;
        while count > 0 {
            match self.pieces.front_mut() {
                Some(Piece::Frames(length)) if *length > count => {
                    *length -= count;
                    self.taken += count;
                    count = 0;
                }
                Some(Piece::Content(content)) if content.len() > count => {
                    content.advance(count);
                    self.content -= count;
                    count = 0;
                }
                Some(Piece::Frames(length)) => {
                    self.taken += *length;
                    count -= *length;
                    self.pieces.pop_front();
                }
                Some(Piece::Content(content)) => {
                    count -= content.len();
                    self.content -= content.len();
                    self.pieces.pop_front();
                }
                None => break,
            }
        }
        self.compact();
    }
}

/// Written bytes of frames that are kept at most.
const MAX_TAKEN: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_come_in_order_however_they_are_taken() {
        for step in 1..12 {
            let mut output = Output::new();
            output.write(|out| out.extend_from_slice(b"ab"));
            output.write(|out| out.extend_from_slice(b"c"));
            output.content(Bytes::from_static(b"defg"));
            output.write(|_| ());
            output.content(Bytes::from_static(b"h"));
            output.write(|out| out.extend_from_slice(b"ij"));
            assert_eq!(output.remaining_content(), 5);
            let mut slices = [IoSlice::new(b""); 9];
            assert_eq!(output.chunks_vectored(&mut slices), 4);
            let mut got = Vec::new();
            while output.has_remaining() {
                let count = output.remaining().min(step);
                let mut slices = [IoSlice::new(b""); 9];
                let filled = output.chunks_vectored(&mut slices);
                let all: Vec<u8> = slices[..filled].iter().flat_map(|it| it.to_vec()).collect();
                assert!(all.starts_with(output.chunk()));
                assert_eq!(all.len(), output.remaining());
                got.extend_from_slice(&all[..count]);
                output.advance(count);
            }
            assert_eq!(got, b"abcdefghij", "{step} bytes at a time");
            assert!(output.is_empty() && output.frames.is_empty());
            assert_eq!(output.remaining_content(), 0);
        }
    }
}
