//! Reading a file while it is sent.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use rustix::fd::OwnedFd;
use rustix::io::{Errno, IoSliceMut, ReadWriteFlags, pread, preadv2, retry_on_intr};
use tokio::task::JoinHandle;

use super::buffer::{Buffer, CHUNK};
use super::root::Wait;

/// A part of a file, read chunk by chunk as it is polled for.
///
/// Data in the page cache is read in place. A thread for blocking work waits only for data that is
/// on disk alone.
#[derive(Debug)]
pub struct FileStream {
    file: Arc<OwnedFd>,
    offset: u64,
    end: u64,
    pending: Option<JoinHandle<Result<Bytes, Errno>>>,
}

impl FileStream {
    pub(super) const fn new(file: Arc<OwnedFd>, range: Range<u64>) -> Self {
        Self {
            file,
            offset: range.start,
            end: range.end,
            pending: None,
        }
    }

    /// The number of bytes still to be read.
    pub(crate) const fn remaining(&self) -> u64 {
        self.end - self.offset
    }

    /// Reads the next chunk; `None` after the last one and after an error.
    pub(crate) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, ReadError>>> {
        if self.remaining() == 0 {
            return Poll::Ready(None);
        }
        let read = match &mut self.pending {
            None => match read_chunk(&self.file, self.offset, self.end, Wait::Never) {
                Err(Errno::AGAIN | Errno::OPNOTSUPP) => {
                    let (file, offset, end) = (Arc::clone(&self.file), self.offset, self.end);
                    let read = move || read_chunk(&file, offset, end, Wait::Allowed);
                    self.pending = Some(tokio::task::spawn_blocking(read));
                    return self.poll_chunk(cx);
                }
                read => read,
            },
            Some(pending) => {
                let joined = ready!(Pin::new(pending).poll(cx));
                self.pending = None;
                // Only a runtime that shuts down cancels the read.
                joined.unwrap_or(Err(Errno::CANCELED))
            }
        };
        Poll::Ready(Some(self.advance(read)))
    }

    fn advance(&mut self, read: Result<Bytes, Errno>) -> Result<Bytes, ReadError> {
        let failed = match read {
            Ok(chunk) if !chunk.is_empty() => {
                self.offset += chunk.len() as u64;
                return Ok(chunk);
            }
            Ok(_) => ReadError::Truncated {
                missing: self.remaining(),
            },
            Err(source) => ReadError::Read {
                offset: self.offset,
                source: source.into(),
            },
        };
        self.offset = self.end;
        Err(failed)
    }
}

impl futures_util::Stream for FileStream {
    type Item = Result<Bytes, crate::BoxError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let chunk = self.poll_chunk(cx);
        chunk.map(|chunk| chunk.map(|read| read.map_err(Into::into)))
    }
}

/// Why a file could not be sent to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file became shorter after its length was announced.
    #[error("reading a file that was cut short while it was sent: {missing} bytes are missing")]
    Truncated {
        /// The number of announced bytes that no longer exist.
        missing: u64,
    },
    /// The kernel could not read the file.
    #[error("reading a file at byte {offset}")]
    Read {
        /// The position in the file.
        offset: u64,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
}

/// Reads up to [`CHUNK`] bytes of a file; none at its end.
fn read_chunk(file: &OwnedFd, offset: u64, end: u64, wait: Wait) -> Result<Bytes, Errno> {
    let wanted = usize::try_from(end - offset).unwrap_or(CHUNK).min(CHUNK);
    let mut buffer = Buffer::take();
    let read = read_at(file, &mut buffer.as_mut()[..wanted], offset, wait)?;
    Ok(buffer.freeze(read))
}

/// Reads once at `offset`. The result is short at the end of the file, or if only its first part is
/// in memory and the read must not wait.
///
/// # Errors
/// If it must not wait: `EAGAIN`, or `EOPNOTSUPP` on file systems that do not support such reads.
pub(super) fn read_at(
    file: &OwnedFd,
    into: &mut [u8],
    offset: u64,
    wait: Wait,
) -> Result<usize, Errno> {
    match wait {
        Wait::Allowed => retry_on_intr(|| pread(file, &mut *into, offset)),
        Wait::Never => retry_on_intr(|| {
            let mut slices = [IoSliceMut::new(into)];
            preadv2(file, &mut slices, offset, ReadWriteFlags::NOWAIT)
        }),
    }
}
