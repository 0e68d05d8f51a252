//! Receiving from a connection.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::AsyncRead;
use tokio_util::io::poll_read_buf;

/// Receives at most `size` bytes, and adds them to those that are `left`. Returns `false` at the
/// connection's end.
///
/// Connections need the buffer one after the other, so that none holds one while it waits. Few bytes
/// are copied out of it, and many leave with it.
pub(super) fn poll_receive<T: AsyncRead + Unpin>(
    io: &mut T,
    left: &mut Bytes,
    size: usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<bool>> {
    thread_local! {
        static BUFFER: Cell<Option<BytesMut>> = const { Cell::new(None) };
    }
    let mut buffer = BUFFER.take().unwrap_or_default();
    buffer.clear();
    buffer.reserve(LARGE);
    let read = poll_read_buf(Pin::new(io), cx, &mut (&mut buffer).limit(size));
    if let Poll::Ready(Ok(1..)) = read {
        *left = match left.is_empty() {
            true if buffer.len() >= LARGE / 2 => buffer.split().freeze(),
            true => Bytes::copy_from_slice(&buffer),
            false => [&left[..], &buffer[..]].concat().into(),
        };
    }
    BUFFER.set(Some(buffer));
    Poll::Ready(Ok(ready!(read)? > 0))
}

/// Bytes that are read at once where all of them are handed on at once.
pub(super) const LARGE: usize = 128 * 1024;
/// Bytes that are read at once where some may have to wait: content behind a head or another chunk.
/// The client's share of memory does not count these.
pub(super) const SMALL: usize = 16 * 1024;
