//! Acknowledgements of whole QUIC streams.

use std::collections::VecDeque;
use std::pin::Pin;

use parking_lot::Mutex;
use quinn::{StoppedError, VarInt};

use super::Exchange;

/// Tells when the peer has acknowledged a stream to its end (or stopped it).
pub(crate) type Stopped =
    Pin<Box<dyn Future<Output = Result<Option<VarInt>, StoppedError>> + Send + Sync>>;

/// Where handlers leave exchanges together with what tells of their acknowledgement.
#[derive(Default)]
pub(crate) struct Acknowledged {
    /// Streams that are finished, until their handler collects them.
    finished: Mutex<Vec<(quinn::StreamId, Stopped)>>,
    arrived: Mutex<Vec<(Exchange, Stopped)>>,
}

impl hikyaku_h3::FinishObserver for Acknowledged {
    fn finished(&self, stream: &quinn::SendStream) {
        let stopped = Box::pin(stream.stopped());
        self.finished.lock().push((stream.id(), stopped));
    }
}

impl Acknowledged {
    /// What tells of the acknowledgement of stream `id`, which was just finished.
    pub(crate) fn of_stream(&self, id: u64) -> Option<Stopped> {
        let mut finished = self.finished.lock();
        let index = finished
            .iter()
            .position(|(stream, _)| VarInt::from(*stream).into_inner() == id)?;
        Some(finished.swap_remove(index).1)
    }

    /// Moves what handlers have left to `into`.
    pub(super) fn take(&self, into: &mut VecDeque<(Exchange, Stopped)>) {
        into.extend(self.arrived.lock().drain(..));
    }

    /// Leaves an exchange to the meter, which [`Ticket::complete_with`] wakes.
    ///
    /// [`Ticket::complete_with`]: super::Ticket::complete_with
    pub(crate) fn hand_over(&self, exchange: Exchange, stopped: Stopped) {
        self.arrived.lock().push((exchange, stopped));
    }
}
