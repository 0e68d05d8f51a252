//! The stop of a connection (RFC 9114 §5.2).

use crate::error::{Code, Error};

/// The steps of a server's stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Ask the client to open no more requests. Requests on their way are still taken.
    Announce,
    /// Reject the requests that were not accepted until now.
    Refuse,
}

/// GOAWAY in both directions.
#[derive(Debug, Default)]
pub(super) struct GoAway {
    sent: Option<u64>,
    received: Option<u64>,
    /// The identifier after that of the last accepted request.
    next: u64,
}

/// The largest identifier of a client's bidirectional stream.
const LAST_STREAM: u64 = (1 << 62) - 4;

impl GoAway {
    /// Notes a request on `stream`. Returns whether it is taken.
    pub(super) fn on_opened(&mut self, stream: u64) -> bool {
        if self.sent.is_some_and(|limit| stream >= limit) {
            return false;
        }
        self.next = self.next.max(stream.saturating_add(4));
        true
    }

    /// Notes the identifier in a received frame.
    ///
    /// # Errors
    /// `H3_ID_ERROR`: "Receiving a GOAWAY containing a larger identifier than previously received
    /// MUST be treated as a connection error". An identifier from a client that is not of its own
    /// bidirectional streams is an error, too.
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

    /// Takes a server's step. Returns the identifier to send, unless the last one was the same.
    pub(super) fn server(&mut self, step: Shutdown) -> Option<u64> {
        self.send(match step {
            Shutdown::Announce => LAST_STREAM,
            Shutdown::Refuse => self.next,
        })
    }

    /// Stops a client: it takes no push, from the first on.
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
