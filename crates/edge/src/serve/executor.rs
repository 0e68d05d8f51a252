//! Answering requests at once where no answer has to wait.

use std::pin::Pin;
use std::task::{Context, Waker};

/// A future that has to wait.
pub(super) type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs a future as far as it goes; gives it back if it has to wait, so that only then it becomes a
/// task.
///
/// Most requests for files never wait: their content is in memory or in the page cache.
/// They are then answered while the connection reads, and leave together with one flush.
pub(super) fn start(mut future: Waiting) -> Option<Waiting> {
    // Whoever polls it next leaves a waker of its own, so that none is missed.
    let mut cx = Context::from_waker(Waker::noop());
    future.as_mut().poll(&mut cx).is_pending().then_some(future)
}
