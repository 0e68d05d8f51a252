//! Acknowledgements of whole QUIC streams.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::Exchange;

/// Where handlers leave exchanges together with the futures `S` of their acknowledgements.
pub(crate) struct Acknowledged<S>(Mutex<Vec<(Box<Exchange>, S)>>);

impl<S> Default for Acknowledged<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S> Acknowledged<S> {
    /// Moves what handlers have left to `into`.
    pub(super) fn take(&self, into: &mut VecDeque<(Box<Exchange>, S)>) {
        into.extend(self.0.lock().drain(..));
    }

    /// Leaves an exchange to the meter, which [`Ticket::complete_with`] wakes.
    ///
    /// [`Ticket::complete_with`]: super::Ticket::complete_with
    pub(crate) fn hand_over(&self, exchange: Box<Exchange>, stopped: S) {
        self.0.lock().push((exchange, stopped));
    }
}
