//! How a connection stops (RFC 9114 §5.2).

use crate::error::{Code, Error};

/// How far a server's stop has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// The client is to open no more requests; those on their way are taken still.
    Announce,
    /// Requests that were not accepted until now are rejected.
    Refuse,
}

/// GOAWAY in both directions.
#[derive(Debug, Default)]
pub(super) struct GoAway {
    sent: Option<u64>,
    received: Option<u64>,
    /// Identifier after that of the last accepted request.
    next: u64,
}

/// The largest identifier of a client's bidirectional stream.
const LAST_STREAM: u64 = (1 << 62) - 4;

impl GoAway {
    /// A request came in on `stream`; returns whether it is taken.
    pub(super) fn on_opened(&mut self, stream: u64) -> bool {
        if self.sent.is_some_and(|limit| stream >= limit) {
            return false;
        }
        self.next = self.next.max(stream.saturating_add(4));
        true
    }

    /// Takes note of the identifier in a received frame.
    ///
    /// # Errors
    /// `H3_ID_ERROR`: "Receiving a GOAWAY containing a larger identifier than previously
    /// received MUST be treated as a connection error"; so is a client's "containing an
    /// identifier of any other type" than its own bidirectional streams'.
    pub(super) fn on_received(&mut self, id: u64, at_client: bool) -> Result<(), Error> {
        if at_client && !id.is_multiple_of(4) {
            return Err(Error::connection(
                Code::IdError,
                "GOAWAY with an identifier of no request",
            ));
        }
        if self.received.is_some_and(|previous| id > previous) {
            return Err(Error::connection(
                Code::IdError,
                "GOAWAY with a larger identifier",
            ));
        }
        self.received = Some(id);
        Ok(())
    }

    pub(super) fn received(&self) -> Option<u64> {
        self.received
    }

    /// A server's step; returns the identifier to send, if it says something new.
    pub(super) fn server(&mut self, step: Shutdown) -> Option<u64> {
        self.send(match step {
            Shutdown::Announce => LAST_STREAM,
            Shutdown::Refuse => self.next,
        })
    }

    /// A client's stop: it takes no push, from the first on.
    pub(super) fn client(&mut self) -> Option<u64> {
        self.send(0)
    }

    fn send(&mut self, id: u64) -> Option<u64> {
        // "An endpoint MUST NOT increase the identifier".
        if self.sent.is_some_and(|sent| id >= sent) {
            return None;
        }
        self.sent = Some(id);
        Some(id)
    }
}
