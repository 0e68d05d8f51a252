//! Interim responses (1xx, RFC 9110 §15.2), which come before a request's response.

use http::{Response, StatusCode};
use tokio::sync::mpsc;

/// Passes interim responses to the client of one request.
///
/// It stands in the extensions of each request whose client can have them.
#[derive(Clone, Debug)]
pub struct Interim(mpsc::Sender<Response<()>>);

impl Interim {
    /// What takes interim responses, and what the connection passes on.
    pub fn channel() -> (Self, mpsc::Receiver<Response<()>>) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        (Self(sender), receiver)
    }

    /// Passes an interim response on, unless too many wait already: all of them may be
    /// left out.
    pub fn send(&self, head: Response<()>) {
        let _ = self.0.try_send(head);
    }

    /// Has the client send the content that it holds back (RFC 9110 §15.2.1).
    pub(super) fn send_continue(&self) {
        let mut head = Response::new(());
        *head.status_mut() = StatusCode::CONTINUE;
        self.send(head);
    }
}

const MAX_WAITING: usize = 8;
