//! News for the task of a connection, from whichever thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

/// News for the task of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// A stream's response may go on.
    Woken(u32),
    /// Content of a request was read.
    Read {
        /// The request's stream.
        stream: u32,
        /// Bytes of content.
        bytes: usize,
    },
    /// Nobody reads the content of a request any more.
    Dropped {
        /// The request's stream.
        stream: u32,
        /// Bytes of content that were not read.
        bytes: usize,
    },
}

/// News that the task of a connection has not looked at.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    notes: Mutex<Vec<Note>>,
    task: AtomicWaker,
}

impl Inbox {
    /// Wakes the task of `cx` at the next note.
    pub(super) fn register(&self, cx: &Context<'_>) {
        self.task.register(cx.waker());
    }

    pub(super) fn put(&self, note: Note) {
        self.notes.lock().push(note);
        self.task.wake();
    }

    pub(super) fn has_notes(&self) -> bool {
        !self.notes.lock().is_empty()
    }

    /// Moves all notes to `into`, which is empty. Returns whether there are any.
    pub(super) fn take(&self, into: &mut Vec<Note>) -> bool {
        let mut notes = self.notes.lock();
        std::mem::swap(&mut *notes, into);
        !into.is_empty()
    }
}

/// Wakes the task of a connection for one stream.
#[derive(Debug)]
pub(super) struct StreamWaker {
    stream: u32,
    inbox: Arc<Inbox>,
    /// A note is in the inbox already.
    is_woken: AtomicBool,
}

impl StreamWaker {
    pub(super) fn new(stream: u32, inbox: Arc<Inbox>) -> Arc<Self> {
        Arc::new(Self {
            stream,
            inbox,
            is_woken: AtomicBool::new(false),
        })
    }

    /// To be called before the stream is polled because of a note.
    pub(super) fn rearm(&self) {
        self.is_woken.store(false, Ordering::Release);
    }
}

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            self.inbox.put(Note::Woken(self.stream));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn a_stream_that_is_woken_often_is_polled_once() {
        let inbox = Arc::<Inbox>::default();
        let stream = StreamWaker::new(7, Arc::clone(&inbox));
        let waker = Waker::from(Arc::clone(&stream));
        let mut notes = Vec::new();
        assert!(!inbox.take(&mut notes));
        waker.wake_by_ref();
        waker.wake_by_ref();
        inbox.put(Note::Read {
            stream: 7,
            bytes: 3,
        });
        assert!(inbox.take(&mut notes));
        let read = Note::Read {
            stream: 7,
            bytes: 3,
        };
        assert_eq!(notes, [Note::Woken(7), read]);
        notes.clear();
        waker.wake_by_ref();
        assert!(!inbox.take(&mut notes), "not polled yet");
        stream.rearm();
        waker.wake();
        assert!(inbox.take(&mut notes));
    }
}
