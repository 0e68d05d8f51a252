//! Body bytes that pass through `h3` without being copied.

use std::cell::RefCell;

use bytes::{Buf, Bytes};
use h3::quic::WriteBuf;

/// Body bytes on their way through `h3` to quinn.
///
/// `h3` hands a frame to the transport as an opaque [`Buf`], from which bytes can only
/// be copied. `split` gets the [`Bytes`] themselves back out of it.
#[derive(Clone, Debug, Default)]
pub struct Payload(Bytes);

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

thread_local! {
    /// Where `Payload::chunk` leaves its bytes while `split` is asking for them.
    static CAPTURE: RefCell<Capture> = const { RefCell::new(Capture::Off) };
}

enum Capture {
    Off,
    Waiting,
    Got(Bytes),
}

impl Buf for Payload {
    fn remaining(&self) -> usize {
        self.0.len()
    }

    fn chunk(&self) -> &[u8] {
        CAPTURE.with_borrow_mut(|capture| {
            if matches!(capture, Capture::Waiting) {
                *capture = Capture::Got(self.0.clone());
            }
        });
        &self.0
    }

    fn advance(&mut self, count: usize) {
        self.0.advance(count);
    }
}

/// Takes a frame apart into its header (copied: a few bytes) and its content.
///
/// The content of a DATA frame is the caller's own [`Bytes`]; that of other frames,
/// which `h3` encodes itself, is copied.
pub(crate) fn split(mut frame: WriteBuf<Payload>) -> [Bytes; 2] {
    let header = Bytes::copy_from_slice(frame.chunk());
    frame.advance(header.len());
    let content = match capture(&frame) {
        Some(bytes) => bytes,
        None => frame.copy_to_bytes(frame.remaining()),
    };
    [header, content]
}

fn capture(frame: &WriteBuf<Payload>) -> Option<Bytes> {
    CAPTURE.set(Capture::Waiting);
    // The content is all that is left, so `chunk` is answered by it.
    let left = frame.chunk().len();
    match CAPTURE.replace(Capture::Off) {
        Capture::Got(bytes) if bytes.len() == left => Some(bytes),
        _ => None,
    }
}
