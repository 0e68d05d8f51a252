//! Reused buffers for reading files.
//!
//! The kernel zeroes and faults in a fresh buffer of this size page by page, which costs as much as
//! reading the file into it. So a chunk returns its buffer when the last reference to its bytes is
//! dropped.

use bytes::Bytes;
use parking_lot::Mutex;

/// Bytes of a chunk. So small a chunk is still in the second-level cache when it is encrypted, and
/// a stalled client holds little memory.
pub(super) const CHUNK: usize = 64 * 1024;

/// A buffer of [`CHUNK`] bytes.
#[derive(Debug)]
pub(super) struct Buffer {
    memory: Box<[u8]>,
    filled: usize,
}

impl Buffer {
    pub(super) fn take() -> Self {
        let free = FREE.lock().pop();
        Self {
            memory: free.unwrap_or_else(|| vec![0; CHUNK].into_boxed_slice()),
            filled: 0,
        }
    }

    pub(super) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    /// Makes bytes of the first `filled` bytes, which must have been written.
    pub(super) fn freeze(mut self, filled: usize) -> Bytes {
        self.filled = filled;
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.memory[..self.filled]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        let mut free = FREE.lock();
        if free.len() < MAX_FREE {
            free.push(memory);
        }
    }
}

/// Buffers that are kept: 16 MiB at most.
const MAX_FREE: usize = 256;

static FREE: Mutex<Vec<Box<[u8]>>> = Mutex::new(Vec::new());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_show_only_filled_bytes_and_return_their_buffer() {
        let mut buffer = Buffer::take();
        buffer.as_mut()[..5].copy_from_slice(b"hello");
        let address = buffer.as_mut().as_ptr();
        let chunk = buffer.freeze(5);
        let part = chunk.slice(1..3);
        assert_eq!(&chunk[..], b"hello");
        drop(chunk);
        assert_eq!(&part[..], b"el");
        assert!(FREE.lock().iter().all(|free| free.as_ptr() != address));
        drop(part);
        // Other tests may have taken the buffer since; it must then hold no bytes of ours to show.
        assert!(Buffer::take().freeze(0).is_empty());
        assert!(FREE.lock().iter().all(|free| free.len() == CHUNK));
    }
}
