//! Acknowledgements of whole QUIC streams.

use std::collections::VecDeque;

pub(crate) use hikyaku_h3_quinn::Acknowledged as Stopped;
use parking_lot::Mutex;

use super::Exchange;

/// Where handlers leave exchanges together with the futures of their acknowledgements.
#[derive(Default)]
pub(crate) struct Acknowledged(Mutex<Vec<(Exchange, Stopped)>>);

impl Acknowledged {
    /// Moves what handlers have left to `into`.
    pub(super) fn take(&self, into: &mut VecDeque<(Exchange, Stopped)>) {
        into.extend(self.0.lock().drain(..));
    }

    /// Leaves an exchange to the meter, which [`Ticket::complete_with`] wakes.
    ///
    /// [`Ticket::complete_with`]: super::Ticket::complete_with
    pub(crate) fn hand_over(&self, exchange: Exchange, stopped: Stopped) {
        self.0.lock().push((exchange, stopped));
    }
}
