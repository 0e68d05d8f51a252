//! Interim responses (1xx, RFC 9110 §15.2), which come before a request's response.

use std::collections::VecDeque;
use std::sync::Arc;

use http::{Response, StatusCode};
use parking_lot::Mutex;

type Waiting = Arc<Mutex<VecDeque<Response<()>>>>;

/// Passes interim responses to the client of one request.
///
/// The extensions of each request have one if the client can receive interim responses. It may be
/// used while the response is polled, and not beside that: the other end is read after each poll.
#[derive(Clone, Debug)]
pub struct Interim(Waiting);

/// Interim responses that wait to be sent to the client.
#[derive(Debug)]
pub struct InterimHeads(Waiting);

impl Interim {
    /// Makes both ends, that of the request and that of its connection.
    pub fn channel() -> (Self, InterimHeads) {
        let waiting = Waiting::default();
        (Self(Arc::clone(&waiting)), InterimHeads(waiting))
    }

    /// Passes an interim response on, unless too many are waiting. RFC 9110 permits to leave all of
    /// them out.
    pub fn send(&self, head: Response<()>) {
        let mut waiting = self.0.lock();
        if waiting.len() < MAX_WAITING {
            waiting.push_back(head);
        }
    }

    /// Has the client send the content that it holds back (RFC 9110 §15.2.1).
    pub(super) fn send_continue(&self) {
        let mut head = Response::new(());
        *head.status_mut() = StatusCode::CONTINUE;
        self.send(head);
    }
}

impl InterimHeads {
    /// Takes the next one. To be called after each poll of the response.
    pub fn pop(&self) -> Option<Response<()>> {
        self.0.lock().pop_front()
    }
}

const MAX_WAITING: usize = 8;
